package ids_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session/ids"
	"holdfast/test/bubble"
)

// wallClock is a wall clock that a test sets; in a bubble it also runs with the bubble's time.
type wallClock struct {
	mu     sync.Mutex
	offset time.Duration // guarded by mu
	// runs says that the clock runs with the bubble's time, instead of standing where it was set.
	runs bool
}

func (c *wallClock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := ids.TwitterEpoch().Add(c.offset)
	if c.runs {
		at = at.Add(time.Since(bubbleBegin))
	}
	return at
}

func (c *wallClock) set(ms float64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.offset = time.Duration(ms * float64(time.Millisecond))
}

// bubbleBegin is when every bubble's clock begins.
var bubbleBegin = time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC)

// generator returns a Snowflake of c, and its clock, which stands at 0.
func generator(t interface{ Fatal(...any) }, c ids.SnowflakeConfig) (*ids.Snowflake, *wallClock) {
	clock := &wallClock{}
	c.Now = clock.now
	g, err := ids.NewSnowflake(c)
	if err != nil {
		t.Fatal(err)
	}
	return g, clock
}

// step is one call of Next in a table: with the clock set to ms, it returns id, or refuses.
type step struct {
	ms     float64
	id     uint64
	refuse error
	behind time.Duration
}

func id(ms, worker, rest uint64) uint64 { return ms<<22 | 3<<17 | worker<<12 | rest }

