package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"holdfast/session"
	"holdfast/test/bubbles"
	"holdfast/transport"
)

// within is the bound for a new leader after a disk hangs (issue: 10 s).
const within = 10 * time.Second

// health is what a node's health service says.
func (c *testCluster) health(n *testNode, service string) healthpb.HealthCheckResponse_ServingStatus {
	c.t.Helper()
	conn, err := transport.DialClient(n.name+":7400", transport.DialOptions{Dial: c.Host("client").Dial})
	if err != nil {
		c.t.Fatal(err)
	}
	defer conn.Close()
	got, err := healthpb.NewHealthClient(conn).Check(c.t.Context(), &healthpb.HealthCheckRequest{Service: service})
	if err != nil {
		c.t.Errorf("health of %s: %v", n.name, err)
	}
	return got.GetStatus()
}

// get reads a page of a node's HTTP port.
func (c *testCluster) get(n *testNode, path string) (int, string) {
	c.t.Helper()
	h := &http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return c.Host("client").Dial(ctx, address)
		},
		DisableKeepAlives: true,
	}}
	r, err := h.Get("http://" + n.name + ":7403" + path)
	if err != nil {
		c.t.Errorf("%s of %s: %v", path, n.name, err)
		return 0, ""
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		c.t.Errorf("%s of %s: %v", path, n.name, err)
	}
	return r.StatusCode, string(b)
}

// says fails unless the node says everywhere that it stalls.
func (c *testCluster) says(n *testNode, reason, doing string) {
	c.t.Helper()
	for _, service := range []string{transport.HealthNode, transport.HealthLeader} {
		if got := c.health(n, service); got != healthpb.HealthCheckResponse_NOT_SERVING {
			c.t.Errorf("health of %q on %s, which stalls: %v", service, n.name, got)
		}
	}
	if code, body := c.get(n, "/healthz"); code != http.StatusServiceUnavailable || !strings.Contains(body, doing) {
		c.t.Errorf("healthz: %d %q, want 503 and why", code, body)
	}
	if _, body := c.get(n, "/metrics"); !strings.Contains(body, "\nholdfast_node_stalled{reason=\""+reason+"\"} 1\n") ||
		!strings.Contains(body, "\nholdfast_node_stalls_total{reason=\""+reason+"\"} 1\n") {
		c.t.Errorf("metrics do not say that %s stalls on %s", n.name, reason)
	}
	if status, err := n.Status(c.t.Context()); err != nil || status.Ready || !strings.Contains(status.NotReadyBecause, doing) {
		c.t.Errorf("status: ready %v, because %q, %v", status.Ready, status.NotReadyBecause, err)
	}
	if err := n.server.Ready(); !errors.Is(err, session.ErrNoLeader) {
		c.t.Errorf("the relay of %s: %v, want that it has none", n.name, err)
	}
	if log := n.log.String(); strings.Count(log, "steps out") != 1 || !strings.Contains(log, doing) {
		c.t.Errorf("the log of %s does not say once that it steps out", n.name)
	}
}

// recovers fails unless the node serves again, as one of the others, and says so.
func (c *testCluster) recovers(n *testNode) {
	c.t.Helper()
	c.eventually("serving again", 20*time.Second, func() bool { return n.serves() == nil })
	c.agree(5 * time.Second)
	time.Sleep(time.Second)
	if got := c.health(n, transport.HealthNode); got != healthpb.HealthCheckResponse_SERVING {
		c.t.Errorf("health of %s after the stall: %v", n.name, got)
	}
	if code, _ := c.get(n, "/healthz"); code != http.StatusOK {
		c.t.Errorf("healthz after the stall: %d", code)
	}
	if log := n.log.String(); strings.Count(log, "stall is over") != 1 {
		c.t.Errorf("the log of %s does not say once that the stall is over", n.name)
	}
	select {
	case <-n.ended:
		c.t.Errorf("%s ended: %v", n.name, n.err)
	default:
	}
	c.mustOpen(n, 5*time.Second)
	c.agree(5 * time.Second)
}

// A leader whose disk hangs leads for ever, if Raft is left alone (hashicorp/raft#503).
func TestALeaderWhoseDiskHangs(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		old := c.leader(within)
		before := c.mustOpen(old, time.Second)
		old.disk.hang()
		begun := time.Now()
		if _, err := c.open(old, 30*time.Second); err == nil {
			t.Error("an open succeeded on a disk that hangs")
		}
		next := c.leader(within, old)
		c.mustOpen(next, time.Second)
		if took := time.Since(begun); took > within {
			t.Errorf("another node leads and opens sessions after %v, want at most %v", took, within)
		} else {
			t.Logf("another node leads and opens sessions after %v", took)
		}
		if old.Leads() {
			t.Error("the old leader still has a tracker")
		}
		c.says(old, "disk", "writing the Raft log")
		if _, err := next.server.Find(t.Context(), before.Session.ID); err != nil {
			t.Errorf("a session of before: %v", err)
		}
		time.Sleep(20 * time.Second) // nothing changes while the disk hangs
		if got := c.leader(time.Second); got != next {
			t.Errorf("%s leads, then %s", next.name, got.name)
		}
		old.disk.release()
		c.recovers(old)
	})
}

