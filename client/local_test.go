package client

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// wantEndedAway checks that a local session ended because another node than its own served its client.
func wantEndedAway(t *testing.T, s *Session, home session.Node) {
	t.Helper()
	e, ok := errors.AsType[*session.ExpiredError](s.Err())
	if !ok || e.LocalTo != home || e.ID != s.ID() || e.Certificate != nil || s.State() != StateExpired {
		t.Errorf("ended with %v in state %v, want that it is local to node %d", s.Err(), s.State(), home)
	}
	select {
	case <-s.Done():
	default:
		t.Error("Done is not closed")
	}
}

func TestLocalSessionsAreRefusedWhenTheSettingIsOff(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		c.set(func() { c.localOff = true })
		_, err := cl.Open(t.Context(), SessionOptions{Timeout: 12 * time.Second, Local: true})
		if e, ok := errors.AsType[*session.FieldError](err); !ok || e.Field != "local" {
			t.Errorf("got %v", err)
		}
	})
}

func TestALocalSessionWaitsForItsNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		home := c.owner(s)
		time.Sleep(time.Second)
		home.down()
		time.Sleep(5 * time.Second)
		for i := 1; i <= 3; i++ {
			if got := c.node(i).record(); i != int(home.number) && len(got) > 0 {
				t.Errorf("node %d was asked %q", i, got)
			}
		}
		home.up()
		time.Sleep(2 * DefaultMaxBackoff)
		synctest.Wait()
		if s.Err() != nil || s.State() != StateConnected || s.Context().Err() != nil || s.Owner() != home.number {
			t.Errorf("ended with %v, in state %v, context %v", s.Err(), s.State(), s.Context().Err())
		}
		wantStrings(t, kinds(s), "connected", "disconnected", "connected")
	})
}

func TestALocalSessionEndsWithTheProcessOfItsNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		c.owner(s).restart()
		time.Sleep(2 * DefaultMaxBackoff) // the client may have dialled while the node was down
		synctest.Wait()
		e, ok := errors.AsType[*session.ExpiredError](s.Err())
		if !ok || e.LocalTo != 0 {
			t.Errorf("ended with %v, want an expiry at its own node", s.Err())
		}
	})
}

func TestALocalSessionWhoseNodeStaysLostEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		c.owner(s).down()
		time.Sleep(promised(12*time.Second) - time.Millisecond)
		if s.Err() != nil {
			t.Fatalf("ended with %v before the end of its promise", s.Err())
		}
		time.Sleep(2 * DefaultMaxBackoff)
		synctest.Wait()
		wantEndedAway(t, s, s.ID().Node())
		wantStrings(t, kinds(s), "connected", "disconnected", "lapsed", "ended")
	})
}

func TestGlobalSessionsMoveAndLocalOnesEnd(t *testing.T) {
	for name, lose := range map[string]func(n *fakeNode){
		"connection lost": func(n *fakeNode) { n.down() },
		"jeopardy":        func(n *fakeNode) { n.jeopardy() },
		"silence":         func(n *fakeNode) { n.refuseAll(errMute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 3)
				global, local := mustOpen(t, cl, 12*time.Second), mustOpenLocal(t, cl, 12*time.Second)
				home := c.owner(local)
				if global.Local() || global.Owner() != home.number {
					t.Fatalf("the global session is %+v at node %d", global.Token(), global.Owner())
				}
				time.Sleep(time.Second)
				lose(home)
				time.Sleep(9 * time.Second)
				synctest.Wait()
				wantEndedAway(t, local, home.number)
				if global.Err() != nil || global.Owner() == home.number || global.Context().Err() != nil {
					t.Errorf("the global session: %v, at node %d, context %v", global.Err(), global.Owner(),
						global.Context().Err())
				}
			})
		})
	}
}

// Another node answers an open before the client asks it for all sessions of the lost node. The local sessions of the
// lost node end then, also when it comes back. The scheduler draws which session is resumed first, so the test has four
// runs.
func TestLocalSessionsEndOnceAnotherNodeServes(t *testing.T) {
	for range 4 {
		bubble.Test(t, func(t *testing.T) {
			c, cl := newTrial(t, 2, 2)
			one, two := mustOpenLocal(t, cl, 12*time.Second), mustOpenLocal(t, cl, 12*time.Second)
			home := c.owner(one)
			resumes, opened := 0, false
			c.node(3 - int(home.number)).answer(func(kind string) error {
				switch kind {
				case "open":
					opened = true
				case "resume":
					if resumes++; resumes > 1 && !opened {
						return session.ErrLagging
					}
				}
				return nil
			})
			home.down()
			synctest.Wait() // then the open goes to the other node only
			third := mustOpenLocal(t, cl, 12*time.Second)
			home.up()
			time.Sleep(5 * time.Second)
			synctest.Wait()
			wantEndedAway(t, one, home.number)
			wantEndedAway(t, two, home.number)
			if third.Err() != nil || third.Owner() == home.number || third.Context().Err() != nil {
				t.Errorf("the session that another node opened: %v, at node %d, context %v", third.Err(), third.Owner(),
					third.Context().Err())
			}
		})
	}
}

