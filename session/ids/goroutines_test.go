package ids_test

import (
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session/ids"
	"holdfast/test/bubble"
)

// many starts goroutines that each take some ids, and calls disturb again and again meanwhile. It returns the ids of
// each goroutine in the order in which it got them. A goroutine tries again when Next refuses because of the clock.
func many(t *testing.T, g *ids.Snowflake, goroutines, each int, disturb func()) [][]uint64 {
	t.Helper()
	made := make([][]uint64, goroutines)
	var wg sync.WaitGroup
	for i := range made {
		wg.Go(func() {
			for len(made[i]) < each {
				next, err := g.Next(t.Context())
				switch {
				case errors.Is(err, ids.ErrClockSetBack), errors.Is(err, ids.ErrClockStopped):
					time.Sleep(time.Millisecond)
				case err != nil:
					t.Error(err)
					return
				default:
					made[i] = append(made[i], next)
				}
				if i == 0 && len(made[i])%64 == 0 {
					disturb()
				}
			}
		})
	}
	wg.Wait()
	return made
}

// Under every policy the ids of many goroutines are unique while the clock jumps. Under Refuse and Wait the ids of each
// goroutine rise.
func TestManyGoroutinesWhileTheClockJumps(t *testing.T) {
	for _, c := range []ids.SnowflakeConfig{
		{Policy: ids.Refuse},
		{Policy: ids.Wait},
		{Policy: ids.SwitchWorker, Spares: []uint64{1, 2, 3}},
		{Policy: ids.RollbackBits, RollbackBits: 2},
	} {
		bubble.Test(t, func(t *testing.T) {
			const goroutines, each = 32, 1000
			clock := &wallClock{runs: true}
			clock.set(1000)
			c.Now = clock.now
			g, err := ids.NewSnowflake(c)
			if err != nil {
				t.Fatal(err)
			}
			jumps := 0
			made := many(t, g, goroutines, each, func() {
				jumps++
				clock.set(1000 - float64(jumps%5)*3)
			})
			if jumps < each/64 {
				t.Errorf("%v: the clock jumped %d times", c.Policy, jumps)
			}
			for i, taken := range made {
				if rises := slices.IsSorted(taken); !rises && (c.Policy == ids.Refuse || c.Policy == ids.Wait) {
					t.Errorf("%v: the ids of goroutine %d do not rise", c.Policy, i)
				}
			}
			all := slices.Concat(made...)
			slices.Sort(all)
			if len(all) != goroutines*each || len(slices.Compact(all)) != goroutines*each {
				t.Errorf("%v: some of %d ids are the same", c.Policy, len(all))
			}
		})
	}
}

// Goroutines that take ids at the same time never see the clock as set back. Here every look at the clock is a
// millisecond later than the look before, and lets other goroutines run before its value is used.
func TestGoroutinesAreNoClockSetBack(t *testing.T) {
	var looks atomic.Int64
	g, err := ids.NewSnowflake(ids.SnowflakeConfig{Now: func() time.Time {
		at := ids.TwitterEpoch().Add(time.Duration(looks.Add(1)) * time.Millisecond)
		runtime.Gosched()
		return at
	}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 2000 {
				if _, err := g.Next(t.Context()); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
}

// Ids of many goroutines are unique on the real clock and in parallel, where the race detector can see them.
func TestManyGoroutinesOnTheRealClock(t *testing.T) {
	g, err := ids.NewSnowflake(ids.SnowflakeConfig{Policy: ids.Wait})
	if err != nil {
		t.Fatal(err)
	}
	all := slices.Concat(many(t, g, 8, 5000, func() {})...)
	slices.Sort(all)
	if len(all) != 40_000 || len(slices.Compact(all)) != 40_000 {
		t.Errorf("some of %d ids are the same", len(all))
	}
}
