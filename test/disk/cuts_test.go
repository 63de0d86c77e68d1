//go:build e2e

package disk

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"
	"time"

	"holdfast/test/disk/faultfs"
	"holdfast/test/disk/simdisk"
	"holdfast/test/timeout"
)

const (
	// defaultCuts is the number of cuts in CI; CUTS overrides it.
	defaultCuts = 40
	// sideBySide is how many clusters lose power independently. Most of a cut is waiting.
	sideBySide = 2
	// lyingDisks is the number of clusters on lying disks. The test must notice all of them.
	lyingDisks = 3
	// opsUntilCut bounds the random number of writes, fsyncs and changes of names before a cut.
	opsUntilCut = 60
)

// TestCuts cuts the power of one node, of one node after the other, and of all three at once, while clients open, move
// and close sessions. After every recovery everything that was ever acknowledged must be there.
func TestCuts(t *testing.T) {
	faultfs.Need(t)
	cuts, seed := number(t, "CUTS", defaultCuts), uint64(number(t, "SEED", 1))
	for i := range uint64(sideBySide) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			t.Parallel()
			c := newCluster(t)
			s := &storm{c: c, l: newLedger(c, seed+i), seed: seed + i, dice: rand.New(rand.NewPCG(seed+i, 0))}
			for s.cuts < (cuts+sideBySide-1)/sideBySide && !t.Failed() {
				if err := s.round(); err != nil {
					s.report()
					timeout.Check(t, fmt.Errorf("seed %d, cut %d (%s): %w", s.seed, s.cuts, s.kind, err))
				}
			}
			s.report()
		})
	}
}

// storm is a series of power cuts of one cluster.
type storm struct {
	c    *cluster
	l    *ledger
	seed uint64
	dice *rand.Rand
	// cuts counts power cuts, all those of the whole cluster; a cut of three nodes is one. kind describes the last cut.
	cuts, all int
	kind      string
	loss      simdisk.Loss
	slowest   time.Duration
}

// round cuts the power, waits until every node serves again, and audits.
func (s *storm) round() error {
	time.Sleep(time.Duration(s.dice.IntN(150)) * time.Millisecond) // time for the workers
	one := s.c.nodes[s.dice.IntN(3)]
	if s.dice.IntN(2) == 0 {
		one, _ = s.c.leader()
	}
	switch s.dice.IntN(5) {
	case 0, 1:
		s.kind, s.all = "all nodes", s.all+1
		if err := s.cut(append([]*server{one}, s.c.but(one)...)...); err != nil {
			return err
		}
	case 2:
		s.kind = "one node after the other"
		if err := s.cut(one); err != nil {
			return err
		}
		if err := s.cut(s.c.but(one)[s.dice.IntN(2)]); err != nil {
			return err
		}
	default:
		s.kind = "one node"
		if err := s.cut(one); err != nil {
			return err
		}
	}
	took, err := s.c.serving(recoverWithin, s.c.nodes...)
	if err != nil {
		return err
	}
	s.slowest = max(s.slowest, took)
	return s.l.audit(true)
}

// cut cuts the power of victims at one moment, and starts them again.
func (s *storm) cut(victims ...*server) error {
	s.cuts++
	when := faultfs.Freezing{After: 1 + s.dice.IntN(opsUntilCut), Bound: 300 * time.Millisecond}
	how := faultfs.Cutting{Seed: s.dice.Uint64()}
	if s.dice.IntN(4) == 0 {
		how.Tear = simdisk.TearAll // so that no change of a name survives by luck
	}
	loss, err := s.c.powerCut(when, how, victims...)
	if err != nil {
		return err
	}
	s.loss.Add(loss)
	err = s.c.corrupt(victims...)
	for _, v := range victims {
		s.c.start(v)
	}
	return err
}

func (s *storm) report() {
	s.c.t.Helper()
	s.c.t.Logf("%d power cuts, %d of them of all nodes; not fsynced: %+v; acknowledged: %+v; slowest recovery %v",
		s.cuts, s.all, s.loss, s.l.tally(), s.slowest.Round(time.Millisecond))
	if s.cuts >= defaultCuts/sideBySide && (s.loss.Lost == 0 || s.loss.NamesLost == 0) {
		s.c.t.Errorf("got %+v, want lost bytes and names: the cuts have hit nothing", s.loss)
	}
	// About one cut in five tears a write. A hundred cuts without a torn write are no accident; twenty may be.
	if s.cuts >= 100 && s.loss.Torn == 0 {
		s.c.t.Errorf("got %+v in %d cuts, want torn writes", s.loss, s.cuts)
	}
}

