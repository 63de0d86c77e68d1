package raft_test

import (
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
	"holdfast/transport/raftnet"
)

// A NotifyCh without a reader stops Raft: an elected leader does nothing. Package node tests that a node's channel is
// always read (TestLeadershipIsAlwaysRead).
func TestControlAnUnreadNotifyChStopsRaft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		unread := make(chan bool)
		c := start(t, options{peers: 1, prepare: func(_ *peer, conf *raft.Config) { conf.NotifyCh = unread }})
		defer c.stop()
		leads := c.leader()
		answered := make(chan error, 1)
		go func() { answered <- leads.Apply(payload(t, 1), 0).Error() }()
		time.Sleep(time.Minute)
		select {
		case err := <-answered:
			t.Errorf("an entry was answered with %v while the channel was not read: the trap is gone", err)
		default:
		}
		<-unread
		if err := <-answered; err != nil {
			t.Errorf("once it was read: %v", err)
		}
	})
}

// Shutdown transfers no leadership: the others notice the leader's silence and elect. Package node tests that a node's
// ordered stop hands over first (TestAnOrderedStopHandsOver).
func TestControlShutdownTransfersNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		leads := c.leader()
		time.Sleep(10 * time.Second)
		begun := time.Now()
		if err := leads.Shutdown().Error(); err != nil {
			t.Fatal(err)
		}
		c.leader(leads)
		if got := time.Since(begun); got < electionTimeout-electionTimeout/10 {
			t.Errorf("another led after %v: the trap is gone", got)
		}
	})
}

// Close of Raft's transport leaves accepted connections open: the other side's connection goes on for ever. Holdfast's
// stream layer closes them.
func TestAcceptedConnectionsAreClosed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		network := simnet.New(nil)
		server, client := network.Host("n1"), network.Host("n2")
		listen := func(address string) net.Listener {
			t.Helper()
			l, err := server.Listen(address)
			if err != nil {
				t.Fatal(err)
			}
			return l
		}

		bare := raft.NewNetworkTransport(plain{listen(":1"), server.Dial}, 3, transportTimeout, io.Discard)
		conn, err := plain{dial: client.Dial}.Dial("n1:1", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err = closed(t, bare, conn); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read after Close of Raft's own layer returns %v: the trap is gone", err)
		}

		ours := raftnet.NewTransport(raftnet.New(raftnet.Config{
			ClusterID: "c", Node: 1, Advertise: "n1:2", Listener: listen(":2"), Dial: server.Dial,
		}), 0)
		theirs := raftnet.New(
			raftnet.Config{ClusterID: "c", Node: 2, Advertise: "n2:2", Listener: listen(":3"), Dial: client.Dial},
		)
		conn, err = theirs.Dial("n1:2", time.Second)
		if err != nil {
			t.Fatal(err)
		}
		if err = closed(t, ours.NetworkTransport, conn); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a read after Close of Holdfast's layer returns %v, want the connection's end", err)
		}
		if err = theirs.Close(); err != nil || network.Conns() != 0 {
			t.Errorf("%d connection ends are left: %v", network.Conns(), err)
		}
	})
}

// closed closes a transport that has accepted conn, and returns what the other side reads within a minute.
func closed(t *testing.T, accepted *raft.NetworkTransport, conn net.Conn) error {
	t.Helper()
	synctest.Wait()
	if err := accepted.Close(); err != nil {
		t.Error(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	_, err := conn.Read(make([]byte, 1))
	_ = conn.Close()
	return err
}

// After a heal a follower hears entries only when the leader's back-off is over: 10 ms, doubled with each failure at
// most ten times, plus one attempt that was under way. This bound does not grow with the length of the isolation.
func TestBackOffAfterAHealIsBounded(t *testing.T) {
	const bound = 10*time.Millisecond<<10 + transportTimeout + 100*time.Millisecond
	var longest time.Duration
	for phase := range 7 { // the phase of the back-off at the heal
		longest = max(longest, catchesUp(t, 2*time.Minute+time.Duration(phase)*1700*time.Millisecond, bound))
	}
	longest = max(longest, catchesUp(t, 5*time.Minute, bound))
	if longest < bound/2 {
		t.Errorf("all caught up within %v: the trap is gone", longest)
	}
	t.Logf("caught up within %v, bound %v", longest, bound)
}

// catchesUp returns how long a follower takes to catch up after an isolation.
func catchesUp(t *testing.T, isolated, bound time.Duration) (took time.Duration) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		// A follower that is cut off does not campaign here, so that it finds its former leader.
		c := start(t, options{peers: 3, prepare: func(p *peer, conf *raft.Config) {
			conf.CommitTimeout = time.Second // no part of the back-off, and 10 ms would be most of the work
			if p.name == "n3" {
				conf.HeartbeatTimeout, conf.ElectionTimeout = 2*time.Hour, 2*time.Hour
			}
		}})
		defer c.stop()
		leads, cut := c.leader(), c.peers[2]
		c.cut(leads, cut)
		time.Sleep(isolated)
		if err := leads.Apply(payload(t, 1), time.Second).Error(); err != nil {
			t.Fatal(err)
		}
		if leads.State() != raft.Leader || cut.LastIndex() >= leads.LastIndex() {
			t.Fatal("the follower was not cut off, or the leader has changed: the trap is not sprung")
		}
		c.heal(leads, cut)
		took = c.eventually("the follower to catch up", bound, func() bool {
			return cut.LastIndex() >= leads.LastIndex()
		})
	})
	return took
}

