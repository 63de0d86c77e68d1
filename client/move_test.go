package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/client/internal/core/conn"
	"holdfast/session"
	"holdfast/test/bubble"
)

func TestMovesWhenTheConnectionIsLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		a, b := mustOpen(t, cl, 12*time.Second), mustOpen(t, cl, 12*time.Second)
		first := c.owner(a)
		time.Sleep(time.Second)
		first.down()
		synctest.Wait()
		if a.Owner() == first.number || a.Owner() != b.Owner() {
			t.Fatalf("owners %d and %d after node %d went down", a.Owner(), b.Owner(), first.number)
		}
		wantSafe(t, c, a, time.Second+promised(12*time.Second))
		got := c.owner(a).record()
		slices.Sort(got)
		if len(got) != 2 || !strings.HasPrefix(got[0], "1s resume "+a.ID().String()) ||
			!strings.HasPrefix(got[1], "1s resume "+b.ID().String()) {
			t.Errorf("got %q, want both resumed at once", got)
		}
		wantStrings(t, kinds(a), "connected", "disconnected", "connected")
		if a.Context().Err() != nil {
			t.Error("the context has ended while the promise holds")
		}
		c.set(func() {
			if c.sessions[a.ID()].Instance == 0 {
				t.Error("the client resumes its sessions without the instance that New draws for it")
			}
		})
	})
}

func TestMovesOnJeopardyToALearntAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newToldClient(t, c)
		s := mustOpen(t, cl, 12*time.Second)
		time.Sleep(time.Second)
		c.node(1).jeopardy(c.node(2).address, "not an address")
		synctest.Wait()
		if got := s.Owner(); got != 2 {
			t.Fatalf("owner: got %d, want 2", got)
		}
		if got := c.node(2).record(); !slices.Contains(got, "1s resume "+s.ID().String()+" attempt 1") {
			t.Errorf("node 2 was asked %q, want the session resumed", got)
		}
		wantStrings(t, kinds(s), "connected", "jeopardy", "connected")
	})
}

func TestStaysAndTouchesWhileNoOtherNodeServes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		here, other := c.owner(s), c.other(s)
		other.refuseAll(session.ErrNoLeader)
		here.refuse("resume", session.ErrNoLeader)
		here.record()
		here.jeopardy(other.address)
		time.Sleep(4 * time.Second)
		synctest.Wait()
		touches := slices.DeleteFunc(here.record(), func(m string) bool { return !strings.Contains(m, "touch") })
		wantStrings(t, touches, "4s touch")
		if len(other.record()) < 2 {
			t.Error("the other node was not asked again")
		}
		here.jeopardyEnded()
		synctest.Wait()
		other.record()
		time.Sleep(8 * time.Second)
		synctest.Wait()
		if got := other.record(); len(got) > 1 { // one attempt may have begun before
			t.Errorf("after the jeopardy the other node was asked %q", got)
		}
		if s.Err() != nil || s.Context().Err() != nil || s.Owner() != here.number {
			t.Errorf("err %v, context %v, owner %d", s.Err(), s.Context().Err(), s.Owner())
		}
	})
}

func TestMovesWhenRequestsAreNotAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		for _, n := range []int{1, 2} {
			c.node(n).answer(func(string) error { // the first node that is asked stays silent
				c.node(3 - n).heal()
				return errMute
			})
		}
		s := mustOpen(t, cl, 12*time.Second)
		if got, want := time.Since(c.start), conn.AskAfter+conn.SignWithin; got != want {
			t.Errorf("opened after %v, want %v", got, want)
		}
		if s.Err() != nil {
			t.Error(s.Err())
		}
	})
}

func TestBackOffBetweenRounds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		for i := range 3 {
			c.node(i + 1).down()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) {
			t.Fatalf("Open: got %v", err)
		}
		dials := c.node(1).dialled()
		for i, limit := 1, DefaultMinBackoff; i < len(dials); i, limit = i+1, min(2*limit, DefaultMaxBackoff) {
			if gap := dials[i] - dials[i-1]; gap > limit {
				t.Errorf("round %d began %v after the round before, want at most %v", i+1, gap, limit)
			}
		}
		if n := len(dials); n < 60 || n > 300 || len(c.node(2).dialled()) != n || len(c.node(3).dialled()) != n {
			t.Errorf("dials in two minutes: %d, %d, %d", n, len(c.node(2).dialled()), len(c.node(3).dialled()))
		}
	})
}

