package writers_test

import (
	"maps"
	"reflect"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"holdfast/tree/writers"
)

// restored returns the table that the records make, and its digest.
func restored(records []writers.Record, alive func(uint64) bool) (*writers.Table, bag, error) {
	digest := bag{}
	r := writers.NewRestorer(digest, small(), alive)
	for _, one := range records {
		if err := r.Add(one); err != nil {
			return nil, nil, err
		}
	}
	return r.Table(), digest, nil
}

// TestRestore: a table that is made of the records of another one has its digest, and behaves the same from then on.
func TestRestore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		h := newHistory()
		for range rapid.IntRange(0, 40).Draw(t, "before") {
			h.step(t)
		}
		root, was := h.table.Freeze(), h.want.clone()
		replica, digest, err := restored(recordsOf(root), everybody)
		if err != nil {
			t.Fatal(err)
		}
		second := &history{table: replica, digest: digest, want: h.want}
		for range rapid.IntRange(0, 40).Draw(t, "after") {
			same(t, "restored", &replica.Root, second.want)
			if !maps.Equal(digest, second.want.digest()) {
				t.Fatal("the digest is another one")
			}
			second.step(t)
		}
		same(t, "the original, which shares results with the replica", root, was)
	})
}

// TestRestoreRefuses: records that no table has are refused, with what is wrong.
func TestRestoreRefuses(t *testing.T) {
	good := func() []writers.Record {
		return []writers.Record{
			{Session: 3, Writer: writers.Writer{Applied: 2, Acked: 2}, Principal: "ip:10.0.0.1", Will: &writers.Will{Data: []byte("w")}},
			{Session: 4, Writer: writers.Writer{Applied: 5, Floor: 3, Acked: 4}, Results: [][]byte{[]byte("five")}},
			{Session: 5, Writer: writers.Writer{Applied: 2}, Results: [][]byte{make([]byte, 367), make([]byte, 500)}},
		}
	}
	if _, _, err := restored(good(), everybody); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		damage func(all []writers.Record)
		says   string
	}{
		"out of order":     {func(all []writers.Record) { all[0], all[1] = all[1], all[0] }, "comes after"},
		"twice":            {func(all []writers.Record) { all[1].Session = 3 }, "comes after"},
		"no session":       {func(all []writers.Record) { all[0].Session = 0 }, "comes after"},
		"a dead session":   {func(all []writers.Record) { all[1].Session = 13 }, "does not exist"},
		"no write":         {func(all []writers.Record) { all[0].Writer = writers.Writer{} }, "no write"},
		"floor too high":   {func(all []writers.Record) { all[1].Floor = 6 }, "floor 6"},
		"acked too high":   {func(all []writers.Record) { all[1].Acked = 1 << 63 }, "acknowledged"},
		"results missing":  {func(all []writers.Record) { all[1].Results = nil }, "has 0 results"},
		"results too many": {func(all []writers.Record) { all[0].Results = [][]byte{nil} }, "has 1 results"},
		"a number without a result": {
			func(all []writers.Record) { all[1].Applied = 1<<64 - 1 }, "has 1 results",
		},
		"too many": {
			func(all []writers.Record) { all[2].Applied, all[2].Results = 6, make([][]byte, 6) }, "at most 5",
		},
		"too large": {func(all []writers.Record) { all[2].Results[0] = make([]byte, 368) }, "than 400 bytes"},
		"a large will": {
			func(all []writers.Record) { all[0].Will = &writers.Will{Data: make([]byte, writers.MaxWill+1)} }, "73729",
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := good()
			c.damage(all)
			_, _, err := restored(all, func(id uint64) bool { return id < 13 })
			if err == nil || !strings.Contains(err.Error(), c.says) || !strings.Contains(err.Error(), "session 0x") {
				t.Errorf("error %v, want one with %q", err, c.says)
			}
		})
	}
}

// recordFrom reads a record from bytes that a fuzzer made, and returns the rest.
func recordFrom(b []byte) (writers.Record, []byte) {
	next := func() (n uint64) {
		if len(b) == 0 {
			return 0
		}
		n, b = uint64(b[0]), b[1:]
		if n >= 0xf0 {
			n -= 0x100 // the numbers below 2^64
		}
		return n
	}
	one := writers.Record{Session: next(), Writer: writers.Writer{Applied: next(), Floor: next(), Acked: next()}}
	for range next() % 8 {
		one.Results = append(one.Results, make([]byte, min(next(), 0xff)))
	}
	if will := next(); will > 0 {
		one.Will = &writers.Will{Data: make([]byte, min(will, 0xff)), OnClose: will%2 == 0}
	}
	return one, b
}

// FuzzRestoreRecords: a table that accepts records has these and no others, and continues without a panic.
func FuzzRestoreRecords(f *testing.F) {
	f.Add([]byte{1, 3, 1, 2, 1, 10, 0, 2, 1, 0, 0, 1, 5, 2})
	f.Add([]byte{1, 0xff, 0xfe, 0, 1, 4, 0})
	f.Add([]byte{0xff, 4, 0, 0, 4, 1, 1, 1, 1, 200, 1, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		digest := bag{}
		r := writers.NewRestorer(digest, small(), everybody)
		var taken []writers.Record
		for len(b) > 0 {
			var one writers.Record
			if one, b = recordFrom(b); r.Add(one) == nil {
				taken = append(taken, one)
			}
		}
		table := r.Table()
		if got := recordsOf(table.Freeze()); !reflect.DeepEqual(got, taken) {
			t.Fatalf("records %+v, want %+v", got, taken)
		}
		for _, one := range taken {
			for _, number := range []uint64{0, one.Applied, one.Applied + 1, 1<<64 - 1} {
				if v, _ := table.Admit(one.Session, number, number-1); v == writers.Apply {
					table.Keep(one.Session, number, "", []byte("result"))
				}
			}
			table.Moved(one.Session)
			table.End(one.Session)
		}
		if len(digest) != 0 || table.Held() != 0 || table.Len() != 0 {
			t.Errorf("%d things in the digest, %d bytes, %d writers after all ends", len(digest), table.Held(), table.Len())
		}
	})
}
