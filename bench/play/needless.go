package play

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"sync"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
)

// Trouble is what nodes go through in the work needless.
type Trouble struct {
	// Length is how long it lasts.
	Length time.Duration
	// Clusters run side by side.
	Clusters int
	// Loops are processes that compute without end.
	Loops int
	// A node of each cluster is stopped for Stop about once in Every, at random moments.
	Stop, Every time.Duration
	// Grace is the time after the last stop in which an election that it caused counts as well.
	Grace time.Duration
}

// needlessWork counts elections that no fault caused, at Holdfast alone and only when it is named. A leader may stop
// for 800 ms without an election: Raft's lease (raft_heartbeat_timeout, 1 s) less the age of the last answered
// heartbeat, up to 200 ms. -stop 450ms is for longer stops than the default.
func needlessWork() Work {
	return Work{
		Name: "needless",
		Figures: []Figure{
			{"needless_terms", "new terms in a cluster-hour, no process ended", Count},
			{"needless_hours", "cluster-hours of it", Count},
			{"needless_stops", "stops of a node", Count},
			{"needless_leader", "stops of the leader among them", Count},
			{"needless_longest", "the longest stop", Seconds},
		},
		Apart: true,
		bound: 10 * minute,
		play:  needless,
	}
}

// needless stops nodes for a moment again and again while other processes keep the machine busy, and counts new terms.
// No process ends, so each of them is a needless election.
func needless(ctx context.Context, s *stage) error {
	loops, err := busyLoops(s.dir, s.Trouble.Loops)
	defer stopAll(loops)
	if err != nil {
		return err
	}
	trials := make([]*trial, s.Trouble.Clusters)
	for i := range trials {
		cluster := s.Cluster
		if i > 0 {
			if cluster, err = s.more(ctx, fmt.Sprint("beside", i)); err != nil {
				return err
			}
			defer cluster.Stop()
		}
		if trials[i], err = newTrial(cluster, s.Trouble, s.Log); err != nil {
			return err
		}
	}
	failed := make([]error, len(trials))
	var running sync.WaitGroup
	for i, t := range trials {
		running.Go(func() { failed[i] = t.run(ctx) })
	}
	running.Wait()
	if err := errors.Join(failed...); err != nil {
		return err
	}
	s.sum(trials)
	return nil
}

// sum sets the figures of all trials.
func (s *stage) sum(trials []*trial) {
	var terms uint64
	var stops, leader int
	var took, longest time.Duration
	for _, t := range trials {
		terms, took = terms+t.terms, took+t.took
		stops, leader, longest = stops+t.stops, leader+t.leader, max(longest, t.longest)
	}
	s.set("needless_terms", float64(terms)/took.Hours())
	s.set("needless_hours", took.Hours())
	s.set("needless_stops", float64(stops))
	s.set("needless_leader", float64(leader))
	s.set("needless_longest", longest.Seconds())
}

// trial is one cluster in trouble.
type trial struct {
	system.Cluster
	system.Termed
	trouble Trouble
	log     func(format string, args ...any)
	// pause stops a process, and returns the function that continues it.
	pause func(ctx context.Context, server int) (run func() error, err error)

	terms         uint64
	stops, leader int
	took, longest time.Duration
}

func newTrial(cluster system.Cluster, of Trouble, log func(string, ...any)) (*trial, error) {
	termed, ok := cluster.(system.Termed)
	if !ok {
		return nil, errors.ErrUnsupported
	}
	t := &trial{trouble: of, Cluster: cluster, Termed: termed, log: log}
	t.pause = func(ctx context.Context, server int) (func() error, error) {
		p := cluster.Servers()[server]
		return p.Continue, p.Freeze(ctx)
	}
	return t, nil
}

// run stops nodes until the time is over, and then waits for what the last stop may cause.
func (t *trial) run(ctx context.Context) error {
	begin := time.Now()
	first, err := t.Term(ctx)
	for last := first; err == nil && time.Since(begin) < t.trouble.Length; {
		if err = session.Sleep(ctx, t.trouble.Every/2+rand.N(t.trouble.Every)); err != nil {
			break
		}
		if err = t.stop(ctx, rand.IntN(len(t.Servers()))); err != nil {
			break
		}
		last, err = t.note(ctx, last, begin)
	}
	if err == nil {
		err = session.Sleep(ctx, t.trouble.Grace)
	}
	if err != nil {
		return err
	}
	last, err := t.Term(ctx)
	t.terms, t.took = last-first, time.Since(begin)
	return err
}

// note writes a line about a new term.
func (t *trial) note(ctx context.Context, last uint64, begin time.Time) (uint64, error) {
	for i, p := range t.Servers() {
		select {
		case <-p.Ended():
			return last, fmt.Errorf("server %d has ended: its cluster may need an election", i+1)
		default:
		}
	}
	now, err := t.Term(ctx)
	if err == nil && now > last {
		t.log("needless: term %d after %d, %v from the start", now, last, time.Since(begin).Round(time.Second))
	}
	return max(now, last), err
}

// stop stops a server for the length of a stop.
func (t *trial) stop(ctx context.Context, server int) error {
	leader, err := t.Leader(ctx)
	begin := time.Now()
	run, pauseErr := t.pause(ctx, server)
	if pauseErr != nil {
		return pauseErr
	}
	wait := session.Sleep(ctx, t.trouble.Stop)
	if runErr := run(); runErr != nil {
		return runErr
	}
	t.stops++
	if err == nil && leader == server {
		t.leader++
	}
	t.longest = max(t.longest, time.Since(begin))
	return wait
}

// busyLoops starts processes that compute without end.
func busyLoops(dir string, n int) ([]*proc.Process, error) {
	var all []*proc.Process
	for i := range n {
		p, err := proc.Start(proc.Spec{
			Name: fmt.Sprint("loop", i+1), Dir: filepath.Clean(dir),
			Args: []string{"/bin/sh", "-c", "while :; do :; done"},
		})
		if err != nil {
			return all, err
		}
		all = append(all, p)
	}
	return all, nil
}

func stopAll(all []*proc.Process) {
	for _, p := range all {
		p.Kill()
		<-p.Ended()
	}
}
