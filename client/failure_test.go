package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/session"
	"holdfast/test/bubble"
)

// wantWord checks the error of a call that one node refused with word while the others were silent.
func wantWord(t *testing.T, call string, err, word error) {
	t.Helper()
	if !errors.Is(err, word) || errors.Is(err, ErrUnreachable) {
		t.Errorf("%s: got %v, want %v and not %v", call, err, word, ErrUnreachable)
	}
}

// A call returns the refusal of the one living node, at any place in the list and however the other nodes are dead.
func TestARefusalIsReportedWhenOtherNodesAreSilent(t *testing.T) {
	for name, kill := range map[string]func(n *fakeNode){
		"down":  (*fakeNode).down,
		"hangs": func(n *fakeNode) { n.down(); n.c.set(func() { n.hang = true }) },
	} {
		for place := 1; place <= 3; place++ {
			t.Run(fmt.Sprintf("%s, node %d lives", name, place), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, cl := newModalTrial(t, 3, func(cfg *Config) { cfg.ReadOnly = false })
					alive := c.node(place)
					alive.isIn(session.ModeReadOnly, 14)
					alive.answer(func(kind string) error {
						if kind == "members" || kind == "upgrade" || kind == "touch" {
							return session.ErrStopping
						}
						return nil
					})
					for _, n := range c.others(alive) {
						kill(n)
					}
					refusedCalls(t, cl, place)
				})
			})
		}
	}
}

// refusedCalls makes calls each in 10 s, which is time for the endpoints to be asked once if two of them hang, and cuts
// the second round short.
func refusedCalls(t *testing.T, cl *Client, place int) {
	t.Helper()
	in := func(call func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return call(ctx)
	}
	readOnly := fmt.Sprintf("node %d knows the log up to index 14", place)
	err := in(func(ctx context.Context) error { _, err := cl.Get(ctx, 77); return err })
	wantWord(t, "Get", err, session.ErrReadOnly)
	if !errors.Is(err, session.ErrNoLeader) || !strings.Contains(err.Error(), readOnly) {
		t.Errorf("Get: %v, want it to say %q", err, readOnly)
	}
	err = in(func(ctx context.Context) (err error) { _, err = cl.List(ctx, ListOptions{}); return err })
	wantWord(t, "List", err, session.ErrReadOnly)
	err = in(func(ctx context.Context) (err error) { _, err = cl.Members(ctx); return err })
	wantWord(t, "Members", err, session.ErrStopping)
	token := session.Token{ID: 1<<56 | 1, Credential: credentialOf(1<<56 | 1), Attachment: 1}
	err = in(func(ctx context.Context) (err error) { _, err = cl.UpgradeToken(ctx, token); return err })
	wantWord(t, "UpgradeToken", err, session.ErrStopping)
	err = in(func(ctx context.Context) (err error) { _, err = cl.Touch(ctx, []session.Token{token}); return err })
	wantWord(t, "Touch", err, session.ErrStopping)
	err = in(func(ctx context.Context) (err error) {
		_, err = cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
		return err
	})
	wantWord(t, "Open", err, session.ErrReadOnly)
}

// A call does not report a refusal after its node has gone: once all nodes are silent, the error is ErrUnreachable.
func TestSilentNodesAreUnreachableAfterARefusal(t *testing.T) {
	open := func(ctx context.Context, cl *Client) error {
		_, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
		return err
	}
	token := session.Token{ID: 1<<56 | 1, Credential: credentialOf(1<<56 | 1), Attachment: 1}
	for name, call := range map[string]func(ctx context.Context, cl *Client, word error) error{
		"Members": func(ctx context.Context, cl *Client, _ error) error { _, err := cl.Members(ctx); return err },
		"Get":     func(ctx context.Context, cl *Client, _ error) error { _, err := cl.Get(ctx, 77); return err },
		"UpgradeToken": func(ctx context.Context, cl *Client, _ error) error {
			_, err := cl.UpgradeToken(ctx, token)
			return err
		},
		"List": func(ctx context.Context, cl *Client, _ error) error {
			_, err := cl.List(ctx, ListOptions{})
			return err
		},
		"Open": func(ctx context.Context, cl *Client, word error) error {
			first := make(chan error)
			go func() { first <- open(ctx, cl) }() // keeps the client searching for a node
			time.Sleep(12 * time.Second)
			err := open(ctx, cl)
			wantWord(t, "the first Open", <-first, word)
			return err
		},
	} {
		for _, word := range []error{session.ErrNoLeader, session.ErrLagging} {
			t.Run(fmt.Sprintf("%s, %v", name, word), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c, cl := newModalTrial(t, 2, nil)
					c.node(2).down()
					c.node(1).refuseAll(word)
					time.AfterFunc(10*time.Second, c.node(1).down)
					ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
					defer cancel()
					err := call(ctx, cl, word)
					if !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) ||
						errors.Is(err, word) {
						t.Errorf("got %v, want only %v and %v", err, ErrUnreachable, context.DeadlineExceeded)
					}
				})
			})
		}
	}
}

