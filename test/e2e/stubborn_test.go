//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

// stubborn is a client that touches its session through one node whatever happens, and never moves.
type stubborn struct {
	c    *cluster
	node int

	cancel context.CancelFunc
	done   sync.WaitGroup
	id     session.ID

	mu sync.Mutex
	// safe is the latest promise. promised is when the touch that got it was sent. taken is when the last touch was
	// sent that the node took without a promise, ended when the last one was sent that it refused as the session had
	// ended. All are guarded by mu.
	safe, promised, taken, ended time.Time
}

// stubborn opens a session at node n and touches it there five times a second, until the test ends. It then checks that
// no promise was broken.
func (c *cluster) stubborn(n int) *stubborn {
	c.t.Helper()
	holder := c.watcher(n)
	ctx, cancel := context.WithTimeout(context.Background(), healWithin)
	defer cancel()
	held, err := holder.Open(ctx, client.SessionOptions{Timeout: minTimeout})
	timeout.Check(c.t, err)
	holder.Close() // the session stays attached to the node
	if int(held.Owner()) != n {
		c.t.Fatalf("session %s is owned by node %d, want %d", held.ID(), held.Owner(), n)
	}
	s := &stubborn{c: c, node: n, id: held.ID()}
	toucher, token := c.watcher(n), held.Token()
	running, stop := context.WithCancel(context.Background())
	s.cancel = stop
	s.done.Go(func() {
		ticker := time.NewTicker(200 * time.Millisecond)
		defer ticker.Stop()
		for running.Err() == nil {
			s.touch(running, toucher, token)
			<-ticker.C
		}
	})
	c.t.Cleanup(s.audit)
	return s
}

func (s *stubborn) touch(ctx context.Context, toucher *client.Client, token session.Token) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	sent := time.Now()
	results, err := toucher.Touch(ctx, []session.Token{token})
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if why := results[0].Err; why != nil {
		if errors.Is(why, session.ErrExpired) {
			s.ended = sent
		}
		return
	}
	until := results[0].SafeUntil
	if until.IsZero() {
		s.taken = sent
		return
	}
	s.promised = sent
	if until.After(s.safe) {
		s.safe = until
	}
}

// promisedNothing checks that the node gave promises at first, and none for touches sent a timeout or more after a
// moment: since when it had heard no leader. The node must have taken one without a promise.
func (s *stubborn) promisedNothing(since time.Time) {
	s.c.t.Helper()
	s.await("takes a touch without a promise", func() bool { return s.taken.After(since) })
	s.judge(since)
}

// promisedNothingAsleep is promisedNothing for a node that did not run. It hears a leader again within a few
// milliseconds of its waking up. The first touch that it reads may come later than that: it is then refused, since the
// session has ended.
func (s *stubborn) promisedNothingAsleep(since time.Time) {
	s.c.t.Helper()
	s.await("answers a touch", func() bool { return s.taken.After(since) || s.ended.After(since) })
	s.judge(since)
}

// await waits until ok, which is called under mu: without it the test shows nothing.
func (s *stubborn) await(does string, ok func() bool) {
	s.c.t.Helper()
	s.c.await(healWithin, fmt.Sprintf("node %d %s", s.node, does), func() (bool, string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		return ok(), fmt.Sprintf("the last one taken was sent at %v", s.taken)
	})
}

// judge fails for a promise that the node could not know to be good.
func (s *stubborn) judge(since time.Time) {
	s.c.t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.safe.IsZero() {
		s.c.t.Errorf("node %d never gave a promise, not even before it was cut off", s.node)
	}
	if late := s.promised.Sub(since); late > minTimeout {
		s.c.t.Errorf("node %d made a promise to a touch that was sent %v after it had heard a leader", s.node, late)
	}
	took(s.c.t, "last promise of a node without a leader", s.promised.Sub(since))
}

// audit checks that the session, if it expired, did so after the last promise.
func (s *stubborn) audit() {
	s.cancel()
	s.done.Wait()
	found, err := s.c.find(s.id, s.c.all()...)
	if err != nil {
		if !timeout.Ended(s.c.t) { // which may leave the cluster cut
			s.c.t.Errorf("find session %s: %v", s.id, err)
		}
		return
	}
	if found.Certificate == nil {
		return
	}
	if early := s.safe.Round(0).Sub(found.Certificate.EndedAt); early > time.Millisecond {
		s.c.t.Errorf("I3: session %s expired %v before the end of a promise: %+v", s.id, early, *found.Certificate)
	}
}