// TestFirstSnapshot cuts the power of all nodes when each has just truncated its log after its first snapshot. Only
// fsynced data survives: file, names and directories of the snapshot alone stand for the log.
func TestFirstSnapshot(t *testing.T) {
	faultfs.Need(t)
	c := newCluster(t)
	s := &storm{c: c, l: newLedger(c, 1), kind: "all nodes"}
	for _, v := range c.nodes {
		await(t, recoverWithin, "the first snapshot", func() (bool, string) {
			log, err := os.ReadFile(v.log.Name())
			return err == nil && strings.Contains(string(log), "snapshot complete"), fmt.Sprint(err)
		})
	}
	loss, err := c.powerCut(faultfs.Freezing{}, faultfs.Cutting{Tear: simdisk.TearAll}, c.nodes...)
	timeout.Check(t, err)
	if how, err := s.verdict(); err != nil {
		timeout.Check(t, fmt.Errorf("%s: %w", how, err))
	}
	t.Logf("not fsynced: %+v; acknowledged: %+v", loss, s.l.tally())
}

// TestLyingDisksAreReported is the control. On disks whose fsyncs do nothing, a power cut of all nodes loses
// acknowledged data, and the test must notice it each time.
func TestLyingDisksAreReported(t *testing.T) {
	faultfs.Need(t)
	disks, seed := number(t, "LIARS", lyingDisks), uint64(number(t, "SEED", 1))
	noticed := map[string]int{}
	for i := range uint64(disks) {
		t.Run(fmt.Sprintf("seed=%d", seed+i), func(t *testing.T) {
			c := newCluster(t)
			s := &storm{c: c, l: newLedger(c, seed+i), seed: seed + i}
			opened := func(n int) {
				n += s.l.tally().Opened
				await(t, recoverWithin, "sessions are acknowledged", func() (bool, string) {
					return s.l.tally().Opened >= n, ""
				})
			}
			opened(10)
			for _, s := range c.nodes {
				s.disk.set(faultfs.Faults{Lie: true})
			}
			opened(20)
			if err := s.l.audit(true); err != nil {
				timeout.Check(t, fmt.Errorf("before the cut: %w", err))
			}
			s.l.lying = true
			for _, v := range c.nodes {
				v.mayEnd = true
			}
			loss, err := c.powerCut(faultfs.Freezing{}, faultfs.Cutting{Seed: seed + i, Tear: simdisk.TearHalf},
				c.nodes...)
			timeout.Check(t, err)
			how, err := s.verdict()
			if err == nil {
				t.Fatalf("seed %d: acknowledged %+v, lost %+v, and nothing was noticed", seed+i, s.l.tally(), loss)
			}
			noticed[how]++
			t.Logf("%+v: %s: %v", loss, how, firstLine(err))
		})
	}
	if sum(noticed) != disks {
		t.Errorf("loss or corruption was reported on %d of %d clusters", sum(noticed), disks)
	}
	t.Logf("loss or corruption was reported on %d of %d clusters of lying disks: %v", sum(noticed), disks, noticed)
}

// verdict returns how a loss was noticed.
func (s *storm) verdict() (string, error) {
	if err := s.c.corrupt(s.c.nodes...); err != nil {
		return "corrupt", err
	}
	for _, v := range s.c.nodes {
		s.c.start(v)
	}
	if _, err := s.c.serving(recoverWithin/2, s.c.nodes...); err != nil {
		return "refused", err
	}
	s.l.stop() // lost sessions may keep workers waiting
	s.l.running.Wait()
	if err := s.l.audit(true); err != nil {
		return "lost", err
	}
	return "", nil
}

// firstLine returns the first of the errors joined in err, and their number.
func firstLine(err error) string {
	first, rest, _ := strings.Cut(err.Error(), "\n")
	if rest == "" {
		return first
	}
	return fmt.Sprintf("%s (and %d more)", first, 1+strings.Count(rest, "\n"))
}

func sum(counts map[string]int) int {
	total := 0
	for _, n := range counts {
		total += n
	}
	return total
}
