package ids_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
	"holdfast/session/ids"
)

// snowflake returns the layout of snowflakes with an epoch in Unix milliseconds.
func snowflake(t interface{ Fatal(...any) }, epoch int64, rollbackBits int) ids.Layout {
	l, err := ids.SnowflakeLayout(time.UnixMilli(epoch), rollbackBits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

const (
	twitterEpoch = 1288834974657
	discordEpoch = 1420070400000
)

// wantField fails unless err is a FieldError of field, with a limit.
func wantField(t *testing.T, err error, field string) {
	t.Helper()
	if e, ok := errors.AsType[*session.FieldError](err); !ok || e.Field != field || e.Limit == "" ||
		!errors.Is(err, session.ErrInvalid) {
		t.Errorf("got %v, want a FieldError of %s with its limit", err, field)
	}
}

func layouts(t interface{ Fatal(...any) }) []ids.Layout {
	all := []ids.Layout{ids.HoldfastLayout(), ids.ZooKeeperLayout(), snowflake(t, discordEpoch, 0)}
	for rollbackBits := range ids.MaxRollbackBits + 1 {
		all = append(all, snowflake(t, twitterEpoch, rollbackBits))
	}
	return all
}

// Published ids: of a post by Wikipedia in June 2022; the example of Discord's reference, whose worker and process are
// our datacenter and worker; and ZooKeeper's ids in the spec (sections 3.2 and 3.3, rule I-16).
func TestKnownIDs(t *testing.T) {
	for _, tt := range []struct {
		name    string
		layout  ids.Layout
		id      uint64
		values  map[string]uint64
		time    string
		elapsed time.Duration
	}{
		{
			"Twitter", snowflake(t, twitterEpoch, 0), 1541815603606036480,
			map[string]uint64{"ms": 367597485448, "datacenter": 0x17a >> 5, "worker": 0x17a & 31, "sequence": 0},
			"2022-06-28T16:07:40.105Z", 0,
		},
		{
			"Discord", snowflake(t, discordEpoch, 0), 175928847299117063,
			map[string]uint64{"ms": 41944705796, "datacenter": 1, "worker": 0, "sequence": 7},
			"2016-04-30T11:18:25.796Z", 0,
		},
		{
			"Discord, two rollback bits", snowflake(t, discordEpoch, 2), 175928847299117063 | 3<<10,
			map[string]uint64{"ms": 41944705796, "datacenter": 1, "worker": 0, "rollback": 3, "sequence": 7},
			"2016-04-30T11:18:25.796Z", 0,
		},
		{
			"the first snowflake", snowflake(t, twitterEpoch, 0), 0,
			map[string]uint64{"ms": 0, "datacenter": 0, "worker": 0, "sequence": 0},
			"2010-11-04T01:42:54.657Z", 0,
		},
		{
			"the last snowflake", snowflake(t, twitterEpoch, 0), 1<<63 - 1,
			map[string]uint64{"ms": 1<<41 - 1, "datacenter": 31, "worker": 31, "sequence": 4095},
			"2080-07-10T17:30:30.208Z", 0,
		},
		{
			"ZooKeeper, after 45 minutes (I-16)", ids.ZooKeeperLayout(), 0x10000295bb80000,
			map[string]uint64{"server": 1, "ms": 0x295bb8, "counter": 0},
			"", 2710456 * time.Millisecond,
		},
		{
			"ZooKeeper, the worked example", ids.ZooKeeperLayout(), 0x017EDDBEB1B90000,
			map[string]uint64{"server": 1, "ms": 0x7EDDBEB1B9, "counter": 0},
			"", 0x7EDDBEB1B9 * time.Millisecond,
		},
		{
			"Holdfast", ids.HoldfastLayout(), 0x0200000000020007,
			map[string]uint64{"node": 2, "ms": 2, "counter": 7},
			"2026-01-01T00:00:00.002Z", 0,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, err := tt.layout.Decode(tt.id)
			if err != nil || d.ID != tt.id || d.Elapsed != tt.elapsed || len(d.Values) != len(tt.values) {
				t.Fatalf("got %+v, %v", d, err)
			}
			for _, v := range d.Values {
				if want, ok := tt.values[v.Name]; !ok || v.Value != want || v.Meaning == "" {
					t.Errorf("%s = %d, want %d", v.Name, v.Value, want)
				}
			}
			if tt.time == "" && !d.Time.IsZero() ||
				tt.time != "" && d.Time.Format("2006-01-02T15:04:05.000Z07:00") != tt.time {
				t.Errorf("time %v, want %q", d.Time, tt.time)
			}
			if id, err := tt.layout.Encode(tt.values); err != nil || id != tt.id {
				t.Errorf("encoded again: %#x, %v, want %#x", id, err, tt.id)
			}
		})
	}
}

// The fields of a layout have no gaps between them, and encoding what Decode returns gives the same id.
func TestLayoutsHaveNoGapsAndLoseNothing(t *testing.T) {
	for _, l := range layouts(t) {
		below := uint(0)
		for _, f := range slices.Backward(l.Fields()) {
			if f.Shift != below || f.Bits == 0 || f.Max >= 1<<f.Bits || f.Min > f.Max {
				t.Errorf("%s: %+v begins at bit %d", l.Name(), f, below)
			}
			below += f.Bits
		}
		if want := map[string]uint{"holdfast": 64, "zookeeper": 64, "snowflake": 63}[l.Name()]; below != want {
			t.Errorf("%s has %d bits, want %d", l.Name(), below, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		l := rapid.SampledFrom(layouts(t)).Draw(t, "layout")
		values := map[string]uint64{}
		for _, f := range l.Fields() {
			values[f.Name] = rapid.Uint64Range(f.Min, f.Max).Draw(t, f.Name)
		}
		id, err := l.Encode(values)
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.Decode(id)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]uint64{}
		for _, v := range d.Values {
			got[v.Name] = v.Value
			if d.Value(v.Name) != v.Value {
				t.Errorf("Value(%s) = %d, want %d", v.Name, d.Value(v.Name), v.Value)
			}
		}
		if !maps.Equal(got, values) || d.Value("nothing") != 0 {
			t.Errorf("%s: %v became %#x and then %v", l.Name(), values, id, got)
		}
		if d.Time.IsZero() {
			return
		}
		if ms, err := l.MS(d.Time); err != nil || ms != values["ms"] {
			t.Errorf("%s: %d ms are %v, which is %d ms, %v", l.Name(), values["ms"], d.Time, ms, err)
		}
	})
}

// The layout holdfast is the layout of session.ID: it shows the same parts of an id, and makes the id from them again.
func TestHoldfastLayoutIsThatOfSessionIDs(t *testing.T) {
	l := ids.HoldfastLayout()
	if !l.Epoch().Equal(session.Epoch()) || l.Usual().Format(7) != session.ID(7).String() {
		t.Errorf("epoch %v, text %s", l.Epoch(), l.Usual().Format(7))
	}
	rapid.Check(t, func(t *rapid.T) {
		id := session.ID(rapid.Uint64Min(1).Draw(t, "id"))
		if rapid.Bool().Draw(t, "made by a node") {
			node := session.Node(rapid.IntRange(1, int(session.MaxNode)).Draw(t, "node"))
			made, err := session.NextID(0, node, rapid.Uint64Range(0, session.MaxMS).Draw(t, "ms"))
			if err != nil {
				t.Fatal(err)
			}
			id = made
		}
		d, err := l.Decode(uint64(id))
		if err != nil || d.Value("node") != uint64(id.Node()) || d.Value("ms") != id.MS() ||
			d.Value("counter") != uint64(id.Counter()) ||
			!d.Time.Equal(id.Time()) {
			t.Errorf("%v is taken apart as %+v, %v", id, d, err)
		}
		again, err := l.Encode(
			map[string]uint64{"node": d.Value("node"), "ms": d.Value("ms"), "counter": d.Value("counter")},
		)
		if (err == nil) != id.Node().Valid() || err == nil && again != uint64(id) {
			t.Errorf("%v is put together as %#x, %v", id, again, err)
		}
	})
}

func TestLayoutsRefuse(t *testing.T) {
	twitter := snowflake(t, twitterEpoch, 0)
	for _, tt := range []struct {
		layout ids.Layout
		values map[string]uint64
		field  string
		limit  string
	}{
		{ids.HoldfastLayout(), nil, "node", "1 to 254"},
		{ids.HoldfastLayout(), map[string]uint64{"node": 255}, "node", "1 to 254"},
		{ids.HoldfastLayout(), map[string]uint64{"node": 1, "ms": 1 << 40}, "ms", "0 to 1099511627775"},
		{ids.HoldfastLayout(), map[string]uint64{"node": 1, "counter": 1 << 16}, "counter", "0 to 65535"},
		{
			ids.HoldfastLayout(),
			map[string]uint64{"node": 1, "worker": 0},
			"worker",
			"a field of layout holdfast: node, ms, counter",
		},
		{ids.ZooKeeperLayout(), map[string]uint64{"server": 256}, "server", "0 to 255"},
		{twitter, map[string]uint64{"ms": 1 << 41}, "ms", "0 to 2199023255551"},
		{twitter, map[string]uint64{"datacenter": 32}, "datacenter", "0 to 31"},
		{twitter, map[string]uint64{"worker": 32}, "worker", "0 to 31"},
		{twitter, map[string]uint64{"sequence": 4096}, "sequence", "0 to 4095"},
		{
			twitter,
			map[string]uint64{"rollback": 1},
			"rollback",
			"a field of layout snowflake: ms, datacenter, worker, sequence",
		},
		{snowflake(t, twitterEpoch, 2), map[string]uint64{"sequence": 1024}, "sequence", "0 to 1023"},
	} {
		id, err := tt.layout.Encode(tt.values)
		wantField(t, err, tt.field)
		if id != 0 || err == nil || !strings.HasSuffix(err.Error(), " must be "+tt.limit) {
			t.Errorf("%s of %v: %#x, %v, want the limit %s", tt.layout.Name(), tt.values, id, err, tt.limit)
		}
	}
	_, err := twitter.Decode(1 << 63)
	wantField(t, err, "id")
	_, err = ids.ZooKeeperLayout().MS(time.Now())
	wantField(t, err, "time")
	for _, at := range []time.Time{
		ids.TwitterEpoch().Add(-1), time.Date(2080, 7, 10, 17, 30, 30, 209e6, time.UTC),
		{},
	} {
		_, err = twitter.MS(at)
		wantField(t, err, "time")
	}
	for _, epoch := range []time.Time{
		time.UnixMicro(1), time.UnixMilli(-1), time.Date(3000, 1, 1, 0, 0, 0, 0, time.UTC),
	} {
		_, err = ids.SnowflakeLayout(epoch, 0)
		wantField(t, err, "epoch")
	}
	for _, n := range []int{-1, ids.MaxRollbackBits + 1} {
		_, err = ids.SnowflakeLayout(time.Time{}, n)
		wantField(t, err, "rollback_bits")
	}
	if l := snowflake(t, twitterEpoch, 0); !l.Epoch().Equal(ids.TwitterEpoch()) {
		t.Errorf("epoch %v", l.Epoch())
	}
}

// ZooKeeper's seeds (I-01, I-03, I-05), and the seeds before 3.4.6, which can be the same for two servers (I-14, I-15).
func TestZooKeeperSeeds(t *testing.T) {
	for _, tt := range []struct {
		name       string
		server, ms int64
		want, old  uint64
	}{
		{"the worked example", 1, 1644397769145, 0x017EDDBEB1B90000, 0x017EDDBEB1B90000},
		{"bit 39 of the clock is 1 (I-15)", 1, 1649267441664, 0x0180000000000000, 0xFF80000000000000},
		{"and on another server", 2, 1649267441664, 0x0280000000000000, 0xFF80000000000000},
		{"the last of those milliseconds", 1, 2199023255551, 0x01FFFFFFFFFF0000, 0xFFFFFFFFFFFF0000},
		{"and the first after them", 1, 2199023255552, 0x0100000000000000, 0x0100000000000000},
		{"server 257 is 1", 257, 5, 0x0100000000050000, 0x0100000000050000},
		{"server -1 is 255", -1, 5, 0xFF00000000050000, 0xFF00000000050000},
		{"the marker of containers", 128, 1 << 40, 0x8000000000000001, 0x8000000000000000},
		{"no session (I-04)", 256, 0, 0, 0},
	} {
		if got := ids.ZooKeeperSeed(tt.server, tt.ms); got != tt.want {
			t.Errorf("%s: %#x, want %#x", tt.name, got, tt.want)
		}
		if got := ids.ZooKeeperSeedSigned(tt.server, tt.ms); got != tt.old {
			t.Errorf("%s, up to 3.4.5: %#x, want %#x", tt.name, got, tt.old)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		server, ms := rapid.Int64().Draw(t, "server"), rapid.Int64Min(0).Draw(t, "ms")
		seed := ids.ZooKeeperSeed(server, ms)
		d, err := ids.ZooKeeperLayout().Decode(seed)
		if err != nil || d.Value("server") != uint64(server)&0xff || d.Value("ms") != uint64(ms)&(1<<40-1) ||
			d.Value("counter") > 1 {
			t.Errorf("%#x of server %d at %d: %+v, %v", seed, server, ms, d, err)
		}
	})
}

func TestZooKeeperNotes(t *testing.T) {
	for id, want := range map[uint64][]string{
		0:                   {"no session"},
		ids.ContainerMarker: {"container"},
		0x017EDDBEB1B90000:  {"2022-02-09T09:09:29.145Z"},
		0xFF00000000000001:  {"2004-11-03T19:53:47.776Z", "TTL"},
		0xFF80000000000000:  {"2022-04-06T17:50:41.664Z", "TTL", "ZOOKEEPER-1622"},
	} {
		d, err := ids.ZooKeeperLayout().Decode(id)
		if err != nil || len(d.Notes) != len(want) {
			t.Errorf("%#x: %q, %v, want %d notes", id, d.Notes, err, len(want))
			continue
		}
		for i, note := range d.Notes {
			if !strings.Contains(note, want[i]) {
				t.Errorf("%#x: note %q, want %q in it", id, note, want[i])
			}
		}
	}
}
