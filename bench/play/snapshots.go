package play

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"holdfast/bench/system"
	"holdfast/test/proc"
	"holdfast/tree"
)

// snapshotWork makes 1,000,000 entries, and then sets one entry every 5 ms while nodes write snapshots: three times, at
// any node. Raft's timer starts a snapshot every 2 to 4 minutes.
func snapshotWork() Work {
	return Work{
		Name: "snapshot-under-load",
		Figures: []Figure{
			{"snapshot_write_p50", "set of 100 B while a node writes a snapshot of 1 M entries, p50", Seconds},
			{"snapshot_write_p99", "the same, p99", Seconds},
			{"snapshot_write_max", "the same, longest", Seconds},
			{"snapshot_seconds", "the snapshot", Seconds},
		},
		bound: 20 * minute,
		needs: can[*system.Stream], // the paths of its snapshots are known
		play:  snapshots,
	}
}

func snapshots(ctx context.Context, s *stage) error {
	const times = 3
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	entries := s.scaled(1_000_000)
	if _, err = flood(ctx, entries, flight, p.creating("snapshot", tree.Persistent)); err != nil {
		return err
	}
	// Raft counts entries of its log: a set in each.
	if _, err = flood(ctx, 10_000, 1, func(i int, done func(error)) {
		w := p.writers[0]
		w.entries.Set(w.session, entry("snapshot", i%entries), make([]byte, entryBytes), done)
	}); err != nil {
		return err
	}
	begun := errors.New("no snapshot has begun")
	unfinished := errors.New("a snapshot is being written")
	writing := func() bool {
		all, _ := filepath.Glob(filepath.Join(s.dir, "n*", "data", "snapshots", "*.tmp")) // the pattern is well formed
		return len(all) > 0
	}
	var took outcome
	var lasted time.Duration
	for range times {
		if err = proc.Until(ctx, pace, func(context.Context) error {
			if !writing() {
				return begun
			}
			return nil
		}); err != nil {
			return err
		}
		began := time.Now()
		o, err := paced(ctx, func(i int, done func(error)) {
			w := p.writers[i%len(p.writers)]
			w.entries.Set(w.session, entry("snapshot", i%entries), make([]byte, entryBytes), done)
		}, func(ctx context.Context) error {
			return proc.Until(ctx, pace, func(context.Context) error {
				if writing() {
					return unfinished
				}
				return nil
			})
		})
		if err != nil {
			return err
		}
		lasted += time.Since(began) / times
		took.took = append(took.took, o.took...)
	}
	took.sort()
	s.set("snapshot_write_p50", took.at(0.5).Seconds())
	s.set("snapshot_write_p99", took.at(0.99).Seconds())
	s.set("snapshot_write_max", took.at(1).Seconds())
	s.set("snapshot_seconds", lasted.Seconds())
	return nil
}