// A node calls BootstrapCluster at every start. On a server with state it returns ErrCantBootstrap, and does nothing
// else. Package node tests that a node starts again regardless (TestServesAndKeepsItsState).
func TestControlASecondBootstrapIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		leads := c.leader()
		other := raft.Configuration{Servers: []raft.Server{{ID: raft.ServerID(leads.name), Address: leads.address()}}}
		if err := leads.BootstrapCluster(other).Error(); !errors.Is(err, raft.ErrCantBootstrap) {
			t.Errorf("a second bootstrap: %v, want ErrCantBootstrap", err)
		}
		if got := leads.GetConfiguration().Configuration().Servers; len(got) != 3 {
			t.Errorf("it left %v", got)
		}
	})
}

// childVariable marks a process in which a test does what ends its process.
const childVariable = "HOLDFAST_RAFT_TRAP"

// A leader whose disk fails steps down and then panics: Raft alone takes the process with it. This test runs itself as
// a child. Package node tests that a node ends in order instead (TestADiskThatFails, TestAFailedWriteEndsTheNode).
func TestControlAFailingDiskMakesRaftPanic(t *testing.T) {
	if os.Getenv(childVariable) == "" {
		child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^"+t.Name()+"$", "-test.timeout=60s")
		child.Env = append(os.Environ(), childVariable+"=1")
		out, err := child.CombinedOutput()
		if err == nil || !strings.Contains(string(out), "failed to save current term") {
			t.Errorf("the child ended with %v: the trap is gone\n%s", err, out)
		}
		return
	}
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		leads := c.leader()
		broken := errors.New("input/output error")
		leads.logs.onWrite(func([]*raft.Log) error { return broken })
		leads.logs.failSet(broken)
		if err := leads.Apply(payload(t, 1), time.Second).Error(); !errors.Is(err, broken) {
			t.Errorf("the entry: %v", err)
		}
		time.Sleep(time.Minute) // another server leads, and this one must save its term
		t.Error("the process is still alive")
	})
}

// beaten makes another server's heartbeat of the next term reach a leader, which is then asked for an entry before it
// hears anything else. It returns that next term, and the leader's entries of it: nobody but the other server may write
// any.
func beaten(t *testing.T, c *cluster) (term uint64, own []raft.Log) {
	t.Helper()
	leads := c.leader()
	if err := leads.Apply(payload(t, 1), 0).Error(); err != nil {
		t.Fatal(err)
	}
	other := c.others(leads)[0]
	term = leads.CurrentTerm() + 1
	request := &raft.AppendEntriesRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(other.name), Addr: []byte(other.address()),
		},
		Term: term,
	}
	var answer raft.AppendEntriesResponse
	if err := other.transport.AppendEntries(
		raft.ServerID(leads.name), leads.address(), request, &answer,
	); err != nil || answer.Term != term {
		t.Fatalf("the heartbeat was answered with %+v, %v", answer, err)
	}
	_ = leads.Apply(payload(t, 2), 0).Error() // it leads no more
	last, err := leads.logs.LastIndex()
	for i := uint64(1); err == nil && i <= last; i++ {
		var e raft.Log
		if err = leads.logs.GetLog(i, &e); err == nil && e.Term == term && e.Type == raft.LogCommand {
			own = append(own, e)
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return term, own
}

// A heartbeat of a later leader ends a leadership on a goroutine of its own. The main goroutine does not notice, and
// writes the next command as an entry of that leader's term. Raft takes two entries of one index and term for one.
func TestControlADeposedLeaderWritesIntoTheNextTerm(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3})
		defer c.stop()
		if term, own := beaten(t, c); len(own) == 0 {
			t.Errorf("the deposed leader wrote no entry of term %d: the trap is gone", term)
		}
	})
}

// Checked gives the first heartbeat of each term to Raft's main goroutine.
func TestADeposedLeaderWritesNothing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := start(t, options{peers: 3, transport: func(l *raftnet.Layer) wire {
			return raftnet.NewChecked(raftnet.NewTransport(l, transportTimeout), raftnet.Checks{
				Term: func() uint64 { return 1 },
			})
		}})
		defer c.stop()
		if term, own := beaten(t, c); len(own) > 0 {
			t.Errorf("the deposed leader wrote %+v, of term %d", own, term)
		}
	})
}