// The four policies on clocks that stand where the table sets them, for machine (3, 7). No step waits.
func TestClockTables(t *testing.T) {
	back := ids.ErrClockSetBack
	machine := ids.Machine{Datacenter: 3, Worker: 7}
	for _, tt := range []struct {
		name   string
		config ids.SnowflakeConfig
		steps  []step
	}{
		{"the clock runs", ids.SnowflakeConfig{}, []step{
			{ms: 1, id: id(1, 7, 0)},
			{ms: 1.999, id: id(1, 7, 1)},
			{ms: 2, id: id(2, 7, 0)},
			{ms: 1000, id: id(1000, 7, 0)},
		}},
		{"refuse", ids.SnowflakeConfig{Policy: ids.Refuse}, []step{
			{ms: 10, id: id(10, 7, 0)},
			{ms: 9, refuse: back, behind: time.Millisecond},
			{ms: 9.75, refuse: back, behind: 250 * time.Microsecond},
			{ms: 10, id: id(10, 7, 1)}, // the sequence goes on and does not begin again: twitter-archive/snowflake#6
			{ms: 11, id: id(11, 7, 0)},
			{ms: 1, refuse: back, behind: 10 * time.Millisecond},
			{ms: 12, id: id(12, 7, 0)},
		}},
		{"wait, from 15 ms on", ids.SnowflakeConfig{Policy: ids.Wait}, []step{
			{ms: 100, id: id(100, 7, 0)},
			{ms: 85, refuse: back, behind: 15 * time.Millisecond},
			{ms: 10, refuse: back, behind: 90 * time.Millisecond},
			{ms: 100, id: id(100, 7, 1)},
		}},
		{"switch worker", ids.SnowflakeConfig{Policy: ids.SwitchWorker, Spares: []uint64{9, 8}}, []step{
			{ms: 100, id: id(100, 7, 0)},
			{ms: 50, id: id(50, 9, 0)},
			{ms: 50, id: id(50, 9, 1)},
			{ms: 100, id: id(100, 9, 0)}, // the clock has caught up, and worker 9 goes on
			{ms: 99, id: id(99, 8, 0)},
			{ms: 98, refuse: back, behind: time.Millisecond},
			{ms: 101, id: id(101, 8, 0)},
			{ms: 100.5, refuse: back, behind: 500 * time.Microsecond}, // 7 and 9 have made ids in 100
			{ms: 102, id: id(102, 8, 0)},
			{ms: 101, id: id(101, 7, 0)}, // worker 7 has made no id in 101
			{ms: 100, refuse: back, behind: time.Millisecond},
		}},
		{
			"no worker goes back to before the start",
			ids.SnowflakeConfig{Policy: ids.SwitchWorker, Spares: []uint64{9}},
			[]step{
				{ms: 2, id: id(2, 7, 0)},
				{ms: 0, refuse: back, behind: 2 * time.Millisecond}, // an earlier process may have used worker 9 then
			},
		},
		{"one rollback bit", ids.SnowflakeConfig{Policy: ids.RollbackBits, RollbackBits: 1}, []step{
			{ms: 100, id: id(100, 7, 0)},
			{ms: 99, id: id(99, 7, 1<<11)},
			{ms: 99, id: id(99, 7, 1<<11|1)},
			{ms: 98, refuse: back, behind: time.Millisecond},
			{ms: 101, id: id(101, 7, 1<<11)},
			{ms: 100, refuse: back, behind: time.Millisecond},
			{ms: 102, id: id(102, 7, 1<<11)},
			{ms: 101, id: id(101, 7, 0)}, // the rollback number is 0 again
		}},
		{"two rollback bits", ids.SnowflakeConfig{Policy: ids.RollbackBits, RollbackBits: 2}, []step{
			{ms: 100, id: id(100, 7, 0)},
			{ms: 99, id: id(99, 7, 1<<10)},
			{ms: 105, id: id(105, 7, 1<<10)},
			{ms: 104, id: id(104, 7, 2<<10)}, // the next number, although 0 is free again
			{ms: 103, id: id(103, 7, 3<<10)},
			{ms: 102, id: id(102, 7, 0)},
			{ms: 101, refuse: back, behind: time.Millisecond},
		}},
		{
			"restart with the clock set back",
			ids.SnowflakeConfig{NotBefore: ids.TwitterEpoch().Add(50 * time.Millisecond)},
			[]step{
				{ms: 49, refuse: back, behind: time.Millisecond},
				{ms: 51, id: id(51, 7, 0)},
			},
		},
		{"restart, spares", ids.SnowflakeConfig{
			Policy: ids.SwitchWorker, Spares: []uint64{8}, NotBefore: ids.TwitterEpoch().Add(50 * time.Millisecond),
		}, []step{
			{ms: 49, refuse: back, behind: time.Millisecond},
			{ms: 60, id: id(60, 7, 0)},
			{ms: 55, id: id(55, 8, 0)},
			{ms: 50, refuse: back, behind: 5 * time.Millisecond}, // an earlier process may have used both workers then
		}},
		{"the end of the 41 bits", ids.SnowflakeConfig{}, []step{
			{ms: 1<<41 - 1, id: id(1<<41-1, 7, 0)},
			{ms: 1 << 41, refuse: ids.ErrClockRange},
			{ms: -1, refuse: ids.ErrClockRange},
			{ms: 1<<41 - 1, id: id(1<<41-1, 7, 1)},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.config.Machine = machine
			g, clock := generator(t, tt.config)
			for i, s := range tt.steps {
				clock.set(s.ms)
				got, err := g.Next(t.Context())
				if got != s.id || !errors.Is(err, s.refuse) || (err == nil) != (s.refuse == nil) {
					t.Fatalf("step %d at %v: %#x, %v, want %#x, %v", i, s.ms, got, err, s.id, s.refuse)
				}
				if e, ok := errors.AsType[*ids.ClockSetBackError](err); ok != (s.behind != 0) ||
					ok && e.Behind != s.behind {
					t.Errorf("step %d at %v: %v, want %v behind", i, s.ms, err, s.behind)
				}
			}
		})
	}
}

