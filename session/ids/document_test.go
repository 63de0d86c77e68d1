package ids_test

import (
	"errors"
	"fmt"
	"math"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/session/ids"
)

// wantInDocument fails for each text that docs/ids.md does not hold. Line breaks in the document count as spaces.
func wantInDocument(t *testing.T, texts ...string) {
	t.Helper()
	b, err := os.ReadFile("../../docs/ids.md")
	if err != nil {
		t.Fatal(err)
	}
	document := strings.Join(strings.Fields(string(b)), " ")
	for _, text := range texts {
		if !strings.Contains(document, text) {
			t.Errorf("docs/ids.md does not say %q", text)
		}
	}
}

// fieldOf returns the field of l with this name.
func fieldOf(t *testing.T, l ids.Layout, name string) ids.Field {
	t.Helper()
	for _, f := range l.Fields() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("%s has no field %s", l.Name(), name)
	return ids.Field{}
}

// The table of layouts in docs/ids.md has the bits, the years and the ids of a millisecond that the layouts have.
func TestDocumentOfLayouts(t *testing.T) {
	years := func(l ids.Layout) float64 {
		return float64(fieldOf(t, l, "ms").Max+1) / 1000 / 86400 / 365.25
	}
	bits := func(l ids.Layout) string {
		var parts []string
		for _, f := range l.Fields() {
			parts = append(parts, fmt.Sprintf("%d %s", f.Bits, f.Name))
		}
		return strings.Join(parts, ", ")
	}
	ours, zooKeeper, twitter := ids.HoldfastLayout(), ids.ZooKeeperLayout(), snowflake(t, twitterEpoch, 0)
	last := twitter.Epoch().Add(ids.MaxSnowflakeMS * time.Millisecond)
	wantInDocument(t,
		fmt.Sprintf("| `holdfast` | %s | from %s UTC | %.2f years, then opens are refused |", bits(ours),
			ours.Epoch().Format(time.DateOnly), years(ours)),
		fmt.Sprintf("| `zookeeper` | %s |", bits(zooKeeper)),
		fmt.Sprintf("| `snowflake` | 0, %s | from %s,", bits(twitter), twitter.Epoch().Format("2006-01-02T15:04:05.000Z")),
		fmt.Sprintf("%.2f years: Twitter's until %s", years(twitter), last.Format(time.DateOnly)),
		fmt.Sprintf("| %s, then the maker waits |", thousands(fieldOf(t, twitter, "sequence").Max+1)),
		fmt.Sprintf("| %s, then the counter carries into the time |", thousands(fieldOf(t, ours, "counter").Max+1)),
		fmt.Sprintf("**%.2f years.** %d bits of milliseconds", years(zooKeeper), fieldOf(t, zooKeeper, "ms").Bits),
		fmt.Sprintf("more than %.1f million sessions a second",
			math.Floor(float64(fieldOf(t, zooKeeper, "counter").Max+1)*1000/1e5)/10),
	)
}

// thousands writes n as the document does: 4,096.
func thousands(n uint64) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%s,%03d", thousands(n/1000), n%1000)
}

// The table of text forms in docs/ids.md has the width and the largest text of each form.
func TestDocumentOfForms(t *testing.T) {
	digits := map[ids.Form]string{
		ids.Hex0x: "`0x`, 0-9a-f", ids.Hex: "0-9a-f", ids.Base36: "0-9a-z", ids.Base62: "0-9A-Za-z", ids.Decimal: "0-9",
	}
	var short, widths []string
	for _, f := range ids.Forms() {
		width, sorts := fmt.Sprint(f.Width()), "yes"
		if !f.Sorts() {
			width, sorts = "1-"+width, "no"
		}
		if digits[f] == "" {
			short, widths = append(short, "`"+f.String()+"`"), append(widths, width)
			continue
		}
		wantInDocument(t, fmt.Sprintf("| `%v` | %s | %s | %s | `%s` |", f, width, digits[f], sorts, f.Format(1<<64-1)))
	}
	wantInDocument(t, fmt.Sprintf("| %s | %s | as above | no |", strings.Join(short, ", "), strings.Join(widths, ", ")))
}

// docs/ids.md names every policy, and the longest wait.
func TestDocumentOfPolicies(t *testing.T) {
	for _, p := range ids.Policies() {
		wantInDocument(t, fmt.Sprintf("| `%v` |", p))
	}
	wantInDocument(t, fmt.Sprintf("waits if it is less than %d ms behind", ids.MaxWait.Milliseconds()),
		fmt.Sprintf("fails after %d ms if the clock stands", ids.MaxWait.Milliseconds()))
}

