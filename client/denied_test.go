package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
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

// A call that every node denies ends with the reason as soon as the last node has answered: without any wait, but for
// nodes that are silent, of which a client knows after an attempt to connect. Nodes that have answered are not
// unreachable, and a node that denies the client has done nothing of what it was asked for.
func TestDeniedCallsEndAtOnce(t *testing.T) {
	for name, other := range map[string]struct {
		sick func(*fakeNode)
		most time.Duration
	}{
		"deny too": {func(n *fakeNode) { n.deny(forbidden) }, 0},
		"are down": {(*fakeNode).down, 0},
		"hang":     {func(n *fakeNode) { n.down(); n.c.set(func() { n.hang = true }) }, DefaultConnectTimeout},
	} {
		for place := 1; place <= 3; place++ {
			t.Run(fmt.Sprintf("node %d denies, others %s", place, name), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, cl := newTrial(t, 3, 3)
					token := mustOpen(t, cl, time.Hour).Token()
					_ = cl.Close()
					c.node(place).deny(forbidden)
					for _, n := range c.others(c.node(place)) {
						other.sick(n)
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
							if took := time.Since(began); took > other.most {
								t.Errorf("%s: took %v, want at most %v", call, took, other.most)
							}
							_ = cl.Close()
						}
					}
				})
			})
		}
	}
}

// A call continues while a node may serve it: a node that serves, or one with another answer than a denial.
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

// A session that is held, and a watch that is in place, survive that every node denies the client for a while, as when
// a token is replaced too late. New calls are denied meanwhile.
func TestHeldSessionsSurviveADenial(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, time.Minute)
		heard := watchAll(t, cl.Tree(), "/", tree.WatchRecursive)
		c.everyNode(func(n *fakeNode) { n.deny(session.ErrUnauthenticated) })
		for call, do := range connecting(session.Token{ID: 1<<56 | 1, Credential: credentialOf(1<<56 | 1), Attachment: 1}) {
			if err := do(t.Context(), cl); !errors.Is(err, session.ErrUnauthenticated) {
				t.Errorf("%s meanwhile: got %v, want %v", call, err, session.ErrUnauthenticated)
			}
		}
		time.Sleep(20 * time.Second)
		c.change(create("/a"))
		c.everyNode(func(n *fakeNode) { n.deny(nil) })
		time.Sleep(10 * time.Second)
		if s.State() != StateConnected || s.Context().Err() != nil {
			t.Errorf("the session is %v, %v", s.State(), s.Err())
		}
		c.change(create("/b"))
		if got, want := heard.take(), []string{"started", "/a created", "/b created"}; !slices.Equal(got, want) || heard.err != nil {
			t.Errorf("the watch heard %q and ended with %v, want %q", got, heard.err, want)
		}
	})
}
