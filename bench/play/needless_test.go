package play

import (
	"context"
	"errors"
	"math"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

// sleepers are three processes that do nothing, as a cluster that has another term after each second stop.
type sleepers struct {
	system.Cluster
	all     []*proc.Process
	stopped atomic.Int64
}

func newSleepers(t *testing.T) *sleepers {
	t.Helper()
	s := &sleepers{}
	for range 3 {
		p, err := proc.Start(proc.Spec{Name: "sleeper", Dir: t.TempDir(), Args: []string{"/bin/sleep", "1000"}})
		if err != nil {
			t.Fatal(err)
		}
		s.all = append(s.all, p)
	}
	t.Cleanup(s.Stop)
	return s
}

func (s *sleepers) Servers() []*proc.Process { return s.all }
func (s *sleepers) Stop()                    { stopAll(s.all) }

// Leader is asked once before each stop.
func (s *sleepers) Leader(context.Context) (int, error) { s.stopped.Add(1); return 1, nil }

func (s *sleepers) Term(context.Context) (uint64, error) {
	return 7 + uint64(s.stopped.Load()/2), nil //nolint:gosec // few
}

func trouble() Trouble {
	return Trouble{
		Length: 3 * time.Second, Clusters: 2, Loops: 1, Stop: time.Millisecond, Every: 10 * time.Millisecond,
	}
}

// TestNeedless counts the terms and stops of two clusters.
func TestNeedless(t *testing.T) {
	one, other := newSleepers(t), newSleepers(t)
	s := &stage{
		Cluster: one, Options: Options{Trouble: trouble(), Log: t.Logf}, dir: t.TempDir(), figures: map[string]float64{},
		more: func(context.Context, string) (system.Cluster, error) { return other, nil },
	}
	if err := needless(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	stops, terms := one.stopped.Load()+other.stopped.Load(), one.stopped.Load()/2+other.stopped.Load()/2
	if got := s.figures["needless_stops"]; int64(got) != stops || stops < 4 {
		t.Errorf("%v stops, want %d, some", got, stops)
	}
	if got := s.figures["needless_terms"] * s.figures["needless_hours"]; math.Abs(got-float64(terms)) > 0.01 {
		t.Errorf("%v terms in %v hours, want %d", got, s.figures["needless_hours"], terms)
	}
	if led := s.figures["needless_leader"]; led < 1 || led >= float64(stops) || s.figures["needless_longest"] < 0.001 {
		t.Errorf("%v of %d stops are the leader's, the longest takes %v s", led, stops, s.figures["needless_longest"])
	}
}

// TestNeedlessNeedsTheProcesses: after the end of a process a new term may be needed, so nothing is counted.
func TestNeedlessNeedsTheProcesses(t *testing.T) {
	c := newSleepers(t)
	c.all[2].Kill()
	<-c.all[2].Ended()
	of := trouble()
	of.Clusters = 1
	s := &stage{
		Cluster: c, Options: Options{Trouble: of, Log: t.Logf}, dir: t.TempDir(), figures: map[string]float64{},
	}
	if err := needless(t.Context(), s); err == nil {
		t.Errorf("figures %v although a process has ended", s.figures)
	}
	s.Cluster = struct{ system.Cluster }{c}
	if err := needless(t.Context(), s); !errors.Is(err, errors.ErrUnsupported) {
		t.Errorf("a cluster without terms: %v", err)
	}
}