// A session of 4 s has no more than 4 s from the moment at which there is a leader again. A client that was refused for
// long until then, by every node, asks again within a sixth of that, and so has time for several attempts. Without: it
// waits up to 2 s for the next attempt, and as long again if that one comes too soon.
func TestBackOffIsAPartOfTheTimeout(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const timeout, clients = 4 * time.Second, 24
		c := newFakeCluster(t, 3)
		var sessions []*Session
		for range clients {
			sessions = append(sessions, mustOpen(t, newTestClient(t, c, c.endpoints(1, 3)), timeout))
		}
		gone := c.owner(sessions[0])
		moving := slices.DeleteFunc(sessions, func(s *Session) bool { return c.owner(s) != gone })
		others := slices.DeleteFunc(c.all(), func(n *fakeNode) bool { return n == gone })
		for _, n := range others {
			n.refuseAll(session.ErrNoLeader)
		}
		gone.down()
		time.Sleep(20 * time.Second)
		for _, n := range others {
			n.heal()
		}
		time.Sleep(timeout/6 + 50*time.Millisecond)
		for _, s := range moving {
			if s.SafeUntil().IsZero() || s.Owner() == gone.number {
				t.Errorf("session %v is not served %v after the nodes serve again", s.ID(), timeout/6)
			}
		}
	})
}

// A client waits at least as long as a server asks, and at most session.MaxRetryAfter.
func TestBackOffIsNoShorterThanTheServersHint(t *testing.T) {
	for asked, want := range map[time.Duration]time.Duration{
		7 * time.Second: 7 * time.Second, time.Hour: session.MaxRetryAfter,
	} {
		t.Run(asked.String(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				c.node(1).refuseFirst(1,
					&session.LimitError{Name: "requests_to_leader", Limit: "4096", RetryAfter: asked})
				mustOpen(t, cl, 10*time.Second)
				if got := time.Since(c.start); got < want || got > want+DefaultMinBackoff {
					t.Errorf("opened after %v, asked to wait %v", got, asked)
				}
			})
		})
	}
}

func TestNodesThatRefuseAreNotAskedInATightLoop(t *testing.T) {
	for _, err := range []error{
		session.ErrNoLeader, session.ErrStopping, session.ErrReadOnly,
		&session.NotLeaderError{Leader: 2, Address: "n2:7400"},
	} {
		t.Run(err.Error(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 2, 2)
				for i := range 2 {
					c.node(i + 1).refuseAll(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				_, openErr := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
				if !errors.Is(openErr, context.DeadlineExceeded) || !errors.Is(openErr, errSentinel(err)) {
					t.Errorf("Open: got %v", openErr)
				}
				if n := len(c.node(1).record()) + len(c.node(2).record()); n < 30 || n > 300 {
					t.Errorf("the nodes were asked %d times in a minute, want 30 to 300", n)
				}
			})
		})
	}
}

func errSentinel(err error) error {
	if errors.Is(err, session.ErrNotLeader) {
		return session.ErrNotLeader
	}
	return err
}

func TestOpenFollowsTheLeaderHint(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newLearningClient(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial})
		c.node(1).answer(func(string) error {
			return &session.NotLeaderError{Leader: 2, Address: c.node(2).address}
		})
		s := mustOpen(t, cl, 10*time.Second)
		if s.Owner() != 2 {
			t.Errorf("owner: got %d, want 2", s.Owner())
		}
	})
}