// While Raft's loop hangs its heartbeats are still answered: a leader would count a follower that stores nothing.
func TestAFollowerWhoseDiskHangs(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		victim, third := c.others(leads)[0], c.others(leads)[1]
		victim.disk.hang()
		c.mustOpen(leads, time.Second)
		c.eventually("stepping out", 2*victim.cfg.StallLimit, func() bool { return victim.dog.check() != nil })
		time.Sleep(time.Second)
		c.says(victim, "disk", "writing the Raft log")
		streams := victim.streams.Load()
		for range 10 {
			c.mustOpen(leads, time.Second)
			c.mustOpen(third, time.Second)
			time.Sleep(time.Second)
		}
		if got := victim.streams.Load(); got != streams {
			t.Errorf("%s opened %d streams to the leader while it stalled", victim.name, got-streams)
		}
		if got := c.leader(time.Second); got != leads {
			t.Errorf("%s leads, then %s", leads.name, got.name)
		}
		victim.disk.release()
		c.recovers(victim)
	})
}

// A leader whose only follower left has a disk that hangs has no quorum, and finds out.
func TestAFollowerWhoseDiskHangsIsNoQuorum(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		victim, third := c.others(leads)[0], c.others(leads)[1]
		if err := c.end(third); err != nil {
			t.Error(err)
		}
		victim.disk.hang()
		if _, err := c.open(leads, time.Second); err == nil {
			t.Error("an open succeeded without a quorum of disks")
		}
		c.eventually("stepping down", within, func() bool { return !leads.Leads() && leads.server.Ready() != nil })
		victim.disk.release()
		c.leader(20 * time.Second)
		c.start(third)
		c.recovers(victim)
	})
}

func TestASlowDiskIsNoStall(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		for _, n := range c.nodes {
			n.disk.set(func(d *faultyDisk) { d.delay = n.cfg.StallLimit / 3 })
		}
		for range 5 {
			c.mustOpen(leads, 10*time.Second)
		}
		if got := c.leader(time.Second); got != leads {
			t.Errorf("%s leads, then %s", leads.name, got.name)
		}
		for _, n := range c.nodes {
			if got := n.dog.stats(); got != (stallStats{}) {
				t.Errorf("%s: %+v, want no stall", n.name, got)
			}
		}
	})
}

// A state machine that stops applying, on the leader and on a follower.
func TestAStateMachineThatHangs(t *testing.T) {
	for _, leader := range []bool{true, false} {
		bubbles.Test(t, func(t *testing.T) {
			c := newTestCluster(t, 0, nil)
			c.add(3)
			var hangs atomic.Pointer[testNode]
			hung := make(chan struct{})
			for _, n := range c.nodes {
				n.hook = func(uint64, uint64, []session.Change) {
					if hangs.Load() == n {
						<-hung
					}
				}
				c.start(n)
			}
			defer c.stop()
			leads := c.leader(within)
			victim := leads
			if !leader {
				victim = c.others(leads)[0]
			}
			begun := time.Now()
			hangs.Store(victim)
			_, _ = c.open(leads, 5*time.Second)
			c.eventually("stepping out", within, func() bool { return victim.dog.check() != nil })
			next := c.leader(within, victim)
			c.mustOpen(next, time.Second)
			if took := time.Since(begun); took > within {
				t.Errorf("another node leads and opens sessions after %v, want at most %v", took, within)
			}
			time.Sleep(time.Second)
			c.says(victim, "apply", "applying a log entry")
			hangs.Store(nil)
			close(hung)
			c.recovers(victim)
		})
	}
}