// A Snowflake makes no id in the millisecond in which it was made: a process that ended in that millisecond may have
// had the same machine number.
func TestFirstIDIsLaterThanTheStart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clock := &wallClock{runs: true}
		for range 100 {
			g, err := ids.NewSnowflake(ids.SnowflakeConfig{Now: clock.now})
			if err != nil {
				t.Fatal(err)
			}
			begin := clock.now().Sub(ids.TwitterEpoch()).Milliseconds()
			first, err := g.Next(t.Context())
			if err != nil || int64(first>>22) != begin+1 || first&(1<<22-1) != 0 {
				t.Fatalf("begun at %d: %#x, %v", begin, first, err)
			}
			time.Sleep(100 * time.Microsecond)
		}
	})
}

// A wait ends the moment the clock has caught up, and Next then returns the id after the newest.
func TestWaitUntilTheClockHasCaughtUp(t *testing.T) {
	for _, back := range []time.Duration{time.Millisecond, 7 * time.Millisecond, 14*time.Millisecond +
		999*time.Microsecond} {
		bubble.Test(t, func(t *testing.T) {
			clock := &wallClock{runs: true}
			clock.set(1000)
			g, err := ids.NewSnowflake(ids.SnowflakeConfig{Policy: ids.Wait, Now: clock.now})
			if err != nil {
				t.Fatal(err)
			}
			newest, err := g.Next(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			clock.set(1000 - float64(back)/float64(time.Millisecond))
			begin := time.Now()
			next, err := g.Next(t.Context())
			if err != nil || next != newest+1 || time.Since(begin) != back {
				t.Errorf("set back by %v: %#x after %#x, %v, waited for %v", back, next, newest, err, time.Since(begin))
			}
			clock.set(960)
			if _, err = g.Next(t.Context()); !errors.Is(err, ids.ErrClockSetBack) {
				t.Errorf("set back by 40 ms: %v", err)
			}
		})
	}
}

// A wait ends with its context, and after 15 ms when the clock stands.
func TestWaitsAreBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		g, clock := generator(t, ids.SnowflakeConfig{Policy: ids.Wait})
		begin := time.Now()
		if _, err := g.Next(t.Context()); !errors.Is(err, ids.ErrClockStopped) || time.Since(begin) != ids.MaxWait {
			t.Errorf("a clock that stands: %v after %v", err, time.Since(begin))
		}
		clock.set(20)
		if _, err := g.Next(t.Context()); err != nil {
			t.Error(err)
		}
		clock.set(10)
		begin = time.Now()
		if _, err := g.Next(t.Context()); !errors.Is(err, ids.ErrClockStopped) || time.Since(begin) > ids.MaxWait {
			t.Errorf("a clock that was set back and stands: %v after %v", err, time.Since(begin))
		}
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		if _, err := g.Next(ctx); !errors.Is(err, cause) {
			t.Errorf("a context that has ended: %v", err)
		}
	})
}

// A millisecond has 4,096 ids, or fewer with rollback bits. Then Next waits for the next millisecond.
func TestSequenceIsUsedUp(t *testing.T) {
	for _, tt := range []struct {
		policy ids.Policy
		bits   int
		perMS  uint64
	}{{ids.Refuse, 0, 4096}, {ids.Wait, 0, 4096}, {ids.RollbackBits, 1, 2048}, {ids.RollbackBits, 8, 16}} {
		bubble.Test(t, func(t *testing.T) {
			clock := &wallClock{runs: true}
			g, err := ids.NewSnowflake(ids.SnowflakeConfig{Policy: tt.policy, RollbackBits: tt.bits, Now: clock.now})
			if err != nil {
				t.Fatal(err)
			}
			begin := time.Now()
			for n := range 3*tt.perMS + 1 {
				got, err := g.Next(t.Context())
				if want := (n/tt.perMS+1)<<22 | n%tt.perMS; err != nil || got != want {
					t.Fatalf("%v, id %d: %#x, %v, want %#x", tt.policy, n, got, err, want)
				}
			}
			if took := time.Since(begin); took != 4*time.Millisecond {
				t.Errorf("%v: %d ids took %v", tt.policy, 3*tt.perMS+1, took)
			}
		})
	}
}

