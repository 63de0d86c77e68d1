package ids_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/session/ids"
)

const year = 365.25 * 24 * float64(time.Hour)

// The figures of docs/ids.md that are not of machine numbers (those are in machine_test.go).
func TestFiguresOfTheDocument(t *testing.T) {
	ms := float64(time.Millisecond)
	for _, tt := range []struct {
		what      string
		got, want float64
		within    float64
	}{
		{"years of 40 bits", (session.MaxMS + 1) * ms / year, 34.84, 0.005},
		{"years of 41 bits", (ids.MaxSnowflakeMS + 1) * ms / year, 69.68, 0.005},
		{"sessions a second that outrun the clock", 1 << 16 * 1000, 65.536e6, 0},
		{"ms that a million sessions carry", 1e6 / (1 << 16), 15.26, 0.005},
		{"coincident seeds a year: 1,000 servers, a boot a week, one in 2,000", 1000 * 52 / 2000.0, 26, 0},
		{"20 numbers modulo 256 of which two are alike", alike(256, 20), 0.533, 0.0005},
		{"days of 2^32 transactions, 1,000 a second", (1 << 32) / 1000.0 / 86400, 49.7, 0.05},
		{"days of 2^32 transactions, 10,000 a second", (1 << 32) / 10000.0 / 86400, 4.97, 0.005},
		{
			"years of 2^64 entries, 1,000,000 a second", math.Pow(2, 64) / 1e6 * float64(time.Second) / year, 584_542,
			0.5,
		},
		{"years of 2^32 terms, one a second", (1 << 32) * float64(time.Second) / year, 136.1, 0.05},
		{"ns an id of 4,096 a millisecond", ms / 4096, 244.1, 0.05},
		{"a billion UUIDv4 of which two are alike", 1e18 / math.Pow(2, 123), 9.4e-20, 0.05e-20},
	} {
		if math.Abs(tt.got-tt.want) > tt.within {
			t.Errorf("%s: %v, want %v", tt.what, tt.got, tt.want)
		}
	}
}

// zooKeeper gives out ids as ZooKeeper's server does: from the seed up, with nothing that remembers.
func zooKeeper(server, ms int64, sessions uint64) (first, last uint64) {
	seed := ids.ZooKeeperSeed(server, ms)
	return seed + 1, seed + sessions
}

// The ways in which ZooKeeper's ids come twice, and what ours do with the same clocks and the same number of sessions:
// the mark of the node's number makes the next id a new one.
func TestWhereZooKeepersIDsCollideOursDoNot(t *testing.T) {
	const uptime = 2710456
	for _, tt := range []struct {
		name     string
		other    int64 // the number of the server that starts second; the first is 1
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
	// Where ZooKeeper's clock wraps, ours is refused.
	if _, err := session.NextID(session.ID(0x01FFFFFFFFFFFFFF), 1, session.MaxMS); !errors.Is(err,
		session.ErrIDsUsedUp) {
		t.Errorf("after the last id: %v", err)
	}
	if _, err := session.NextID(0, 1, session.MaxMS+1); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("after 34.84 years: %v", err)
	}
}
