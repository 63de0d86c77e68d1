package play

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/bench/system"
	"holdfast/test/bubble"
)

func TestFlood(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		under, most := 0, 0
		o, err := flood(t.Context(), 100, 10, func(i int, done func(error)) {
			mu.Lock()
			under++
			most = max(most, under)
			mu.Unlock()
			took := time.Second
			if i == 99 {
				took = 3 * time.Second
			}
			time.AfterFunc(took, func() {
				mu.Lock()
				under--
				mu.Unlock()
				done(nil)
			})
		})
		if err != nil {
			t.Fatal(err)
		}
		if most != 10 {
			t.Errorf("%d requests at a time, want 10", most)
		}
		if o.elapsed != 12*time.Second || o.at(0.5) != time.Second || o.at(0.99) != 3*time.Second {
			t.Errorf("elapsed %v, p50 %v, p99 %v, want 12s, 1s, 3s", o.elapsed, o.at(0.5), o.at(0.99))
		}
		if got, want := o.rate(), 100.0/12; got != want {
			t.Errorf("rate is %v, want %v", got, want)
		}
	})
}

func TestFloodComesBack(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		asked := 0
		o, err := flood(t.Context(), 1, 1, func(_ int, done func(error)) {
			if asked++; asked < 3 {
				done(&system.RefusedError{After: time.Minute})
				return
			}
			done(nil)
		})
		if err != nil {
			t.Fatal(err)
		}
		if o.refused != 2 || o.took[0] != 2*time.Minute {
			t.Errorf("refused %d times, took %v, want 2 and the two minutes that the refusals named", o.refused, o.took[0])
		}
	})
}

func TestFloodFails(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		if _, err := flood(t.Context(), 10, 3, func(i int, done func(error)) {
			if i == 4 {
				done(broken)
				return
			}
			done(nil)
		}); !errors.Is(err, broken) {
			t.Errorf("error is %v, want that of a request", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := flood(ctx, 1, 1, func(int, func(error)) {}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("error is %v, want that of the bound", err)
		}
		synctest.Wait()
	})
}

func TestFloodOfNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		begin := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		o, err := flood(ctx, 0, 10, func(int, func(error)) { t.Error("a request was made") })
		if err != nil || len(o.took) != 0 || time.Since(begin) != 0 {
			t.Errorf("got %+v, %v after %v", o, err, time.Since(begin))
		}
	})
}
