package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
	"holdfast/tree"
)

// ephemeralWork closes a session that owns 40,000 entries. Other clients touch their sessions and read an entry
// through all servers, 200 times a second each.
func ephemeralWork() Work {
	return Work{
		Name: "ephemerals",
		Figures: []Figure{
			{"ephemerals_owned", "ephemerals of one session that is closed", Count},
			{"ephemerals_gone", "from the close until no server has them", Seconds},
			{"ephemerals_touch_before", "others' touches, 200/s: p99 before", Seconds},
			{"ephemerals_touch_during", "the slowest meanwhile", Seconds},
			{"ephemerals_read_before", "others' reads, 200/s: p99 before", Seconds},
			{"ephemerals_read_during", "the slowest meanwhile", Seconds},
		},
		bound: 5 * minute,
		needs: func(c system.Conn) bool { return can[system.Treed](c) && can[system.Toucher](c) },
		play:  ephemerals,
	}
}

// ephemerals closes a session that owns many entries, while others touch their sessions and read.
func ephemerals(ctx context.Context, s *stage) error {
	p, err := plant(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	owners, err := writers(ctx, p.conns[:1], 1)
	if err != nil {
		return err
	}
	n := s.scaled(40_000)
	if _, err = flood(ctx, n, flight/writersEach, func(i int, done func(error)) {
		owners[0].create(entry("owned", i), tree.Ephemeral, done)
	}); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	p.writers[1].create(entry("kept", 0), tree.Persistent, func(error) {})
	if err = errors.Join(p.everywhere(ctx, entry("kept", 0), nil), session.Sleep(ctx, time.Second)); err != nil {
		return err
	}
	touches, reads, err := p.beside(ctx, func(ctx context.Context) error { return session.Sleep(ctx, 4*time.Second) })
	if err != nil {
		return err
	}
	s.set("ephemerals_touch_before", touches.at(0.99).Seconds())
	s.set("ephemerals_read_before", reads.at(0.99).Seconds())
	begin := time.Now()
	var gone time.Duration
	touches, reads, err = p.beside(ctx, func(ctx context.Context) error {
		failed := make(chan error, 1)
		owners[0].Close(owners[0].session, func(err error) { failed <- err })
		select {
		case refused := <-failed:
			if refused != nil {
				return fmt.Errorf("close: %w", refused)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		failing := p.everywhere(ctx, entry("owned", n-1), system.ErrNoEntry)
		gone = time.Since(begin)
		return failing
	})
	if err != nil {
		return err
	}
	s.set("ephemerals_owned", float64(n))
	s.set("ephemerals_gone", gone.Seconds())
	s.set("ephemerals_touch_during", touches.at(1).Seconds())
	s.set("ephemerals_read_during", reads.at(1).Seconds())
	return nil
}

// beside touches sessions and reads an entry through all servers, each at an even pace, while something lasts.
func (p *planted) beside(ctx context.Context, while func(context.Context) error) (touches, reads *outcome, err error) {
	reads, err = paced(ctx, func(i int, done func(error)) {
		p.writers[i%len(p.writers)].read(entry("kept", 0), done)
	}, func(ctx context.Context) (err error) {
		touches, err = paced(ctx, func(i int, done func(error)) {
			w := p.writers[i%len(p.writers)]
			w.Conn.(system.Toucher).TouchOne(w.session, done) //nolint:errcheck // the work needs it
		}, while)
		return err
	})
	return touches, reads, err
}

// everywhere waits until every server answers a read of an entry as is wanted, which nil is with its data.
func (p *planted) everywhere(ctx context.Context, path string, wanted error) error {
	return proc.Until(ctx, pace, func(ctx context.Context) error {
		for _, w := range p.writers[:len(p.conns)] {
			shown := make(chan error, 1)
			w.read(path, func(err error) { shown <- err })
			select {
			case err := <-shown:
				if !errors.Is(err, wanted) {
					return fmt.Errorf("read %s: got %v, want %v", path, err, wanted) //nolint:errorlint // it is only shown
				}
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		return nil
	})
}
