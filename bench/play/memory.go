package play

import (
	"context"
	"errors"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

// memoryWork opens 200,000 sessions over six connections, and measures RSS above an empty cluster. Then the
// connections end, and it measures the live heap after collections above an empty cluster.
func memoryWork() Work {
	return Work{
		Name: "memory",
		Figures: []Figure{
			{"rss_attached", "RSS per attached session, three servers", Bytes},
			{"live_detached", "live heap per detached session, three servers", Bytes},
		},
		bound: 8 * minute,
		needs: can[system.Toucher],
		play:  memory,
	}
}

// memory opens many sessions, and compares the servers' memory with what it was before: with all sessions attached, and
// after their connections have gone.
func memory(ctx context.Context, s *stage) error {
	conns, err := connectAll(ctx, s, 2)
	if err != nil {
		return err
	}
	defer func() { endAll(conns) }()
	for _, c := range conns {
		if err = warm(ctx, c); err != nil {
			return err
		}
	}
	empty, err := s.Live(ctx)
	if errors.Is(err, errors.ErrUnsupported) {
		s.Log("live heap is not known: %v", err)
	} else if err != nil {
		return err
	}
	before, err := proc.RSS(s.Servers()...)
	if err != nil {
		return err
	}
	n := s.many(200_000)
	kept := keep(ctx, conns, short)
	defer kept.stop()
	if _, err = flood(ctx, n, flight, spread(conns, make([]system.Session, n), long)); err != nil {
		return err
	}
	after, err := proc.RSS(s.Servers()...)
	if err != nil {
		return err
	}
	s.set("rss_attached", float64(after-before)/float64(n))
	if empty == 0 {
		return nil
	}
	kept.stop()
	if err = touchAll(ctx, conns); err != nil {
		return err
	}
	endAll(conns)
	conns = nil
	full, err := s.Live(ctx)
	s.set("live_detached", float64(full-empty)/float64(n))
	return err
}

// touchAll touches all sessions of all connections once.
func touchAll(ctx context.Context, conns []system.Conn) error {
	_, err := flood(ctx, len(conns), len(conns), func(i int, done func(error)) { conns[i].Touch(done) })
	return err
}