// late is a context whose timer fires after its deadline, as happens on a busy machine.
type late struct {
	context.Context //nolint:containedctx // it is one
	deadline        time.Time
}

func (l late) Deadline() (time.Time, bool) { return l.deadline, true }

// An attempt that the deadline cut short says nothing of its node, also when the context has not noticed yet that it
// ended. The refusal of the attempt before is reported.
func TestADeadlineDoesNotHideARefusal(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, cl *Client) error{
		"Members": func(ctx context.Context, cl *Client) error { _, err := cl.Members(ctx); return err },
		"Get":     func(ctx context.Context, cl *Client) error { _, err := cl.Get(ctx, 77); return err },
		"UpgradeToken": func(ctx context.Context, cl *Client) error {
			_, err := cl.UpgradeToken(ctx, session.Token{ID: 1})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newModalTrial(t, 2, func(cfg *Config) { cfg.MaxBackoff = DefaultMinBackoff })
				c.node(2).down()
				c.node(1).refuseAll(session.ErrNoLeader)
				ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
				defer cancel()
				wantWord(t, name, call(late{ctx, time.Now().Add(4 * time.Second)}, cl), session.ErrNoLeader)
			})
		})
	}
}

// Only its own node knows a local session. When that node does not serve, the other nodes name it, and the session has
// not ended. The error contains both answers.
func TestCallsForALocalSessionWhoseNodeDoesNotServe(t *testing.T) {
	for name, tt := range map[string]struct {
		sick func(home *fakeNode)
		want error
		says string
	}{
		"down":  {(*fakeNode).down, ErrUnreachable, "n1:7400"},
		"hangs": {func(n *fakeNode) { n.down(); n.c.set(func() { n.hang = true }) }, ErrUnreachable, "n1:7400"},
		"refuses": {func(n *fakeNode) {
			n.refuseAll(session.ErrStopping)
		}, session.ErrStopping, ""},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 1)
				token := mustOpenLocal(t, cl, time.Hour).Token()
				tt.sick(c.node(1))
				tool := newTestClient(t, c, c.endpoints(1, 3))
				for name, call := range map[string]func(ctx context.Context) error{
					"Get":        func(ctx context.Context) error { _, err := tool.Get(ctx, token.ID); return err },
					"CloseToken": func(ctx context.Context) error { return tool.CloseToken(ctx, token) },
					"UpgradeToken": func(ctx context.Context) error {
						_, err := tool.UpgradeToken(ctx, token)
						return err
					},
				} {
					ctx, cancel := context.WithTimeout(t.Context(), DefaultConnectTimeout+time.Second)
					err := call(ctx)
					cancel()
					for _, sentinel := range []error{
						ErrUnreachable, session.ErrStopping, session.ErrExpired,
						session.ErrMoved,
					} {
						if errors.Is(err, sentinel) != errors.Is(tt.want, sentinel) {
							t.Errorf("%s: %v, want only %v", name, err, tt.want)
						}
					}
					said := err.Error()
					if !strings.Contains(said, tt.says) ||
						!strings.Contains(said, "local to node 1") &&
							!strings.Contains(said, session.ErrMoved.Error()) {
						t.Errorf("%s: %q, want it to name %q and the answers of the other nodes", name, said, tt.says)
					}
				}
			})
		})
	}
}

// A client with many resumes leaves a read-only node at the first refusal. The callers of the other resumes get that
// refusal too.
func TestARefusalIsReportedToAllWaitingCallers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, holder := newTrial(t, 3, 3)
		var tokens []session.Token
		for range 20 {
			tokens = append(tokens, mustOpen(t, holder, time.Hour).Token())
		}
		_ = holder.Close()
		c.node(1).refuseAll(session.ErrReadOnly)
		c.node(2).down()
		c.node(3).down()
		cl := newTestClient(t, c, c.endpoints(1, 3))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		errs := make(chan error)
		for _, token := range tokens {
			go func() {
				_, err := cl.Resume(ctx, token)
				errs <- err
			}()
		}
		for range tokens {
			wantWord(t, "Resume", <-errs, session.ErrReadOnly)
		}
	})
}

// A node that accepts requests and answers none counts as unreachable.
func TestAStalledNodeIsUnreachable(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		c.node(1).refuseAll(errMute)
		ctx, cancel := context.WithTimeout(t.Context(), conn.AskAfter+conn.SignWithin+time.Millisecond)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); !errors.Is(err, ErrUnreachable) ||
			!errors.Is(err, conn.ErrStalled) {
			t.Errorf("got %v, want %v because of %v", err, ErrUnreachable, conn.ErrStalled)
		}
	})
}
