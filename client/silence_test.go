package client

import (
	"context"
	"errors"
	"net"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// A node falls silent right after an answer. The client leaves it 5/12 of the timeout after it sent the answered
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
		time.Sleep(timeout*5/12 - 1)
		synctest.Wait()
		if n, log := resumed(); n > 0 {
			t.Fatalf("before 5/12 of the timeout were over: %q", log)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, log := resumed(); n != 1 || log[0] != "5s resume "+s.ID().String()+" attempt 1" {
			t.Fatalf("at 5/12 of the timeout: %q", log)
		}
		time.Sleep(timeout/4 - 1)
		synctest.Wait()
		if n, log := resumed(); n > 0 {
			t.Fatalf("before the time of the first other node was over: %q", log)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n, log := resumed(); n != 1 || log[0] != "8s resume "+s.ID().String()+" attempt 2" {
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
		if n, log := resumed(); n != 1 || log[0] != "11s resume "+s.ID().String()+" attempt 3" {
			t.Fatalf("after the time of the second other node: %q", log)
		}
		wantSafe(t, c, s, 11*time.Second+promised(timeout))
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

// A round is over although an attempt to connect hangs, when other nodes have answered: they may know a leader by now.
func TestANodeThatHangsHoldsUpNoRound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpen(t, cl, 12*time.Second)
		frozen := c.owner(s)
		for _, n := range c.others(frozen) {
			n.refuseAll(session.ErrNoLeader)
		}
		c.set(func() { frozen.hang = true })
		frozen.down()
		begun := time.Now()
		time.Sleep(time.Second)
		for _, n := range c.others(frozen) {
			n.heal()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if _, err := cl.Open(ctx, SessionOptions{Timeout: 12 * time.Second}); err != nil {
			t.Fatal(err)
		}
		if got := time.Since(begun); got >= 2*time.Second { // a sixth of the timeout
			t.Errorf("opened after %v, when the attempt that hangs was given up", got)
		}
	})
}

// The client uses the first connection that is up and closes the others. It tries those again when the first does not
// serve.
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

// frozen is a connection to a node whose process can be stopped: no bytes come from it any more, and it ends nothing.
type frozen struct {
	net.Conn
	stopped chan struct{} // closed when the process is stopped
	hung    chan struct{} // closed when the client hangs up
	once    sync.Once
}

func (f *frozen) Read(b []byte) (int, error) {
	n, err := f.Conn.Read(b)
	select {
	case <-f.stopped: // the node's bytes stay in its process
		<-f.hung
		return 0, net.ErrClosed
	default:
		return n, err
	}
}

func (f *frozen) Close() error {
	f.once.Do(func() { close(f.hung) })
	return f.Conn.Close()
}

// A leader freezes, and its connections stay open. A client at that node, whose open is not answered, leaves it after a
// second of silence and an unanswered question. Clients at the other nodes wait for the election: these nodes answer
// their questions, so they are not left, however long it lasts.
func TestClientsLeaveAFrozenNodeButNotAWaitingNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		stopped := make(chan struct{})
		freezing := func(ctx context.Context, address string) (net.Conn, error) {
			conn, err := c.dial(ctx, address)
			if err != nil || address != "n1:7400" {
				return conn, err
			}
			return &frozen{Conn: conn, stopped: stopped, hung: make(chan struct{})}, nil
		}
		at := func(first, second int) (*Client, *Session) {
			cl := newClientWith(t, Config{Endpoints: c.endpoints(first, first), Dial: freezing, OnlyEndpoints: true})
			s := mustOpen(t, cl, time.Minute)
			if err := cl.UpdateServers([]string{c.node(first).address, c.node(second).address}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return cl, s
		}
		leaves, left := at(1, 2)
		waits, _ := at(2, 1)
		if c.owner(left).number != 1 {
			t.Fatalf("the client is at node %d, want 1", left.Owner())
		}
		begun := time.Now()
		close(stopped)
		const election = 5 * time.Second // longer than either client is patient with silence
		elected := time.Now().Add(election)
		c.node(2).answer(func(kind string) error {
			if kind == "open" && time.Now().Before(elected) {
				return errMute
			}
			return nil
		})
		dialled := len(c.node(1).dialled())
		opened := make(chan time.Duration, 2)
		for _, cl := range []*Client{leaves, waits} {
			go func() {
				ctx, cancel := context.WithTimeout(t.Context(), election)
				defer cancel()
				_, _ = cl.Open(ctx, SessionOptions{Timeout: time.Minute}) // not answered before the election
				opened <- time.Since(begun)
			}()
		}
		time.Sleep(conn.AskAfter + conn.SignWithin - 1)
		synctest.Wait()
		if n := left.Owner(); n != 1 {
			t.Errorf("the frozen node was left for node %d before it was asked for a sign of life", n)
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if n := left.Owner(); n != 2 {
			t.Errorf("%v after it froze, the client is at node %d, want 2", time.Since(begun), n)
		}
		<-opened
		<-opened
		if n := len(c.node(1).dialled()) - dialled; n > 0 {
			t.Errorf("the node that waited for the election was left: %d attempts at the other one", n)
		}
	})
}

// A caller whose time is over before any attempt to connect has had an outcome learns that no node was reached, as with
// other calls. Without this it would get no reason, and the command line could not report that no node answers. A
// cancelled caller proves nothing about the nodes.
func TestACallThatEndsBeforeAnyConnectionIsUnreachable(t *testing.T) {
	for name, call := range map[string]func(ctx context.Context, c *Client) error{
		"open": func(ctx context.Context, c *Client) error {
			_, err := c.Open(ctx, SessionOptions{Timeout: 10 * time.Second})
			return err
		},
		"read": func(ctx context.Context, c *Client) error { _, err := c.Tree().Get(ctx, "/a"); return err },
		"watch": func(ctx context.Context, c *Client) error {
			for _, err := range c.Tree().Watch(ctx, "/a", tree.WatchRecursive) {
				if err != nil {
					return err
				}
			}
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 2, 2)
				c.set(func() { c.node(1).hang, c.node(2).hang = true, true })
				ctx, cancel := context.WithTimeout(t.Context(), DefaultConnectTimeout-1)
				defer cancel()
				if err := call(ctx, cl); !errors.Is(err, ErrUnreachable) || !errors.Is(err, context.DeadlineExceeded) {
					t.Errorf("out of time: got %v, want %v", err, ErrUnreachable)
				}
				other := newTestClient(t, c, c.endpoints(1, 2))
				cancelled, stop := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, stop)
				if err := call(cancelled, other); errors.Is(err, ErrUnreachable) || !errors.Is(err, context.Canceled) {
					t.Errorf("cancelled: got %v, want no word of the nodes", err)
				}
			})
		})
	}
}
