package node

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/hashicorp/raft"
	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/emptypb"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// forge has a node apply an entry, in place of the next one, that no other node has: opens of sessions.
func (n *testNode) forge(t *testing.T, opens int) {
	t.Helper()
	var commands []session.Command
	for i := range opens {
		commands = append(commands, session.OpenSession{
			Node: n.cfg.Node, MS: 1, Spec: session.Spec{Timeout: 40 * time.Second},
			RequestID: session.RequestID{0xf0, byte(i)},
		})
	}
	data, err := entry.Encode(commands)
	if err != nil {
		t.Fatal(err)
	}
	if err, failed := n.view.Apply(
		&raft.Log{Index: n.view.AppliedIndex(), Term: n.consensus.Raft.CurrentTerm(), Data: data},
	).(error); failed {
		t.Fatal(err)
	}
}

// steppedOut fails unless n steps out within some rounds: it says so wherever it can be asked, and serves nobody.
func (c *testCluster) steppedOut(n *testNode) {
	c.t.Helper()
	var differs *differsError
	c.eventually(n.name+" steps out", 4*n.cfg.Sessions.HeartbeatInterval, func() bool {
		return errors.As(n.health.Check(), &differs)
	})
	if code, body := c.get(n, "/healthz"); code != http.StatusServiceUnavailable ||
		!strings.Contains(body, "this node's state is not that of the others") ||
		!strings.Contains(body, "empty the directory") {
		c.t.Errorf("healthz of %s: %d %q", n.name, code, body)
	}
	if _, body := c.get(n, "/metrics"); !strings.Contains(body, "\nholdfast_state_differs 1\n") ||
		!strings.Contains(body, "\nholdfast_ready 0\n") {
		c.t.Errorf("metrics of %s:\n%s", n.name, body)
	}
	if s, err := n.Status(c.t.Context()); err != nil || s.Ready ||
		!strings.Contains(s.NotReadyBecause, "this node's state is not that of the others") {
		c.t.Errorf("status of %s: %+v, %v", n.name, s, err)
	}
	if got := strings.Count(n.log.String(), "steps out for good"); got == 0 {
		c.t.Errorf("%s does not log it", n.name)
	}
	if _, err := n.server.Connect(nil); !errors.Is(err, session.ErrStopping) {
		c.t.Errorf("a connection to %s: %v", n.name, err)
	}
	if _, err := n.server.Find(c.t.Context(), 1, session.ReadOptions{AllowReadOnly: true}); !errors.Is(err,
		session.ErrStopping) {
		c.t.Errorf("a read of %s: %v", n.name, err)
	}
	c.eventually(n.name+" does not lead", n.cfg.Sessions.HeartbeatInterval, func() bool { return !n.Leads() })
}

// stream opens a client's stream to a node; ended returns what it ends with, or why it has not within a moment.
func (c *testCluster) stream(n *testNode) (ended func() error) {
	c.t.Helper()
	// Not the host of get: a new life of it would end this connection.
	conn, err := dial.Client(n.name+":7400", dial.Options{Dial: c.Host("streaming client").Dial})
	if err != nil {
		c.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(c.t.Context())
	s, err := conn.NewStream(ctx, &grpc.StreamDesc{ServerStreams: true, ClientStreams: true},
		"/holdfast.v1.SessionService/Connect")
	if err != nil {
		c.t.Fatal(err)
	}
	return func() error {
		defer conn.Close()
		defer cancel()
		timer := time.AfterFunc(time.Second, cancel)
		defer timer.Stop()
		for {
			if err := s.RecvMsg(&emptypb.Empty{}); err != nil {
				return err
			}
		}
	}
}

// A replica with another state is found and steps out, whether it leads or not, and again after a restart from its
// snapshot. The others go on with all sessions. Emptied it is taken in anew.
func TestAReplicaThatDiffersStepsOut(t *testing.T) {
	for _, leader := range []bool{false, true} {
		t.Run(fmt.Sprintf("leads %t", leader), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				leads := c.leader(within)
				n := leads
				if !leader {
					n = c.others(leads)[0]
				}
				kept := c.mustOpen(c.others(n)[0], 5*time.Second)
				conn := listen(t, n)
				touched, err := conn.Open(t.Context(),
					session.OpenRequest{
						RequestID: session.RequestID{99},
						Spec:      session.Spec{Timeout: 40 * time.Second},
					})
				if err != nil {
					t.Fatal(err)
				}
				time.Sleep(3 * time.Second)
				if got := conn.Touch(nil); got.SafeFor <= 0 {
					t.Errorf("a touch before: %+v", got)
				}
				ended := c.stream(n)
				n.forge(t, 28)
				c.steppedOut(n)
				if err := ended(); !errors.Is(wire.Domain(err), session.ErrStopping) {
					t.Errorf("a client's stream ended with %v, want %v", err, session.ErrStopping)
				}
				if got := conn.Touch(nil); got.SafeFor > 0 {
					t.Errorf("%s promises %v after it has stepped out", n.name, got.SafeFor)
				}
				conn.Disconnect()
				now := c.leader(20*time.Second, n)
				for _, g := range []session.Grant{kept, touched} {
					if _, err := now.server.Find(t.Context(), g.Session.ID, session.ReadOptions{}); err != nil {
						t.Errorf("a session that was acknowledged: %v", err)
					}
				}
				c.mustOpen(now, 5*time.Second)
				time.Sleep(time.Minute)
				if n.health.Check() == nil || n.Leads() {
					t.Error("it came back by itself")
				}
				for _, other := range c.others(n) {
					if err := other.health.Check(); err != nil {
						t.Errorf("%s does not serve: %v", other.name, err)
					}
				}

				// Its snapshot has the difference.
				if err := n.consensus.Raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
				if err := c.end(n); err != nil {
					t.Error(err)
				}
				c.start(n)
				c.eventually("it hears of the leader", 20*time.Second, func() bool {
					return n.health.Check() == nil || n.watchdog.Check() != nil
				})
				c.steppedOut(n)

				c.kill(n)
				c.empty(n)
				c.start(n)
				c.voters()
				c.agree(10 * time.Second)
			})
		})
	}
}