func TestLocalAndGlobalSessionsReturnToTheirNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		global, local := mustOpen(t, cl, 12*time.Second), mustOpenLocal(t, cl, 12*time.Second)
		home := c.owner(local)
		time.Sleep(time.Second)
		home.cut()
		synctest.Wait()
		if global.Err() != nil || local.Err() != nil || global.Owner() != home.number {
			t.Errorf("got %v and %v, the global one at node %d", global.Err(), local.Err(), global.Owner())
		}
	})
}

func TestJeopardyLeavesLocalSessionsConnected(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpenLocal(t, cl, 12*time.Second)
		c.owner(s).jeopardy()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if s.Err() != nil || s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("got %v in state %v", s.Err(), s.State())
		}
		wantStrings(t, kinds(s), "connected")
	})
}

// A touch names either local or global sessions, so a node that can promise nothing for global ones still renews the
// local ones.
func TestLocalAndGlobalSessionsAreTouchedSeparately(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		mustOpen(t, cl, 12*time.Second)
		mustOpenLocal(t, cl, 12*time.Second)
		c.node(1).record()
		time.Sleep(4 * time.Second)
		synctest.Wait()
		got := c.node(1).record()
		slices.Sort(got)
		if len(got) != 2 || !strings.HasPrefix(got[0], "4s touch [") || !strings.HasPrefix(got[1], "4s touch [") ||
			got[0] == got[1] {
			t.Errorf("got %q, want one touch for each kind", got)
		}
	})
}

func TestALocalSessionIsResumedAtItsNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 30*time.Second)
		home := s.Owner()
		other := newTestClient(t, c, c.endpoints(1, 3))
		away := mustOpenAt(t, c, 1+int(home)%3)
		if _, err := away.Resume(t.Context(), s.Token()); !strings.Contains(err.Error(), "local to node") ||
			!errors.Is(err, session.ErrExpired) {
			t.Errorf("Resume by a client whose session is at another node: got %v", err)
		}
		r, err := other.Resume(t.Context(), s.Token())
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if r.Owner() != home || !r.Local() || !errors.Is(s.Err(), session.ErrMoved) {
			t.Errorf("resumed at node %d, want %d; the former holder: %v", r.Owner(), home, s.Err())
		}
	})
}

// mustOpenAt returns a client that holds a global session at a node.
func mustOpenAt(t *testing.T, c *fakeCluster, node int) *Client {
	t.Helper()
	cl := newTestClient(t, c, c.endpoints(node, node))
	mustOpen(t, cl, 30*time.Second)
	return cl
}

func TestResumeOfALocalSessionWaitsForItsNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 30*time.Second)
		token, home := s.Token(), c.owner(s)
		if err := cl.Close(); err != nil {
			t.Fatal(err)
		}
		home.down()
		time.AfterFunc(5*time.Second, home.up)
		r, err := newTestClient(t, c, c.endpoints(1, 3)).Resume(t.Context(), token)
		if err != nil || r.Owner() != home.number {
			t.Errorf("got %v", err)
		}
		if took := time.Since(c.start); took < 5*time.Second || took > 5*time.Second+2*DefaultMaxBackoff {
			t.Errorf("took %v", took)
		}
	})
}

func TestRebalancingLeavesLocalSessionsWhereTheyAre(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 8)
		for range 10 { // each client would move with a probability of 7/8
			cl := newTestClient(t, c, c.endpoints(1, 1))
			s := mustOpenLocal(t, cl, 12*time.Second)
			if err := cl.UpdateServers(c.endpoints(1, 8)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if s.Err() != nil || s.Owner() != 1 {
				t.Errorf("got %v at node %d", s.Err(), s.Owner())
			}
		}
	})
}

// A node that promises its global sessions nothing is left, although it opens and touches local ones while the client
// connects to the next node.
func TestServingLocalSessionsDoesNotKeepGlobalOnes(t *testing.T) {
	for _, also := range []string{"touches", "opens"} {
		t.Run(also, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 2, 2)
				global := mustOpen(t, cl, 12*time.Second)
				home := c.owner(global)
				c.set(func() {
					home.promise = func(smallest time.Duration) time.Duration {
						if smallest == 12*time.Second {
							return -1
						}
						return promised(smallest)
					}
					c.node(3 - int(home.number)).delay = 1500 * time.Millisecond
					home.delay = time.Hour // delays new connections only
				})
				if also == "touches" {
					mustOpenLocal(t, cl, 11*time.Second)
				}
				time.Sleep(4500 * time.Millisecond)
				if also == "opens" {
					mustOpenLocal(t, cl, 11*time.Second)
				}
				time.Sleep(2500 * time.Millisecond)
				synctest.Wait()
				if global.Err() != nil || global.Owner() == home.number {
					t.Errorf("got %v, at node %d after %v", global.Err(), global.Owner(), time.Since(c.start))
				}
			})
		})
	}
}
