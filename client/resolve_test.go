package client

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A name stands for all its addresses, and is resolved in each round.
func TestNamesAreResolvedInEachRound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		alias := func(i int) string { return fmt.Sprintf("10.0.0.%d", i) }
		for i := range 3 {
			c.nodes[alias(i+1)+":7400"] = c.node(i + 1)
		}
		var asked []string
		answer := []string{alias(1), alias(2)}
		cl := newClientWith(t, Config{
			ConnectString: "nodes.example.org/a/b", Dial: c.dial,
			Resolve: func(_ context.Context, host string) ([]string, error) {
				c.mu.Lock()
				defer c.mu.Unlock()
				asked = append(asked, host)
				return slices.Clone(answer), nil
			},
		})
		if got := cl.Chroot(); got != "/a/b" {
			t.Fatalf("Chroot: got %q", got)
		}
		c.node(1).down()
		s := mustOpen(t, cl, 12*time.Second)
		if s.Owner() != 2 {
			t.Fatalf("owner %d, want the one that is up", s.Owner())
		}
		if e := <-s.Events(); e.Address != alias(2)+":7400" {
			t.Errorf("connected to %q", e.Address)
		}
		c.set(func() { answer = []string{alias(1), alias(3)} })
		c.node(2).down()
		time.Sleep(time.Second)
		synctest.Wait()
		if s.Owner() != 3 || len(asked) < 2 || asked[0] != "nodes.example.org" {
			t.Errorf("owner %d, asked for %q", s.Owner(), asked)
		}
	})
}

// A name that is not resolved delays no other server: the next one is tried after the hedge delay.
func TestSlowNamesAreHedged(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		c.nodes["10.0.0.1:1"] = c.node(1)
		cl := newClientWith(t, Config{
			Endpoints: []string{"slow:1", "none:1", "bad:1", "10.0.0.1:1"}, Dial: c.dial,
			Resolve: func(ctx context.Context, host string) ([]string, error) {
				switch host {
				case "slow":
					<-ctx.Done()
					return nil, ctx.Err()
				case "none":
					return nil, nil
				default:
					return nil, errors.New("no such host")
				}
			},
		})
		mustOpen(t, cl, 12*time.Second)
		if got := time.Since(c.start); got > DefaultHedgeDelay {
			t.Errorf("opened after %v", got)
		}
		c.node(1).down()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 10 * time.Second}); !errors.Is(err, ErrUnreachable) {
			t.Errorf("Open: %v", err)
		}
	})
}

// FailInFlight has a call fail with ErrOutcomeUnknown when its connection is lost. The tests of O2, M1 and Close show
// the default, which repeats the call.
func TestFailInFlight(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial, InFlight: FailInFlight})
		n := c.node(1)
		s, held := mustOpen(t, cl, 12*time.Second), mustOpen(t, cl, 12*time.Second)
		done := errMuteAfter
		cut := func(string) error {
			time.AfterFunc(time.Second, func() { n.down(); n.up() })
			n.heal()
			return done
		}
		n.answer(cut)
		id := session.RequestID{1}
		if _, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second, RequestID: id}); !errors.Is(err,
			session.ErrOutcomeUnknown) {
			t.Fatalf("Open: %v", err)
		}
		again, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second, RequestID: id})
		if err != nil || c.opened != 3 {
			t.Errorf("opened again: %v, %d sessions, want the one that was opened", err, c.opened)
		}
		n.answer(cut)
		if err := s.Close(t.Context()); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("Close: %v", err)
		}
		<-s.Done()
		token := again.Token()
		if err := again.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
		n.answer(cut)
		if _, err := cl.Resume(t.Context(), token); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("Resume: %v", err)
		}
		n.refuse("open", session.ErrOutcomeUnknown)
		if _, err := cl.Open(t.Context(), SessionOptions{Timeout: 10 * time.Second}); !errors.Is(err,
			session.ErrOutcomeUnknown) {
			t.Errorf("Open that a node answers with ErrOutcomeUnknown: %v", err)
		}
		n.heal()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		if held.Err() != nil || held.State() != StateConnected {
			t.Errorf("the held session: got %v, %v, want it resumed", held.State(), held.Err())
		}
	})
}

// A new list of addresses is used at once, however many names of the former list are being resolved.
func TestServersAreUpdatedWhileNamesAreAskedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 1)
		var names []string
		for i := range 2 * route.MaxRacing {
			names = append(names, fmt.Sprintf("name%d:7400", i))
		}
		cl := newClientWith(t, Config{
			Endpoints: names,
			Dial:      func(ctx context.Context, _ string) (net.Conn, error) { return c.dial(ctx, "n1:7400") },
			Resolve: func(ctx context.Context, _ string) ([]string, error) {
				<-ctx.Done()
				return nil, ctx.Err()
			},
		})
		time.AfterFunc(2500*time.Millisecond, func() {
			if err := cl.UpdateServers([]string{"10.0.0.1:7400"}); err != nil {
				t.Error(err)
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: time.Minute}); err != nil {
			t.Errorf("Open with a server that answers: %v", err)
		}
	})
}
