package node

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
)

// Every bubble of this file ends with a panic when a node leaves a goroutine behind.

// TestAStartOnADiskThatFails: when the first writes of a new node or of an older node fail, New fails and keeps
// nothing.
func TestAStartOnADiskThatFails(t *testing.T) {
	for _, doing := range []string{"SetUint64", "StoreLogs"} {
		t.Run(doing, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 0, nil)
				c.add(1)
				n := c.nodes[0]
				n.disk.fails = func(now string) error {
					if now == doing {
						return errDisk
					}
					return nil
				}
				begun := time.Now()
				made, err := c.make(n)
				if doing == "StoreLogs" && err == nil { // the log begins when the node has been admitted
					err = made.Run(t.Context())
				}
				if !errors.Is(err, errDisk) || !strings.Contains(err.Error(), "start the node again") {
					t.Errorf("%v, want the disk's error and what to do", err)
				}
				if got := time.Since(begun); got > 2*time.Second { // twice what a failed start may take
					t.Errorf("it took %v", got)
				}
				n.disk.fails = nil
				c.start(n) // ports, lock and log file are free again
				c.leader(10 * time.Second)
				if err := c.end(n); err != nil {
					t.Errorf("stop: %v", err)
				}
				n.disk.fail(errDisk)
				if _, err := c.make(n); !errors.Is(err, errDisk) {
					t.Errorf("New on a directory with state: %v, want the disk's error", err)
				}
			})
		})
	}
}

// TestADiskThatFails: the node ends with the reason, the others go on, and it comes back from its disk.
func TestADiskThatFails(t *testing.T) {
	for name, pick := range map[string]func(c *testCluster, leads *testNode) *testNode{
		"leader":   func(_ *testCluster, leads *testNode) *testNode { return leads },
		"follower": func(c *testCluster, leads *testNode) *testNode { return c.others(leads)[0] },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				leads := c.leader(10 * time.Second)
				victim := pick(c, leads)
				victim.disk.fail(errDisk)
				_, _ = c.open(leads, 2*time.Second) // a write; its outcome is nobody's business
				begun := time.Now()
				<-victim.ended
				if !errors.Is(victim.err, errDisk) || !strings.Contains(victim.err.Error(), "start the node again") {
					t.Errorf("Run: %v, want the disk's error and what to do", victim.err)
				}
				if got := time.Since(begun); got > victim.cfg.Tuning.ShutdownTimeout {
					t.Errorf("the node took %v to end", got)
				}
				_, after, said := strings.Cut(victim.log.String(), "the node cannot go on")
				if !said || strings.Contains(after, ".raft: ") {
					t.Errorf("the log says why the node ends: %v; after that it has words of Raft's in\n%s", said,
						after)
				}
				if got := victim.consensus.Raft.State(); got != raft.Shutdown {
					t.Errorf("Raft is %v, want that it was shut down", got)
				}
				leads = c.leader(10*time.Second, victim)
				c.mustOpen(leads, 5*time.Second)
				victim.disk.set(func(d *faultyDisk) { d.fails = nil })
				c.start(victim)
				c.eventually("serving again", 20*time.Second, func() bool { return victim.server.Ready() == nil })
				c.agree(5 * time.Second)
			})
		})
	}
}

func TestTransferLeadership(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(10 * time.Second)
		if err := c.others(leads)[0].TransferLeadership(t.Context()); !errors.Is(err, session.ErrNotLeader) {
			t.Errorf("by a node that does not lead: %v, want ErrNotLeader", err)
		}
		if err := leads.TransferLeadership(t.Context()); err != nil {
			t.Errorf("TransferLeadership: %v", err)
		}
		if leads.consensus.Raft.State() == raft.Leader {
			t.Error("the node leads on")
		}
		next := c.leader(5*time.Second, leads)
		c.mustOpen(next, time.Second)
		// Nobody can take over: the node leads on, or says that it does not.
		for _, other := range c.others(next) {
			c.Pause(other.name)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if err := next.TransferLeadership(ctx); err == nil {
			t.Error("leadership was transferred to nobody")
		}
		for _, other := range c.others(next) {
			c.Resume(other.name)
		}
		c.leader(20 * time.Second)
	})
}

// TestHooks: Clock dates ids and incarnations, and the node that leads calls Heard.
func TestHooks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 0, nil)
		c.add(3)
		const ahead = 7 * 365 * 24 * time.Hour
		c.clock = func() time.Time { return time.Now().Add(ahead) }
		type heard struct {
			term uint64
			from session.Node
			late bool
		}
		all := make(chan heard, 1000)
		for _, n := range c.nodes {
			n.heard = func(term uint64, from session.Node, sent time.Time) {
				all <- heard{term, from, time.Since(sent) < 0 || time.Since(sent) > time.Second}
			}
			c.start(n)
		}
		defer c.stop()
		leads := c.leader(10 * time.Second)
		conn, err := dial.Client(leads.name+":7400", dial.Options{Dial: c.Host("client").Dial})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		opened, err := holdfastv1.NewSessionServiceClient(conn).OpenSession(t.Context(), &holdfastv1.OpenSessionRequest{
			RequestId: bytes.Repeat([]byte{1}, 16), Timeout: durationpb.New(10 * time.Second),
		})
		if err != nil {
			t.Fatal(err)
		}
		ms := opened.GetSession().GetId() << 8 >> 24
		if want := session.MS(c.clock()); ms > want || ms+10_000 < want {
			t.Errorf("the id's milliseconds are %d, want those of Clock, %d", ms, want)
		}
		if want := uint64(time.Now().Add(ahead / 2).UnixMilli()); leads.dir.Incarnation() < want {
			t.Errorf("incarnation %d is not of Clock", leads.dir.Incarnation())
		}
		time.Sleep(2 * time.Second)
		from := map[session.Node]int{}
		for len(all) > 0 {
			h := <-all
			from[h.from]++
			if h.late || h.term != leads.roles.Tracker().Stats().Term {
				t.Errorf("heard %+v in term %d", h, leads.roles.Tracker().Stats().Term)
			}
		}
		if len(from) != 3 {
			t.Errorf("heard of %v, want all three nodes", from)
		}
	})
}

// TestStopWithADiskThatHangs: the stop does not wait for the disk, says that Raft did not end, and keeps nothing once
// the disk has come back.
func TestStopWithADiskThatHangs(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(10 * time.Second)
		victim := c.others(leads)[0]
		victim.disk.hang()
		c.mustOpen(leads, 2*time.Second)
		c.eventually("a write that hangs", time.Second, func() bool { return victim.disk.hanging() > 0 })
		begun := time.Now()
		if err := c.end(victim); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Run: %v, want that Raft did not end in time", err)
		}
		if got := time.Since(begun); got > victim.cfg.Tuning.ShutdownTimeout {
			t.Errorf("the stop took %v", got)
		}
		victim.disk.release()
		c.start(victim)
		c.eventually("serving again", 20*time.Second, func() bool { return victim.server.Ready() == nil })
		c.agree(5 * time.Second)
	})
}
