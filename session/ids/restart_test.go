package ids_test

import (
	"context"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session/ids"
)

// Processes that have one machine number one after the other repeat no id on any clock, as long as the clock of each
// starts at or after the newest id of the processes before, whichever worker or rollback number made that id.
func TestRunsOneAfterTheOtherRepeatNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(snowflakeConfigs()).Draw(t, "config")
		clock := &wallClock{}
		c.Now = clock.now
		ended, end := context.WithCancel(context.Background())
		end() // so that Next returns where it would wait for the clock, which stands
		made := map[uint64]bool{}
		newest := int64(0)
		for range rapid.IntRange(2, 4).Draw(t, "runs") {
			at := newest + rapid.Int64Range(0, 20).Draw(t, "start")
			clock.set(float64(at))
			g, err := ids.NewSnowflake(c)
			if err != nil {
				t.Fatal(err)
			}
			for range rapid.IntRange(1, 50).Draw(t, "looks") {
				at = max(at+rapid.Int64Range(-20, 20).Draw(t, "jump"), 0)
				clock.set(float64(at))
				id, err := g.Next(ended)
				if err != nil {
					continue
				}
				if made[id] {
					t.Fatalf("%v: %#x, of millisecond %d, comes twice", c.Policy, id, at)
				}
				made[id], newest = true, max(newest, at)
			}
		}
	})
}

// No policy remembers anything over a restart. A process with the same machine number and a clock that was set back
// makes the same ids again, unless NotBefore says where the clock was.
func TestRestartWithTheClockSetBackRepeatsIDs(t *testing.T) {
	for _, c := range snowflakeConfigs() {
		g, clock := generator(t, c)
		clock.set(10)
		before, err := g.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		restarted, clock := generator(t, c)
		clock.set(10)
		if again, err := restarted.Next(t.Context()); err != nil || again != before {
			t.Errorf("%v: %#x, %v, want %#x again", c.Policy, again, err, before)
		}
		c.NotBefore = ids.TwitterEpoch().Add(10 * time.Millisecond)
		restarted, clock = generator(t, c)
		clock.set(11)
		if again, err := restarted.Next(t.Context()); err != nil || again <= before {
			t.Errorf("%v, not before 10 ms: %#x, %v, want above %#x", c.Policy, again, err, before)
		}
	}
}
