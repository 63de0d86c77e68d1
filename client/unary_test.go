package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestGet(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 10*time.Second)
		f, err := cl.Get(t.Context(), s.ID())
		if err != nil || f.Certificate != nil || f.Session.ID != s.ID() || f.Remaining != time.Second {
			t.Errorf("Get of a living session: got %+v, %v", f, err)
		}
		c.expire(s.ID())
		f, err = cl.Get(t.Context(), s.ID())
		if err != nil || f.Certificate == nil || f.Certificate.Cause != session.CauseExpired {
			t.Errorf("Get of an ended session: got %+v, %v", f, err)
		}
		if _, err = cl.Get(t.Context(), 77); !errors.Is(err, session.ErrExpired) {
			t.Errorf("of an unknown session: got %v", err)
		}
	})
}

func TestUnaryCallsGoOnToAnotherNode(t *testing.T) {
	for name, sick := range map[string]func(n *fakeNode){
		"down":  func(n *fakeNode) { n.down() },
		"hangs": func(n *fakeNode) { n.down(); n.c.set(func() { n.hang = true }) },
		"no leader": func(n *fakeNode) {
			n.refuseAll(session.ErrNoLeader)
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 2, 2)
				sick(c.node(1))
				for range 2 {
					members, err := cl.Members(t.Context())
					if err != nil || len(members) != 2 || !members[1].Leader || members[1].Node != 2 ||
						members[1].ClientAddress != "n2:7400" {
						t.Fatalf("Members: got %+v, %v", members, err)
					}
				}
				if got := len(c.node(1).record()); got > 1 {
					t.Errorf("the sick node was asked %d times, want once: the node that answered is asked first", got)
				}
				if time.Since(c.start) > DefaultConnectTimeout {
					t.Errorf("took %v", time.Since(c.start))
				}
			})
		})
	}
}

func TestUnaryCallsEndWithTheContext(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		c.node(1).down()
		c.node(2).down()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := cl.Members(ctx)
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, ErrUnreachable) ||
			time.Since(c.start) != 5*time.Second {
			t.Errorf("Members: got %v after %v", err, time.Since(c.start))
		}
		if _, err = cl.Status(t.Context(), "n1:7400"); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Status: got %v", err)
		}
		_ = cl.Close()
		if _, err = cl.Members(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Members after Close: got %v", err)
		}
	})
}

func TestListAndStatus(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTrial(t, 1, 1)
		s := mustOpen(t, cl, 10*time.Second)
		page, err := cl.List(t.Context(), ListOptions{Owner: 1, PageToken: "a"})
		if err != nil || len(page.Sessions) != 1 || page.Sessions[0].Session.ID != s.ID() ||
			page.Sessions[0].Remaining >= 0 || page.Next != "a+" {
			t.Errorf("List: got %+v, %v", page, err)
		}
		if _, err = cl.List(t.Context(), ListOptions{PageSize: session.MaxPage + 1}); !errors.Is(err,
			session.ErrInvalid) {
			t.Errorf("List: got %v", err)
		}
		st, err := cl.Status(t.Context(), "n1:7400")
		if err != nil || st.Node != 1 || st.Role != "follower" || st.Term != 5 || st.Leader != 2 {
			t.Errorf("Status: got %+v, %v", st, err)
		}
	})
}

func TestTouchAsksTheOwner(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 1)
		here := mustOpen(t, cl, 10*time.Second)
		far := newTestClient(t, c, c.endpoints(3, 3)) // an endpoint that cl does not know
		there := mustOpen(t, far, 10*time.Second)
		gone := session.Token{ID: 5, Credential: credentialOf(5), Attachment: 1}
		results, err := cl.Touch(t.Context(), []session.Token{there.Token(), gone, here.Token()})
		if err != nil || len(results) != 3 {
			t.Fatalf("Touch: %+v, %v", results, err)
		}
		want := time.Now().Add(promised(10 * time.Second))
		if !results[0].SafeUntil.Equal(want) || results[0].Err != nil || !results[2].SafeUntil.Equal(want) {
			t.Errorf("got %+v, want both safe until %v", results, want)
		}
		if !errors.Is(results[1].Err, session.ErrExpired) || results[1].ID != 5 {
			t.Errorf("Touch of an unknown session: got %+v", results[1])
		}
		if _, err = cl.Touch(t.Context(), nil); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("Touch of nothing: got %v", err)
		}
	})
}

func TestCloseTokenThatIsRepeatedSucceeds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 10*time.Second)
		tok := s.Token()
		stale := tok
		stale.Attachment++
		if err := cl.CloseToken(t.Context(), stale); !errors.Is(err, session.ErrMoved) {
			t.Errorf("with another attachment: got %v", err)
		}
		for _, n := range c.all() { // the node closes the session, and then loses the leader
			n.refuseFirst(1, session.ErrOutcomeUnknown)
		}
		if err := cl.CloseToken(t.Context(), tok); err != nil {
			t.Errorf("CloseToken: %v", err)
		}
		err := cl.CloseToken(t.Context(), tok)
		if !errors.Is(err, session.ErrExpired) || !strings.Contains(err.Error(), "closed") {
			t.Errorf("closed again: got %v", err)
		}
	})
}

// A close whose answer was lost may have been done. The refusals of other nodes do not change that.
func TestCloseTokenSaysThatTheOutcomeIsUnknown(t *testing.T) {
	lost := func(n *fakeNode, id session.ID) error {
		n.c.set(func() { n.c.end(id, session.CauseClosed) })
		go n.down()
		time.Sleep(time.Second) // the answer finds no connection
		return nil
	}
	for name, tt := range map[string]struct {
		first   func(n *fakeNode, id session.ID) error
		after   error
		unknown bool
	}{
		"done, answer lost": {lost, session.ErrReadOnly, true},
		"said to be unknown": {func(*fakeNode, session.ID) error {
			return session.ErrOutcomeUnknown
		}, session.ErrNoLeader, true},
		"refused": {func(*fakeNode, session.ID) error {
			return session.ErrStopping
		}, session.ErrReadOnly, false},
	} {
		for _, leads := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, by node %d", name, leads), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, holder := newTrial(t, 2, 2)
					token := mustOpen(t, holder, time.Hour).Token()
					c.node(3 - leads).refuseAll(tt.after)
					c.node(leads).answer(func(string) error {
						c.node(leads).refuseAll(tt.after)
						return tt.first(c.node(leads), token.ID)
					})
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					err := newTestClient(t, c, c.endpoints(1, 2)).CloseToken(ctx, token)
					if errors.Is(err, session.ErrOutcomeUnknown) != tt.unknown || !errors.Is(err, tt.after) ||
						!errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v, want outcome unknown: %v, and %v", err, tt.unknown, tt.after)
					}
				})
			})
		}
	}
}

// A touch whose answer comes after a suspension promises nothing, because the monotonic clock stood still (S5 suspended
// machines).
func TestS5UnaryTouchOverASuspension(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		token := mustOpen(t, cl, 10*time.Second).Token()
		other := newTestClient(t, c, c.endpoints(1, 1))
		w := newWallClock(other.clock)
		for _, suspended := range []time.Duration{0, time.Hour} {
			c.node(1).answer(func(string) error {
				w.advance(suspended)
				return nil
			})
			got, err := other.Touch(t.Context(), []session.Token{token})
			if err != nil || len(got) != 1 || got[0].Err != nil || got[0].SafeUntil.IsZero() != (suspended > 0) {
				t.Errorf("Touch during a suspension of %v: %+v, %v", suspended, got, err)
			}
		}
	})
}
