package node

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/clientport"
	"holdfast/transport/dial"
)

// within is the bound for a new leader after a disk hangs (issue: 10 s).
const within = 10 * time.Second

// health is what a node's health service says.
func (c *testCluster) health(n *testNode, service string) healthpb.HealthCheckResponse_ServingStatus {
	c.t.Helper()
	conn, err := dial.Client(n.name+":7400", dial.Options{Dial: c.Host("client").Dial})
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
	for _, service := range []string{clientport.HealthNode, clientport.HealthLeader} {
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
	if status, err := n.Status(c.t.Context()); err != nil || status.Ready ||
		!strings.Contains(status.NotReadyBecause, doing) {
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
	c.eventually("serving again", 20*time.Second, func() bool { return n.health.Check() == nil })
	c.agree(5 * time.Second)
	time.Sleep(time.Second)
	if got := c.health(n, clientport.HealthNode); got != healthpb.HealthCheckResponse_SERVING {
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
	bubble.Test(t, func(t *testing.T) {
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
		if _, err := next.server.Find(t.Context(), before.Session.ID, session.ReadOptions{}); err != nil {
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
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		victim, third := c.others(leads)[0], c.others(leads)[1]
		victim.disk.hang()
		c.mustOpen(leads, time.Second)
		c.eventually("stepping out", 2*victim.cfg.Raft.StallTimeout, func() bool {
			return victim.watchdog.Check() != nil
		})
		time.Sleep(time.Second)
		c.says(victim, "disk", "writing the Raft log")
		streams := victim.streams.Newest().Stream
		for range 10 {
			c.mustOpen(leads, time.Second)
			c.mustOpen(third, time.Second)
			time.Sleep(time.Second)
		}
		if got := victim.streams.Newest().Stream; got != streams {
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
	bubble.Test(t, func(t *testing.T) {
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
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		for _, n := range c.nodes {
			n.disk.set(func(d *faultyDisk) { d.delay = n.cfg.Raft.StallTimeout / 3 })
		}
		for range 5 {
			c.mustOpen(leads, 10*time.Second)
		}
		if got := c.leader(time.Second); got != leads {
			t.Errorf("%s leads, then %s", leads.name, got.name)
		}
		for _, n := range c.nodes {
			if got := n.watchdog.Stats(); got != (watchdog.StallStats{}) {
				t.Errorf("%s: %+v, want no stall", n.name, got)
			}
		}
	})
}

// An ordered stop of a node that leads and whose disk hangs: the stop ends in time, with an error.
func TestStopOfALeaderWhoseDiskHangs(t *testing.T) {
	for name, wait := range map[string]time.Duration{
		"before it is found out": time.Second, "after it has stepped out": 5 * time.Second,
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				old := c.leader(within)
				old.disk.hang()
				_, _ = c.open(old, wait)
				begun := time.Now()
				if err := old.TransferLeadership(t.Context()); err == nil || time.Since(begun) != 0 {
					t.Errorf("TransferLeadership with a disk that hangs: %v after %v", err, time.Since(begun))
				}
				if err := c.end(old); err == nil {
					t.Error("the stop says nothing of the disk")
				}
				if took := time.Since(begun); took > old.cfg.Tuning.ShutdownTimeout {
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
