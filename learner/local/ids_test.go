package local

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// L2: ids come in the order of their blocks, each once.
func TestL2ThePoolGivesEachIDOnce(t *testing.T) {
	p := newIDPool()
	if id, ok := p.next(); ok {
		t.Errorf("an empty pool gives %v", id)
	}
	p.add(10, 2)
	p.add(20, 1)
	for i, want := range []session.ID{10, 11, 20} {
		if left := p.left(); left != uint64(3-i) {
			t.Errorf("%d ids left, want %d", left, 3-i)
		}
		if got, ok := p.next(); !ok || got != want {
			t.Errorf("took %v, %v; want %v", got, ok, want)
		}
	}
	if id, ok := p.next(); ok {
		t.Errorf("a used-up pool gives %v", id)
	}
}

// L2: the pool claims ids when few are left, one claim at a time, and again an interval after a failed claim.
func TestL2ThePoolClaims(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		p := newIDPool()
		var claims atomic.Int64
		var leads atomic.Bool
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			p.run(ctx, interval, hclog.NewNullLogger(), func(context.Context) (session.ID, error) {
				if n := claims.Add(1); leads.Load() {
					return session.ID(n) << 20, nil
				}
				return 0, session.ErrNoLeader
			})
		})
		defer wg.Wait()
		defer cancel()
		wait := func(d time.Duration, want int64) {
			t.Helper()
			time.Sleep(d)
			synctest.Wait()
			if got := claims.Load(); got != want {
				t.Errorf("claimed %d times, want %d", got, want)
			}
		}
		wait(interval-1, 1)
		leads.Store(true)
		supplied := p.added()
		wait(1, 2)
		select {
		case <-supplied:
		default:
			t.Error("waiting opens were not told of the supply")
		}
		wait(time.Minute, 2)
		for p.left() >= lowPool {
			p.refill() // does nothing yet
			p.next()
		}
		wait(0, 2)
		p.refill()
		wait(0, 3)
		if got := p.left(); got != lowPool-1+session.MaxClaim {
			t.Errorf("%d ids left, want %d", got, lowPool-1+session.MaxClaim)
		}
	})
}

// L2: an open without ids gets the reason when only a person can mend it.
func TestL2ThePoolSaysWhy(t *testing.T) {
	p := newIDPool()
	for _, tt := range []struct {
		err, want error
		news      bool
	}{
		{session.ErrNotLeader, session.ErrNoLeader, false},
		{session.ErrIDsUsedUp, session.ErrIDsUsedUp, true},
		{session.ErrIDsUsedUp, session.ErrIDsUsedUp, false}, // is logged once
		{session.ErrOutcomeUnknown, session.ErrNoLeader, false},
	} {
		if got := p.recordFailure(tt.err); got != tt.news {
			t.Errorf("%v is news: %v, want %v", tt.err, got, tt.news)
		}
		if got := p.why(); !errors.Is(got, tt.want) {
			t.Errorf("after %v: %v, want %v", tt.err, got, tt.want)
		}
	}
}
