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

func trouble(length time.Duration) Trouble {
	return Trouble{
		Length: length, Clusters: 2, Loops: 1, Stop: time.Millisecond, Every: 10 * time.Millisecond,
	}
}

// TestNeedless counts the terms and stops of two clusters.
func TestNeedless(t *testing.T) {
	length := 3 * time.Second
	for !needlessIn(t, length) { // a busy machine may come to few stops in this time
		if length *= 5; length > 5*time.Minute {
			t.Fatal("there are few stops, or none of a leader, however long the run is")
		}
	}
}

// needlessIn reports whether a run of a length stops leaders and followers, and checks its figures.
func needlessIn(t *testing.T, length time.Duration) bool {
	t.Helper()
	one, other := newSleepers(t), newSleepers(t)
	s := &stage{
		Cluster: one, Options: Options{Trouble: trouble(length), Log: t.Logf}, dir: t.TempDir(), figures: map[string]float64{},
		more: func(context.Context, string) (system.Cluster, error) { return other, nil },
	}
	if err := needless(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	stops, terms := one.stopped.Load()+other.stopped.Load(), one.stopped.Load()/2+other.stopped.Load()/2
	led, longest := s.figures["needless_leader"], s.figures["needless_longest"]
	if stops < 4 || led < 1 || led >= float64(stops) {
		return false
	}
	if got := s.figures["needless_stops"]; int64(got) != stops {
		t.Errorf("%v stops, want %d", got, stops)
	}
	if got := s.figures["needless_terms"] * s.figures["needless_hours"]; math.Abs(got-float64(terms)) > 0.01 {
		t.Errorf("%v terms in %v hours, want %d", got, s.figures["needless_hours"], terms)
	}
	if longest < 0.001 {
		t.Errorf("the longest of %d stops takes %v s", stops, longest)
	}
	return true
}

// TestNeedlessNeedsTheProcesses: after the end of a process a new term may be needed, so nothing is counted.
func TestNeedlessNeedsTheProcesses(t *testing.T) {
	c := newSleepers(t)
	c.all[2].Kill()
	<-c.all[2].Ended()
	of := trouble(3 * time.Second)
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