// The last millisecond of the 41 bits has 4,096 ids. After them Next refuses.
func TestLastMillisecond(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		clock := &wallClock{runs: true}
		clock.set(ids.MaxSnowflakeMS - 1)
		g, err := ids.NewSnowflake(
			ids.SnowflakeConfig{Machine: ids.Machine{Datacenter: 31, Worker: 31}, Now: clock.now},
		)
		if err != nil {
			t.Fatal(err)
		}
		var last uint64
		for range 4096 {
			if last, err = g.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if last != 1<<63-1 {
			t.Errorf("the last id is %#x", last)
		}
		if got, err := g.Next(t.Context()); !errors.Is(err, ids.ErrClockRange) || got != 0 {
			t.Errorf("after the last id: %#x, %v", got, err)
		}
		if _, err := ids.NewSnowflake(ids.SnowflakeConfig{Now: clock.now}); !errors.Is(err, ids.ErrClockRange) {
			t.Errorf("after the last millisecond: %v", err)
		}
	})
}

// snowflakeConfigs returns configurations of all policies.
func snowflakeConfigs() []ids.SnowflakeConfig {
	machine := ids.Machine{Datacenter: 5, Worker: 4}
	return []ids.SnowflakeConfig{
		{Machine: machine, Policy: ids.Refuse},
		{Machine: machine, Policy: ids.Wait},
		{Machine: machine, Policy: ids.SwitchWorker, Spares: []uint64{31}},
		{Machine: machine, Policy: ids.SwitchWorker, Spares: []uint64{0, 30, 2}},
		{Machine: machine, Policy: ids.RollbackBits, RollbackBits: 1},
		{Machine: machine, Policy: ids.RollbackBits, RollbackBits: 6},
	}
}

// On any clock no id comes twice, every id has the clock's millisecond and the machine's numbers, and ids rise under
// Refuse and Wait. Next refuses only if the clock is behind, or stands and the millisecond's ids are used up.
func TestIDsAreUniqueOnAnyClock(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := rapid.SampledFrom(snowflakeConfigs()).Draw(t, "config")
		g, clock := generator(t, c)
		seen := map[uint64]bool{}
		newest, at := uint64(0), int64(0)
		ended, end := context.WithCancel(context.Background())
		end() // so that Next returns where it would wait for the clock, which stands
		for range rapid.IntRange(1, 400).Draw(t, "looks") {
			at = max(at+rapid.Int64Range(-20, 20).Draw(t, "jump"), 0)
			clock.set(float64(at))
			got, err := g.Next(ended)
			if err != nil {
				if at > int64(newest>>22)+1 {
					t.Fatalf("%v: refused at %d, the highest id being of %d: %v", c.Policy, at, newest>>22, err)
				}
				continue
			}
			if seen[got] {
				t.Fatalf("%v: %#x comes twice", c.Policy, got)
			}
			seen[got] = true
			if got <= newest && (c.Policy == ids.Refuse || c.Policy == ids.Wait) {
				t.Fatalf("%v: %#x after %#x", c.Policy, got, newest)
			}
			newest = max(newest, got)
			checkParts(t, c, g.Layout(), got, at)
		}
	})
}

// checkParts fails unless got has the millisecond at, the datacenter of c, and a worker of c.
func checkParts(t *rapid.T, c ids.SnowflakeConfig, l ids.Layout, got uint64, at int64) {
	d, err := l.Decode(got)
	if err != nil || d.Value("ms") != uint64(at) || d.Value("datacenter") != c.Machine.Datacenter ||
		d.Value("worker") != c.Machine.Worker && !slices.Contains(c.Spares, d.Value("worker")) {
		t.Fatalf("%v at %d: %+v, %v", c.Policy, at, d, err)
	}
}