// A process that did not run for longer than the limit hands leadership over, and stays a member.
func TestAProcessThatDidNotRun(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 0, nil)
		c.add(3)
		for _, n := range c.nodes {
			c.start(n)
		}
		defer c.stop()
		old := c.leader(within)
		follower := c.others(old)[0]
		for _, n := range []*testNode{follower, old} {
			if before := c.leader(time.Second); before != old {
				t.Errorf("%s leads, although the leader ran", before.name)
			}
			n.jump.Add(int64(5 * time.Second))
			time.Sleep(time.Second)
			if got := n.dog.stats(); got.paused != 1 || got.stalled != [reasons]uint64{} {
				t.Errorf("%s: %+v, want one pause", n.name, got)
			}
			if _, body := c.get(n, "/metrics"); !strings.Contains(body, "\nholdfast_node_stalls_total{reason=\"scheduler\"} 1\n") {
				t.Errorf("metrics do not say that %s did not run", n.name)
			}
		}
		next := c.leader(5*time.Second, old)
		c.mustOpen(next, time.Second)
		c.eventually("serving", 5*time.Second, func() bool { return old.serves() == nil })
		for n, want := range map[*testNode]int{old: 1, follower: 0} {
			log := n.log.String()
			if got := strings.Count(log, "handing leadership over"); got != want || strings.Count(log, "the process did not run") != 1 {
				t.Errorf("%s handed leadership over %d times, want %d, after saying once that it did not run:\n%s", n.name, got, want, log)
			}
		}
	})
}

// An ordered stop of a node that leads and whose disk hangs: the stop ends in time, with an error.
func TestStopOfALeaderWhoseDiskHangs(t *testing.T) {
	for name, wait := range map[string]time.Duration{"before it is found out": time.Second, "after it has stepped out": 5 * time.Second} {
		t.Run(name, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				old := c.leader(within)
				old.disk.hang()
				_, _ = c.open(old, wait)
				begun := time.Now()
				if err := old.HandOver(t.Context()); err == nil || time.Since(begun) != 0 {
					t.Errorf("HandOver with a disk that hangs: %v after %v", err, time.Since(begun))
				}
				if err := c.end(old); err == nil {
					t.Error("the stop says nothing of the disk")
				}
				if took := time.Since(begun); took > old.cfg.ShutdownTimeout {
					t.Errorf("the stop took %v", took)
				}
				c.mustOpen(c.leader(within, old), time.Second)
				old.disk.release()
				c.start(old)
				c.eventually("serving again", 20*time.Second, func() bool { return old.server.Ready() == nil })
			})
		})
	}
}

// A node that stalls on two things comes back when both are over.
func TestTwoStalls(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 0, nil)
		c.add(3)
		victim := c.nodes[0]
		var hangs atomic.Bool
		hung := make(chan struct{})
		victim.hook = func(uint64, uint64, []session.Change) {
			if hangs.Load() {
				<-hung
			}
		}
		for _, n := range c.nodes {
			c.start(n)
		}
		defer c.stop()
		if c.leader(within) == victim {
			if err := victim.HandOver(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		leads := c.leader(within, victim)
		hangs.Store(true)
		c.mustOpen(leads, time.Second)
		time.Sleep(time.Second)
		victim.disk.hang()
		c.mustOpen(leads, time.Second)
		c.eventually("both stalls", within, func() bool { return victim.dog.stats().stalls == [reasons]bool{true, true} })
		victim.disk.release()
		c.eventually("the end of one", time.Second, func() bool { return victim.dog.stats().stalls == [reasons]bool{false, true} })
		c.mustOpen(leads, time.Second)
		time.Sleep(20 * time.Second)
		if mine, theirs := victim.consensus.raft.LastIndex(), leads.consensus.raft.LastIndex(); mine >= theirs {
			t.Errorf("%s has entries up to %d of %d, and still stalls", victim.name, mine, theirs)
		}
		hangs.Store(false)
		close(hung)
		c.eventually("serving again", 20*time.Second, func() bool { return victim.serves() == nil })
		c.agree(5 * time.Second)
	})
}

// A leader whose stall ends before the others elect leads the same term again, with another tracker: its rounds are news to all who
// heard the former one's, however many those were (S4).
func TestALeaderThatComesBackWithinItsTerm(t *testing.T) {
	for _, size := range []int{1, 3} {
		t.Run(fmt.Sprintf("%d nodes", size), func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				c := newTestCluster(t, size, nil)
				defer c.stop()
				old := c.leader(within)
				time.Sleep(3 * time.Minute)
				was, term := old.tracker.Load(), old.view.Term()
				old.disk.hang()
				opened := make(chan struct{})
				go func() {
					defer close(opened)
					_, _ = c.open(old, 3*time.Second) // it makes the disk hang, and its outcome is open
				}()
				c.eventually("the stall is noticed", within, func() bool { return old.dog.check() != nil })
				old.disk.release()
				<-opened
				c.eventually("another tracker", within, func() bool { now := old.tracker.Load(); return now != nil && now != was })
				if got := old.view.Term(); got != term {
					t.Fatalf("term %d, was %d: the stall was too long for this test", got, term)
				}
				time.Sleep(10 * old.cfg.HeartbeatInterval) // what the former tracker said is old by now
				for _, n := range append(c.others(old), old) {
					c.eventually(n.name+" serves", 5*time.Second, func() bool { return n.serves() == nil })
				}
				c.mustOpen(old, time.Second)
			})
		})
	}
}
