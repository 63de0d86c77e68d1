//go:build e2e

package e2e

import (
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/timeout"
)

// disk runs a command of the packet cutter's image on node n's volume. From then on the node may fail.
func (c *cluster) disk(n int, args ...string) string {
	c.t.Helper()
	c.failing[n] = true
	return must(c.t, append([]string{"docker", "run", "--rm", "-v", c.volume(n), "holdfast-cut"}, args...)...)
}

func (c *cluster) volume(n int) string { return fmt.Sprintf("%s_%s:/data", c.project, service(n)) }

// holdVolume keeps node n's volume until the test ends, also after the node has stopped.
func (c *cluster) holdVolume(n int) {
	c.t.Helper()
	id := must(c.t, "docker", "run", "-d", "-v", c.volume(n), "holdfast-cut", "hold")
	c.t.Cleanup(func() { must(c.t, "docker", "rm", "-f", id) })
}

// restarts returns how often node n's process failed and was started again.
func (c *cluster) restarts(n int) int {
	c.t.Helper()
	text := must(c.t, "docker", "inspect", "-f", "{{.RestartCount}}", c.container(n))
	count, err := strconv.Atoi(text)
	timeout.Check(c.t, err)
	return count
}

// awaitFailed waits until node n's process has failed with a text in its log.
func (c *cluster) awaitFailed(n int, says string) {
	c.t.Helper()
	c.await(healWithin, fmt.Sprintf("node %d has failed and says %q", n, says), func() (bool, string) {
		return c.restarts(n) > 0 && strings.Contains(c.logs(n), says), c.state(n)
	})
}

// TestFullDisk fills a node's disk. The node ends at the first write that fails, and others serve its clients. When
// there is space again it comes back with its state.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	for _, role := range []string{leads, follows} {
		if role == follows && !full {
			continue
		}
		t.Run(role, func(t *testing.T) {
			t.Parallel()
			c := create(t, 3, "small-disk.yaml")
			t.Cleanup(c.down)
			victim := c.victim(role)
			c.holdVolume(victim)
			l := c.newLedger()
			all := l.settled(10, minTimeout, c.all()...)

			filled := c.disk(victim, "fill", "/data")
			since := time.Now()
			stop := c.churn(fewLabels()) // soon makes the node write more than the log's file has space for
			c.awaitFailed(victim, "no space left on device")
			stop() // the disks of the others are small too
			opened := c.churn(nil)
			took(t, "the node has left after", time.Since(since))
			if role == leads {
				c.awaitLeader(healWithin, c.but(victim)...)
				took(t, "leads", time.Since(since))
			}
			l.awaitOwners(healWithin, all, c.but(victim)...)
			l.moved(since, l.ownedBy(all, since, victim), c.but(victim)...)
			time.Sleep(2 * minTimeout)
			l.noneEnded(all)
			count(t, "opened and closed meanwhile", "", opened())
			t.Logf("%s bytes were free", filled)

			c.disk(victim, "free", "/data")
			must(t, "docker", "restart", "-t", "1", c.container(victim))
			c.awaitServing(healWithin, c.all()...)
			l.servesOn(victim)
		})
	}
}

// fewLabels returns labels of less than 1 KB.
func fewLabels() map[string]string {
	labels := map[string]string{}
	for i := range 3 {
		labels[fmt.Sprintf("fill-%d", i)] = strings.Repeat("x", session.MaxLabelValue)
	}
	return labels
}

// TestDamagedLog kills a node and damages the end of its Raft log. The node must not serve from a damaged log: it
// refuses and says what to do, unless the damaged part was not in use. Others serve meanwhile. On an empty directory
// the node fetches a copy from them.
func TestDamagedLog(t *testing.T) {
	t.Parallel()
	var refusals atomic.Int32
	t.Cleanup(func() {
		if refusals.Load() == 0 {
			t.Error("no node refused its log: the damage hit no part in use")
		}
	})
	for _, test := range []struct {
		role, damage string
		full         bool
	}{
		{role: leads, damage: "--garble=16384"},
		{role: follows, damage: "--cut=16384"},
		{role: follows, damage: "--garble=4096", full: true},
		{role: leads, damage: "--cut=4096", full: true},
	} {
		t.Run(test.role+" "+strings.TrimLeft(test.damage, "-"), func(t *testing.T) {
			if test.full && !full {
				t.Skip("only E2E=full runs this")
			}
			c := up(t, 3)
			l := c.newLedger()
			victim := c.victim(test.role)
			all := l.settled(10, minTimeout, c.all()...)
			stop := c.churn(nil)
			c.awaitEntries(victim, worthDamage)
			stop()
			since := time.Now()
			c.kill(victim)
			t.Logf("the log ended at byte %s", c.disk(victim, "tear", test.damage, firstSegment))
			c.start(victim)
			l.awaitOwners(healWithin, all, c.but(victim)...)
			l.moved(since, l.ownedBy(all, since, victim), c.but(victim)...)

			refused := c.refusesOrServes(victim)
			count(t, "refused its log", "", refused)
			refusals.Add(int32(refused))
			if refused > 0 {
				c.stop(victim)
				c.disk(victim, "empty", "/data")
				c.start(victim)
			}
			c.awaitServing(healWithin, c.all()...)
			l.servesOn(victim)
		})
	}
}

// firstSegment is the first segment of a node's log.
const firstSegment = "/data/log/00000000000000000001-0000000000000000.wal"

// worthDamage is the number of entries that fill more of a log than the test damages.
const worthDamage = 400

// awaitEntries waits until node n has more additional entries.
func (c *cluster) awaitEntries(n, more int) {
	c.t.Helper()
	first := uint64(0)
	c.await(time.Minute, fmt.Sprintf("%d more entries", more), func() (bool, string) {
		s, err := c.status(n)
		if first == 0 {
			first = s.AppliedIndex
		}
		return err == nil && first > 0 && s.AppliedIndex >= first+uint64(more), fmt.Sprintf("%+v %v", s, err)
	})
}

// refusesOrServes waits until node n, started on a damaged log, has said what is wrong and what to do, and returns 1;
// or until it serves, and returns 0.
func (c *cluster) refusesOrServes(n int) (refused int) {
	c.t.Helper()
	c.await(healWithin, fmt.Sprintf("node %d refuses its log, or serves", n), func() (bool, string) {
		if s, err := c.status(n); err == nil && s.Ready {
			return true, ""
		}
		logs := tail(c.logs(n), 3)
		said := strings.Contains(logs, firstSegment+" is damaged") || strings.Contains(logs, "/data/log has lost entries")
		if c.restarts(n) > 0 && said &&
			strings.Contains(logs, "empty the whole directory: the leader takes the node in as a new one") {
			refused = 1
		}
		return refused > 0, logs
	})
	return refused
}
