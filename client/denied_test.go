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
	"holdfast/tree"
)

// forbidden is how nodes deny a client whose role does not suffice.
var forbidden = &session.AccessError{Who: "token:web", Has: []string{"reader"}, Needs: []string{"client"}}

// deny has a node end each Connect stream with an error, those that are open too; nil ends that.
func (n *fakeNode) deny(err error) {
	n.c.set(func() { n.denies = err })
	n.down()
	n.up()
}

// connecting are calls that need a Connect stream.
func connecting(token session.Token) map[string]func(context.Context, *Client) error {
	return map[string]func(context.Context, *Client) error{
		"open": func(ctx context.Context, cl *Client) error {
			_, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
			return err
		},
		"resume": func(ctx context.Context, cl *Client) error { _, err := cl.Resume(ctx, token); return err },
		"read":   func(ctx context.Context, cl *Client) error { _, err := cl.Tree().Get(ctx, "/a"); return err },
		"watch": func(ctx context.Context, cl *Client) error {
			for _, err := range cl.Tree().Watch(ctx, "/a", tree.WatchRecursive) {
				return err
			}
			return nil
		},
	}
}

// A call that every node denies ends at once with the reason, also beside nodes that are silent. Nodes that have answered
// are not unreachable, and a node that denies the client has done nothing of what it was asked for.
func TestDeniedCallsEndAtOnce(t *testing.T) {
	for name, sick := range map[string]func(*fakeNode){
		"denies too": func(n *fakeNode) { n.deny(forbidden) },
		"down":       (*fakeNode).down,
		"hangs":      func(n *fakeNode) { n.down(); n.c.set(func() { n.hang = true }) },
	} {
		for place := 1; place <= 3; place++ {
			t.Run(fmt.Sprintf("node %d denies, others: %s", place, name), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, cl := newTrial(t, 3, 3)
					token := mustOpen(t, cl, time.Hour).Token()
					_ = cl.Close()
					c.node(place).deny(forbidden)
					for _, n := range c.others(c.node(place)) {
						sick(n)
					}
					for call, do := range connecting(token) {
						for _, policy := range []InFlight{RepeatInFlight, FailInFlight} {
							cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 3), Dial: c.dial, InFlight: policy})
							began := time.Now()
							ctx, cancel := context.WithTimeout(t.Context(), 2*DefaultConnectTimeout)
							err := do(ctx, cl)
							cancel()
							denied, ok := errors.AsType[*session.AccessError](err)
							if !ok || denied.Who != "token:web" || errors.Is(err, ErrUnreachable) ||
								errors.Is(err, session.ErrOutcomeUnknown) {
								t.Errorf("%s: got %v, want %v", call, err, forbidden)
							}
							if took := time.Since(began); took > DefaultConnectTimeout {
								t.Errorf("%s: took %v", call, took)
							}
							_ = cl.Close()
						}
					}
				})
			})
		}
	}
}

// A call goes on while a node may serve it: one that serves, or one that says something else.
func TestADenialDoesNotOutrankOtherNodes(t *testing.T) {
	for name, third := range map[string]func(n *fakeNode){
		"serves": func(*fakeNode) {},
		"stops for a while": func(n *fakeNode) {
			n.refuseAll(session.ErrStopping)
			time.AfterFunc(5*time.Second, func() { n.answer(nil) })
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 3)
				c.node(1).deny(forbidden)
				c.node(2).deny(forbidden)
				third(c.node(3))
				if _, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second}); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// A session that is held, and a watch that is in place, survive that every node denies the client for a while, as when a
// token is replaced too late. New calls are denied meanwhile.
func TestHeldSessionsSurviveADenial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, time.Minute)
		c.everyNode(func(n *fakeNode) { n.deny(session.ErrUnauthenticated) })
		if _, err := cl.Open(t.Context(), SessionOptions{Timeout: time.Minute}); !errors.Is(err, session.ErrUnauthenticated) {
			t.Errorf("a new session: %v", err)
		}
		time.Sleep(20 * time.Second)
		c.everyNode(func(n *fakeNode) { n.deny(nil) })
		time.Sleep(10 * time.Second)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("the session is %v, %v", s.State(), s.Err())
		}
	})
}

// A token that cannot be made is told at once.
func TestATokenThatCannotBeMade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newClientWith(t, Config{
			Endpoints: c.endpoints(1, 2), Dial: c.dial, PlainToken: true,
			Token: func(context.Context) (string, error) { return "", errors.New("no such file") },
		})
		for call, do := range connecting(session.Token{ID: 1<<56 | 1, Credential: credentialOf(1<<56 | 1), Attachment: 1}) {
			if err := do(t.Context(), cl); !errors.Is(err, session.ErrUnauthenticated) ||
				!strings.Contains(err.Error(), "no such file") {
				t.Errorf("%s: %v", call, err)
			}
		}
	})
}

// A call to one node says why it ended: that its time was over, with the caller's own word, or that its caller gave up.
func TestCallsToOneNodeTellWhyTheyEnded(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, cl *Client) error{
		"status": func(ctx context.Context, cl *Client) error { _, err := cl.Status(ctx, "n1:7400"); return err },
		"drain": func(ctx context.Context, cl *Client) error {
			_, err := cl.DrainNode(ctx, "n1:7400", 1, false)
			return err
		},
		"connections": func(ctx context.Context, cl *Client) error {
			_, err := cl.Connections(ctx, "n1:7400", ConnectionOptions{})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 1, 1)
				c.node(1).down()
				c.set(func() { c.node(1).hang = true })
				mine := errors.New("the operator's time is over")
				ctx, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.Join(mine, context.DeadlineExceeded))
				defer cancel()
				if err := call(ctx, cl); !errors.Is(err, ErrUnreachable) || !errors.Is(err, mine) {
					t.Errorf("out of time: got %v, want %v because of %v", err, ErrUnreachable, mine)
				}
				cancelled, stop := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { stop(mine) })
				if err := call(cancelled, cl); errors.Is(err, ErrUnreachable) || !errors.Is(err, mine) {
					t.Errorf("cancelled: got %v, want %v, and no word of the node", err, mine)
				}
			})
		})
	}
}

// A registrar whose token is refused tells so at the start. Later it goes on: a token that is replaced too late must not
// end a registration for good.
func TestARegistrarSurvivesADenial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		registered := make(chan session.ID, 2)
		run := func() error {
			r, err := NewRegistrar(cl, RegistrarOptions{
				Session: SessionOptions{Timeout: time.Minute},
				Register: func(_ context.Context, e Establishment) error {
					registered <- e.Session.ID()
					return nil
				},
			})
			if err != nil {
				return err
			}
			return r.Run(ctx)
		}
		c.node(1).refuse("open", forbidden)
		if err := run(); !errors.Is(err, session.ErrForbidden) {
			t.Errorf("at the start: %v", err)
		}
		c.node(1).heal()
		ended := make(chan error, 1)
		go func() { ended <- run() }()
		first := <-registered
		c.node(1).refuse("open", forbidden)
		c.expire(first)
		time.Sleep(20 * time.Second)
		c.node(1).heal()
		select {
		case second := <-registered:
			if second == first {
				t.Errorf("registered %v again", second)
			}
		case err := <-ended:
			t.Fatalf("ended: %v", err)
		}
		cancel()
		<-ended
	})
}
