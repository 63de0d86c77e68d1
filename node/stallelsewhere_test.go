package node

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A state machine that stops applying, on the leader and on a follower.
func TestAStateMachineThatHangs(t *testing.T) {
	for _, leader := range []bool{true, false} {
		bubble.Test(t, func(t *testing.T) {
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
			c.eventually("stepping out", within, func() bool { return victim.watchdog.Check() != nil })
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

// An entry that takes all nodes long to apply makes none of them step out: the leader stays, and sessions that are
// touched live on (U2 weight).
func TestAnEntryThatIsHeavyEverywhere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 0, nil)
		c.add(3)
		var heavy atomic.Bool
		for _, n := range c.nodes {
			n.hook = func(uint64, uint64, []session.Change) {
				if heavy.Load() {
					time.Sleep(10 * time.Second)
				}
			}
			c.start(n)
		}
		defer c.stop()
		leads := c.leader(within)
		heavy.Store(true)
		_, _ = c.open(leads, time.Second)
		time.Sleep(5 * time.Second)
		heavy.Store(false)
		time.Sleep(6 * time.Second)
		if next := c.leader(time.Second); next != leads {
			t.Errorf("%s leads after the entry, and %s did before", next.name, leads.name)
		}
		for _, n := range c.nodes {
			if got := n.watchdog.Stats(); got.Stalled != [watchdog.Reasons]uint64{} {
				t.Errorf("%s: %+v, want that it never stepped out", n.name, got)
			}
		}
		c.mustOpen(leads, time.Second)
	})
}

// A process that did not run for longer than the limit transfers leadership, and stays a member.
func TestAProcessThatDidNotRun(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
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
			if got := n.watchdog.Stats(); got.Paused != 1 || got.Stalled != [watchdog.Reasons]uint64{} {
				t.Errorf("%s: %+v, want one pause", n.name, got)
			}
			if _, body := c.get(n, "/metrics"); !strings.Contains(body,
				"\nholdfast_node_stalls_total{reason=\"scheduler\"} 1\n") {
				t.Errorf("metrics do not say that %s did not run", n.name)
			}
		}
		next := c.leader(5*time.Second, old)
		c.mustOpen(next, time.Second)
		c.eventually("serving", 5*time.Second, func() bool { return old.health.Check() == nil })
		for n, want := range map[*testNode]int{old: 1, follower: 0} {
			log := n.log.String()
			if got := strings.Count(log, "transferring leadership"); got != want ||
				strings.Count(log, "the process did not run") != 1 {
				t.Errorf("%s handed leadership over %d times, want %d, after saying once that it did not run:\n%s",
					n.name, got, want, log)
			}
		}
	})
}
