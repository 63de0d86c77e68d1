package client

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/window"
	"holdfast/session"
	"holdfast/test/bubble"
)

// openFor calls Open with a context of d.
func openFor(t *testing.T, cl *Client, d time.Duration, o SessionOptions) (*Session, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	return cl.Open(ctx, o)
}

// A local open that a read-only node cannot serve is sent once on each connection. Its error names what the node lacked
// (L2 local ids).
func TestL2LocalOpenOfAReadOnlyNodeWithoutIDsIsParked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 1, nil)
		here := c.node(1)
		here.isIn(session.ModeReadOnly, 10)
		here.refuse("open", session.ErrNoLeader)
		_, err := openFor(t, cl, 20*time.Second, SessionOptions{Timeout: 10 * time.Second, Local: true})
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, session.ErrNoLeader) ||
			!errors.Is(err, session.ErrReadOnly) {
			t.Errorf("Open: got %v", err)
		}
		if opens, dials := here.count("open"), len(here.dialled()); opens > dials || dials < 5 {
			t.Errorf("%d opens through %d connections in 20 s", opens, dials)
		}
	})
}

// The error of a parked open names the refusal, although no other node can be reached.
func TestOpenParkedAtAReadOnlyNodeSaysWhy(t *testing.T) {
	for name, o := range map[string]SessionOptions{
		"global": {Timeout: 10 * time.Second}, "local": {Timeout: 10 * time.Second, Local: true},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newModalTrial(t, 1, nil)
				here := c.node(1)
				mustOpen(t, cl, time.Minute)
				here.becomes(session.ModeReadOnly)
				here.refuse("open", session.ErrNoLeader)
				c.set(func() { here.hang = true })
				time.Sleep(5 * time.Second) // then the latest failures are connection attempts
				here.record()
				_, err := openFor(t, cl, time.Second, o)
				if !errors.Is(err, session.ErrReadOnly) || errors.Is(err, session.ErrNoLeader) != o.Local ||
					errors.Is(err, ErrUnreachable) {
					t.Errorf("Open: got %v", err)
				}
				if got := here.count("open"); got > 1 || got == 1 && !o.Local {
					t.Errorf("%d opens were sent to a node that takes none", got)
				}
			})
		})
	}
}

// A read-only node becomes a node without a leader. Requests that were parked there are sent there again: the node may
// find a leader before the client can connect to any other.
func TestParkedRequestsAreRetriedAtANodeWithoutALeader(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, nil)
		s := mustOpen(t, cl, 40*time.Second)
		first := c.owner(s)
		here := c.others(first)[0]
		here.becomes(session.ModeReadOnly)
		first.down()
		time.Sleep(time.Second)
		opened := make(chan *Session, 1)
		go func() {
			g, _ := openFor(t, cl, 30*time.Second, SessionOptions{Timeout: 10 * time.Second})
			opened <- g
		}()
		synctest.Wait()
		wantPassages(t, s, StateConnectedReadOnly, "connected: connecting -> connected",
			"disconnected: connected -> connecting",
			"read-only: connecting -> connected read-only")
		c.set(func() { here.hang = true })
		here.becomes(session.ModeNoLeader)
		wantPassages(t, s, StateConnecting, "disconnected: connected read-only -> connecting")
		here.record()
		time.Sleep(2 * time.Second)
		asked := strings.Join(here.record(), "\n")
		if !strings.Contains(asked, "resume") || !strings.Contains(asked, "open") {
			t.Errorf("the node without a leader was asked %q, want a resume and an open", asked)
		}
		here.becomes(session.ModeReadWrite)
		time.Sleep(4 * time.Second)
		wantPassages(t, s, StateConnected, "connected: connecting -> connected")
		if g := <-opened; g == nil || time.Since(c.start) > 8*time.Second {
			t.Errorf("opened: %v after %v, want an open within 8 s", g != nil, time.Since(c.start))
		}
	})
}

// After a node has refused one resume because it is read-only, the queued resumes are not sent there.
func TestResumesAreHeldBackFromAReadOnlyNode(t *testing.T) {
	const many = window.MaxRequests + 200
	for name, granted := range map[string]int{"tried": 0, "in use": 3} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newModalTrial(t, 1, nil)
				here := c.node(1)
				for range many {
					mustOpen(t, cl, 40*time.Second)
				}
				here.record()
				resumes := 0
				here.answer(func(kind string) error {
					c.mu.Lock()
					defer c.mu.Unlock()
					if kind != "resume" {
						return nil
					}
					if resumes++; resumes > granted {
						here.state.Mode = session.ModeReadOnly
					}
					return nil
				})
				here.cut()
				synctest.Wait()
				if got := here.count("resume"); got > window.MaxRequests+granted+1 {
					t.Errorf("%d resumes at once, of which %d could be done", got, granted)
				}
			})
		})
	}
}

// A local session whose home is down waits at a read-only node. It is resumed once a search finds its home, also when
// it was requested at the read-only node as the search ended.
func TestALocalResumeParkedAtAReadOnlyNodeFindsItsHome(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, first := newModalTrial(t, 2, nil)
		s := mustOpenLocal(t, first, 10*time.Minute)
		home, token := c.owner(s), s.Token()
		for _, n := range c.all() {
			n.becomes(session.ModeReadOnly)
		}
		// L6: before a leader answers, the other node says nothing else of the session.
		c.other(s).refuse("resume", session.ErrReadOnly)
		home.down()
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial, ReadOnly: true})
		time.AfterFunc(3*time.Second, home.up)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if _, err := cl.Resume(ctx, token); err != nil {
			t.Errorf("resume: %v", err)
		}
	})
}