// The role loop of a node that steps out is told: its term ends at once, and not with the loop's next look.
func TestANodeThatStepsOutLeadsNoMore(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		leads.stepOut(errors.New("this is a test"))
		synctest.Wait()
		if leads.Leads() {
			t.Error("it leads after it has stepped out")
		}
	})
}

// Damage of memory does not show in a digest that is kept command by command. A scrub finds it, also where nothing is
// applied any more, and the snapshot that would have kept it is not written.
func TestADamagedStateIsFound(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		n := c.others(leads)[0]
		g, err := c.openLabelled(leads)
		if err != nil {
			t.Fatal(err)
		}
		c.eventually("it has the session", time.Second, func() bool { return n.view.Sessions() == 1 })
		// What is read shares the texts of its long labels with the state.
		s, ok := n.view.Session(g.Session.ID)
		if !ok {
			t.Fatal("no session")
		}
		*unsafe.StringData(s.Labels[0].Value) ^= 1 //nolint:gosec // the test makes damage

		n.view.Sessions() // takes the lock: the scrub comes later, as the race detector sees it
		time.Sleep(5 * time.Second)
		if err := n.health.Check(); err != nil {
			t.Errorf("it was found without a scrub: %v", err)
		}
		c.eventually("the scrub", scrubInterval, func() bool { return n.replica.stats().Corruptions == 1 })
		c.steppedOut(n)
		if n := leads.replica.stats(); n.Corruptions > 0 || n.WithoutQuorum {
			t.Errorf("the leader: %+v", n)
		}
	})
}

// openLabelled opens a session with a label so long that the state keeps it as a text of its own.
func (c *testCluster) openLabelled(n *testNode) (session.Grant, error) {
	conn, err := n.server.Connect(nil)
	if err != nil {
		return session.Grant{}, err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	return conn.Open(ctx, session.OpenRequest{
		RequestID: session.RequestID{77},
		Spec:      session.Spec{Timeout: 40 * time.Second, Labels: session.Labels{{Key: "a", Value: strings.Repeat("b", session.MaxLabelValue)}}},
	})
}

// Of nodes that all differ nobody knows which is right: none steps out, and each raises the alarm.
func TestReplicasThatAllDifferRaiseTheAlarm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		heal := c.cut(c.others(leads)[0], c.others(leads)[1], leads) // it differs too, and is not heard of
		time.Sleep(2 * time.Second)
		leads.forge(t, 2)
		c.others(leads)[1].forge(t, 3)
		two := []*testNode{leads, c.others(leads)[1]}
		for _, n := range two {
			c.eventually(n.name+" raises the alarm", 10*time.Second, func() bool { return n.replica.stats().WithoutQuorum })
			if code, body := c.get(n, "/healthz"); code != http.StatusOK ||
				!strings.Contains(body, "no quorum has the same") {
				t.Errorf("healthz of %s: %d %q", n.name, code, body)
			}
			if _, body := c.get(n, "/metrics"); !strings.Contains(body, "\nholdfast_state_without_quorum 1\n") {
				t.Errorf("metrics of %s: %s", n.name, body)
			}
			if s, err := n.Status(t.Context()); err != nil || !s.Ready ||
				!strings.Contains(s.Warning, "no quorum has the same") {
				t.Errorf("status of %s: %+v, %v", n.name, s, err)
			}
			if !strings.Contains(n.log.String(), "nodes differ") {
				t.Errorf("%s does not log it", n.name)
			}
		}
		c.mustOpen(leads, 5*time.Second)
		heal()
		time.Sleep(20 * time.Second)
		for _, n := range c.nodes {
			if err := n.watchdog.Check(); err != nil || !n.replica.stats().WithoutQuorum {
				t.Errorf("%s, of three that differ, has stepped out: %v; %+v", n.name, err, n.replica.stats())
			}
		}
	})
}
