package client

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A node falls silent right after an answer. The client leaves it a third of the timeout after it sent the answered
// touch, to the nanosecond. Two other silent nodes can then be tried before the session can expire.
func TestSilenceIsNoticedInTimeToTryTwoOthers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const timeout = 12 * time.Second
		c, cl := newTrial(t, 4, 4)
		s := mustOpen(t, cl, timeout)
		here := c.owner(s)
		resumed := func() (nodes int, log []string) {
			for i := range 4 {
				if n := c.node(i + 1); n != here {
					got := n.record()
					nodes += min(len(got), 1)
					log = append(log, got...)
				}
			}
			return nodes, log
		}
		for _, n := range c.all() {
			n.refuseAll(errMute)
		}
		time.Sleep(timeout/3 - 1)
		synctest.Wait()
		if n, log := resumed(); n > 0 {
			t.Fatalf("before a third of the timeout was over: %q", log)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, log := resumed(); n != 1 || log[0] != "4s resume "+s.ID().String()+" attempt 1" {
			t.Fatalf("at a third of the timeout: %q", log)
		}
		time.Sleep(timeout/4 - 1)
		synctest.Wait()
		if n, log := resumed(); n > 0 {
			t.Fatalf("before the time of the first other node was over: %q", log)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, log := resumed(); n != 1 || log[0] != "7s resume "+s.ID().String()+" attempt 2" {
			t.Fatalf("after the time of the first other node: %q", log)
		}
		if s.SafeUntil().IsZero() {
			t.Fatal("the promise ran out before the second node was tried")
		}
		for _, n := range c.others(here) {
			n.heal()
		}
		time.Sleep(timeout / 4)
		synctest.Wait()
		if n, log := resumed(); n != 1 || log[0] != "10s resume "+s.ID().String()+" attempt 3" {
			t.Fatalf("after the time of the second other node: %q", log)
		}
		wantSafe(t, c, s, 10*time.Second+promised(timeout))
		if s.Context().Err() != nil || slices.Contains(kinds(s), "lapsed") {
			t.Error("the promise ran out before the third node served")
		}
	})
}

// A node that does not answer a connection attempt costs the hedge delay, not its share of the timeout (K-20).
func TestConnectAttemptsAreHedged(t *testing.T) {
	for _, tt := range []struct{ configured, timeout, delay, bound time.Duration }{
		{0, 12 * time.Second, DefaultHedgeDelay, 2 * time.Second},
		{0, 2400 * time.Millisecond, 100 * time.Millisecond, 400 * time.Millisecond},
		{900 * time.Millisecond, 30 * time.Second, 900 * time.Millisecond, 3 * time.Second},
	} {
		t.Run(tt.timeout.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 4)
				cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 4), Dial: c.dial, HedgeDelay: tt.configured})
				s := mustOpen(t, cl, tt.timeout)
				first := c.owner(s)
				for i := range 4 {
					c.set(func() { c.node(i + 1).hang = true })
				}
				first.down()
				time.Sleep(tt.bound - 1)
				synctest.Wait()
				var dials []time.Duration
				last, lastAt := c.node(1), time.Duration(-1)
				for i := range 4 {
					at := c.node(i + 1).dialled()
					dials = append(dials, at...)
					if newest := slices.Max(append(at, -1)); newest > lastAt {
						last, lastAt = c.node(i+1), newest
					}
				}
				slices.Sort(dials)
				if want := []time.Duration{0, 0, tt.delay, 2 * tt.delay, 3 * tt.delay}; !slices.Equal(dials, want) {
					t.Errorf("dialled at %v, want %v", dials, want)
				}
				c.set(func() { last.hang = false })
				time.Sleep(2 * tt.bound)
				synctest.Wait()
				if s.Owner() != last.number {
					t.Errorf("owner %d, want %d", s.Owner(), last.number)
				}
			})
		})
	}
}

// The client uses the first connection that is up and closes the others. It tries those again when the first one does
// not serve.
func TestTheFirstConnectionWinsTheRace(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		// The third node is the first that connects, and serves nothing.
		c.set(func() { c.node(1).delay, c.node(2).delay = 2*time.Second, 2*time.Second })
		c.node(3).refuseAll(session.ErrNoLeader)
		s := mustOpen(t, cl, 12*time.Second)
		if s.Owner() == 3 {
			t.Fatal("node 3 owns the session, although it refuses all requests")
		}
		synctest.Wait()
		open := 0
		for i := range 3 {
			c.set(func() { open += len(c.node(i + 1).streams) })
		}
		if open != 1 {
			t.Errorf("%d connections are open, want 1", open)
		}
		if dials := len(c.node(1).dialled()) + len(c.node(2).dialled()); dials < 3 {
			t.Errorf("%d dials: the losers of the race were not tried again", dials)
		}
	})
}