// docs/ids.md says from when to when ZooKeeper up to 3.4.5 lost the server's number, by wall time.
func TestDocumentOfOldZooKeeperIDs(t *testing.T) {
	day := func(s string) int64 {
		at, err := time.Parse(time.DateOnly, s)
		if err != nil {
			t.Fatal(err)
		}
		return at.UnixMilli()
	}
	lost := func(ms int64) bool { return ids.ZooKeeperSeedSigned(1, ms)>>56 == 0xff }
	const begin, end = "2022-04-06", "2039-09-07"
	for _, tt := range []struct {
		ms   int64
		want bool
	}{
		{day(begin), false},
		{day(begin) + 86_400_000, true},
		{day(end), true},
		{day(end) + 86_400_000, false},
	} {
		if got := lost(tt.ms); got != tt.want {
			t.Errorf("at %v: the number is lost: %t, want %t", time.UnixMilli(tt.ms).UTC(), got, tt.want)
		}
	}
	wantInDocument(t, fmt.Sprintf("(from %s to %s by wall time)", begin, end))
}

// docs/ids.md says how many milliseconds' ids a million sessions of ZooKeeper use, and how likely two servers of 20
// have one number modulo 256.
func TestDocumentOfZooKeepersCollisions(t *testing.T) {
	l := ids.ZooKeeperLayout()
	seed, err := l.Decode(ids.ZooKeeperSeed(1, 2_710_456))
	if err != nil {
		t.Fatal(err)
	}
	_, last := zooKeeper(1, 2_710_456, 1_000_000)
	after, err := l.Decode(last)
	if err != nil {
		t.Fatal(err)
	}
	wantInDocument(t,
		fmt.Sprintf("After a million sessions that is %d milliseconds", after.Value("ms")-seed.Value("ms")+1),
		fmt.Sprintf("with a probability of %.0f %%.", 100*alike(float64(fieldOf(t, l, "server").Max+1), 20)),
	)
}

// zooKeeper returns the first and the last id of a ZooKeeper server that makes so many sessions after its start.
func zooKeeper(server, ms int64, sessions uint64) (first, last uint64) {
	seed := ids.ZooKeeperSeed(server, ms)
	return seed + 1, seed + sessions
}

// In each case in which ZooKeeper's ids come twice, session.NextID returns a new id with the same clocks and the same
// number of sessions, because it continues from the mark of the node number.
func TestWhereZooKeepersIDsCollideOursDoNot(t *testing.T) {
	const uptime = 2710456
	for _, tt := range []struct {
		name     string
		other    int64 // number of the server that starts second; the first has 1
		later    int64 // its clock, ms after the first one's
		sessions uint64
		collides bool
	}{
		{"numbers modulo 256", 257, 0, 1, true},
		{"34.84 years later", 1, 1 << 40, 1, true},
		{"reboot, the same millisecond of uptime", 1, 0, 1, true},
		{"reboot, 15 ms later, after a million sessions (carry)", 1, 15, 1_000_000, true},
		{"reboot, 16 ms later, after a million sessions", 1, 16, 1_000_000, false},
	} {
		first, last := zooKeeper(1, uptime, tt.sessions)
		otherFirst, otherLast := zooKeeper(tt.other, uptime+tt.later, tt.sessions)
		if collides := first <= otherLast && otherFirst <= last; collides != tt.collides {
			t.Errorf("%s: %#x to %#x and %#x to %#x: %t", tt.name, first, last, otherFirst, otherLast, collides)
		}
		mark := session.ID(last)
		id, err := session.NextID(mark, 1, uint64(uptime+tt.later)&session.MaxMS)
		if err != nil || id <= mark {
			t.Errorf("%s: ours is %v after %v, %v", tt.name, id, mark, err)
		}
	}
	// Where ZooKeeper's clock wraps, NextID refuses.
	if _, err := session.NextID(session.ID(0x01FFFFFFFFFFFFFF), 1, session.MaxMS); !errors.Is(err,
		session.ErrIDsUsedUp) {
		t.Errorf("after the last id: %v", err)
	}
	if _, err := session.NextID(0, 1, session.MaxMS+1); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("after 34.84 years: %v", err)
	}
}