func TestResumeAfterAMoveByReason(t *testing.T) {
	tests := []struct {
		err     error
		want    error // nil: the client repeats the resume until it is granted
		resumes string
	}{
		{session.ErrExpired, session.ErrExpired, "ended"},
		{session.ErrBadCredential, session.ErrBadCredential, "ended"},
		{session.ErrMoved, session.ErrMoved, "moved"},
		{session.ErrClosing, nil, ""},
		{session.ErrLagging, nil, ""},
		{session.ErrNoLeader, nil, ""},
		{session.ErrOutcomeUnknown, nil, ""},
		{&session.LimitError{Name: "sessions_per_connection"}, nil, ""},
	}
	for _, tt := range tests {
		t.Run(tt.err.Error(), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				s := mustOpen(t, cl, 30*time.Second)
				n := c.node(1)
				n.down()
				n.refuseFirst(3, tt.err)
				n.up()
				n.record()
				time.Sleep(5 * time.Second)
				synctest.Wait()
				if !errors.Is(s.Err(), tt.want) {
					t.Fatalf("Err: got %v, want %v", s.Err(), tt.want)
				}
				got := n.record()
				if tt.want != nil {
					<-s.Done()
					events := kinds(s)
					if len(got) != 1 || events[len(events)-1] != tt.resumes {
						t.Errorf("the node was asked %q; events %q", got, events)
					}
					return
				}
				if len(got) != 4 || !strings.HasSuffix(got[0], "attempt 1") || !strings.HasSuffix(got[3], "attempt 4") {
					t.Errorf("the node was asked %q, want attempts 1 to 4", got)
				}
			})
		})
	}
}

// A resume whose answer was lost may take effect late, and take the session from the connection that serves it. The
// Moved that follows does not end the session: the client resumes it again (M1 a resume is a move).
func TestM1OwnLateResumeDoesNotEndTheSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		here, other := c.owner(s), c.other(s)
		other.refuseAll(errMuteAfter)
		here.jeopardy(other.address)
		synctest.Wait()
		// The other node has resumed the session and does not answer. The former node no longer serves it.
		here.jeopardyEnded()
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if s.Err() != nil {
			t.Fatalf("Err: got %v", s.Err())
		}
		if s.Owner() != here.number || s.Context().Err() != nil {
			t.Errorf("owner %d, context %v", s.Owner(), s.Context().Err())
		}
		if got := here.record(); !slices.ContainsFunc(got, func(m string) bool {
			return strings.HasSuffix(m, "attempt 2") || strings.HasSuffix(m, "attempt 3")
		}) {
			t.Errorf("the node that served was asked %q, want a newer attempt", got)
		}
	})
}

// Whatever the nodes' faults, a session is never safe for longer than the cluster promised. It is served again once the
// nodes are healthy.
func TestPromisesAreSoundUnderFaults(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		steps := rapid.SliceOfN(rapid.IntRange(0, 6), 1, 30).Draw(rt, "steps")
		bubble.Test(t, func(t *testing.T) {
			c := newFakeCluster(t, 3)
			c.promises = make(map[session.ID]time.Time)
			cl := newTestClient(t, c, c.endpoints(1, 3))
			sessions := []*Session{
				mustOpen(t, cl, 6*time.Second), mustOpen(t, cl, 7*time.Second),
				mustOpen(t, cl, 40*time.Second),
			}
			for i, step := range steps {
				fault(c, c.node(i%3+1), step)
				time.Sleep(time.Duration(i%4) * 700 * time.Millisecond)
				synctest.Wait()
				for _, s := range sessions {
					c.mu.Lock()
					limit := c.promises[s.ID()]
					c.mu.Unlock()
					if got := s.SafeUntil(); got.After(limit) {
						rt.Fatalf("step %d: %v says it is safe until %v, promised was %v", i, s.ID(), got.Sub(c.start),
							limit.Sub(c.start))
					}
					if s.Err() != nil {
						rt.Fatalf("step %d: %v ended: %v", i, s.ID(), s.Err())
					}
				}
			}
			for i := range 3 {
				fault(c, c.node(i+1), 0)
			}
			time.Sleep(20 * time.Second)
			synctest.Wait()
			for _, s := range sessions {
				if s.Err() != nil || s.Context().Err() != nil {
					rt.Fatalf("session %v after all nodes were healed: %v, %v", s.ID(), s.Err(), s.Context().Err())
				}
			}
		})
	})
}

// fault does something to a node; 0 heals it.
func fault(c *fakeCluster, n *fakeNode, step int) {
	switch step {
	case 0, 1:
		n.down()
		c.set(func() { n.hang, n.script = false, nil })
		n.up()
	case 2:
		n.down()
	case 3:
		c.set(func() { n.hang = true })
	case 4:
		n.refuseAll(errMute)
	case 5:
		n.refuseAll(errMuteAfter)
	case 6:
		n.refuseAll(session.ErrNoLeader)
		n.jeopardy()
	}
}
