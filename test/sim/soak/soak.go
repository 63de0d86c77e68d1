package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/faults"
	"holdfast/test/sim/stats"
)

// soak is one run of many seeds.
type soak struct {
	o        options
	scratch  string
	progress progress
	began    time.Time

	mu   sync.Mutex
	next uint64     // guarded by mu; the first seed that no worker has begun
	sum  *stats.Sum // guarded by mu
	cpu  time.Duration
	// done are the ended seeds at or above contiguous. guarded by mu
	done map[uint64]bool
	// contiguous: all seeds below it have ended. guarded by mu
	contiguous uint64
	errs       []error // guarded by mu; errors without a seed
}

func newSoak(o options, scratch string, p progress) *soak {
	return &soak{
		o: o, scratch: scratch, progress: p, began: time.Now(),
		next: o.from, sum: stats.NewSum(), done: make(map[uint64]bool), contiguous: o.from,
	}
}

// run runs all seeds, until ctx ends.
func (s *soak) run(ctx context.Context) {
	var workers sync.WaitGroup
	for range s.o.workers {
		workers.Go(func() {
			for from, to := s.deal(); from < to && ctx.Err() == nil; from, to = s.deal() {
				s.runBatch(ctx, from, to)
			}
		})
	}
	finished := make(chan struct{})
	go func() { workers.Wait(); close(finished) }()
	s.progress.follow(finished, s.state)
}

// deal returns the next batch: from from up to, and not including, to.
func (s *soak) deal() (from, to uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	from = s.next
	s.next = min(from+s.o.batch, s.o.from+s.o.seeds)
	return from, s.next
}

// runBatch runs a batch in one process. When the process dies, another process runs the rest.
func (s *soak) runBatch(ctx context.Context, from, to uint64) {
	for from < to {
		o, err := s.process(ctx, from, to)
		if ctx.Err() != nil {
			return
		}
		s.note(o)
		if err != nil {
			s.mu.Lock()
			s.errs = append(s.errs, err)
			s.mu.Unlock()
			return
		}
		from = o.next
	}
}

func (s *soak) note(o outcome) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cpu += o.cpu
	for i := range o.reports {
		s.sum.Add(&o.reports[i])
		s.done[o.reports[i].Seed] = true
	}
	for s.done[s.contiguous] {
		delete(s.done, s.contiguous)
		s.contiguous++
	}
}

// state is the progress of a soak.
type state struct {
	seeds, failures int
	virtual, wall   time.Duration
}

func (s *soak) state() state {
	s.mu.Lock()
	defer s.mu.Unlock()
	return state{s.sum.Seeds, len(s.sum.Failures), s.sum.Virtual, time.Since(s.began)}
}

// record is the summary as JSON.
type record struct {
	*stats.Sum
	From uint64 `json:"from"`
	// Next is the seed to continue with: all seeds below it have run.
	Next uint64        `json:"next"`
	Race bool          `json:"race"`
	Wall time.Duration `json:"wall_ns"`
	CPU  time.Duration `json:"cpu_ns"`
}

func (s *soak) record() record {
	return record{Sum: s.sum, From: s.o.from, Next: s.contiguous, Race: s.o.race, Wall: time.Since(s.began), CPU: s.cpu}
}

func (s *soak) writeJSON(r record) error {
	if s.o.json == "" {
		return nil
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(s.o.json, append(b, '\n'), 0o600)
}

const (
	// enough is the number of seeds after which every kind of fault must have hit, and every invariant been tested.
	enough = 40
	// enoughForRare is the number of seeds after which rare cases must have been tested too.
	enoughForRare = 200
)

// verdict returns nil when all seeds ran and held.
func (s *soak) verdict(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, err := range s.errs {
		return err
	}
	if n := len(s.sum.Failures); n > 0 {
		return fmt.Errorf("%d of %d seeds %w: see %s", n, s.sum.Seeds, errFailed, s.o.artifacts)
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: continue with -from %d", errInterrupted, s.contiguous)
	}
	if s.sum.Seeds < enough {
		return nil
	}
	for _, kind := range faults.Kinds() {
		if s.sum.Hit[kind.String()] == 0 {
			return fmt.Errorf("over %d seeds no %q hit anything: %w", s.sum.Seeds, kind, errFailed)
		}
	}
	if s.sum.Counts[stats.Installed] == 0 {
		return fmt.Errorf("over %d seeds no snapshot was installed: %w", s.sum.Seeds, errFailed)
	}
	for _, mode := range []session.Mode{session.ModeReadWrite, session.ModeReadOnly} {
		if s.sum.Counts[stats.Reads(mode)] == 0 {
			return fmt.Errorf("over %d seeds no read was answered by a node that is %s: %w", s.sum.Seeds, mode,
				errFailed)
		}
	}
	names := check.NamesWithout(s.o.without)
	if s.sum.Seeds >= enoughForRare {
		names = append(names, check.RareNamesWithout(s.o.without)...)
	}
	for _, name := range names {
		if s.sum.Checked[name] == 0 {
			return fmt.Errorf("over %d seeds %q was never put to the test: %w", s.sum.Seeds, name, errFailed)
		}
	}
	return nil
}
