package play

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
)

// least is the shortest timeout that all systems grant by default.
const least = 4 * time.Second

// stormWork touches 100,000 sessions of 4 s once, and then no more. Other clients open 200 sessions a second
// meanwhile.
func stormWork() Work {
	return Work{
		Name: "storm",
		Figures: []Figure{
			{"storm_sessions", "sessions (T = 4 s) that fall silent at once", Count},
			{"storm_latest", "latest expiry after its timeout", Seconds},
			{"storm_before", "others' opens meanwhile, 200/s: p99 before", Seconds},
			{"storm_during", "p99 from the first timeout to the last expiry", Seconds},
		},
		bound: 5 * minute,
		needs: func(c system.Conn) bool { return can[system.Expirer](c) || can[system.Counter](c) },
		play:  storm,
	}
}

// storm keeps many sessions alive, and then no more, while bystanders open sessions.
func storm(ctx context.Context, s *stage) error {
	conns, err := connectAll(ctx, s, 1)
	if err != nil {
		return err
	}
	defer endAll(conns)
	n := s.many(100_000)
	ends := &ends{}
	for _, c := range conns {
		if e, ok := c.(system.Expirer); ok {
			e.OnExpired(ends.add)
		}
	}
	kept := keep(ctx, conns, least/3)
	defer kept.stop()
	if _, err = flood(ctx, n, flight, spread(conns, make([]system.Session, n), least)); err != nil {
		return err
	}
	others, err := connectAll(ctx, s, 1)
	if err != nil {
		return err
	}
	defer endAll(others)
	if err = session.Sleep(ctx, least); err != nil { // what the opens left to do is done
		return err
	}
	before, err := ends.bystanders(ctx, others, func(ctx context.Context) error { return session.Sleep(ctx, 2*least) })
	if err != nil {
		return err
	}
	kept.stop()
	if lost := ends.count(); lost > 0 {
		return fmt.Errorf("%d sessions expired while all were touched", lost)
	}
	if err = touchAll(ctx, conns); err != nil {
		return err
	}
	silent := time.Now() // the touches were a little earlier, so what is later than this is late
	if err = session.Sleep(ctx, least); err != nil {
		return err
	}
	during, err := ends.bystanders(ctx, others, func(ctx context.Context) error { return ends.wait(ctx, conns[0], n) })
	if err != nil {
		return err
	}
	s.set("storm_sessions", float64(n))
	s.set("storm_latest", ends.last().Sub(silent.Add(least)).Seconds())
	s.set("storm_before", before.at(0.99).Seconds())
	s.set("storm_during", during.at(0.99).Seconds())
	return nil
}

// ends counts expiries, and notes the newest.
type ends struct {
	mu sync.Mutex
	// n and at are guarded by mu.
	n  int
	at time.Time
	// others counts the sessions of bystanders.
	others atomic.Int64
}

func (e *ends) add(k int) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.n, e.at = e.n+k, time.Now()
}

func (e *ends) count() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

func (e *ends) last() time.Time {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.at
}

// wait waits for n ends. Where the connection reports none, it asks how many sessions are left besides those of
// bystanders.
func (e *ends) wait(ctx context.Context, conn system.Conn, n int) error {
	const often = 20 * time.Millisecond
	c, counts := conn.(system.Counter)
	return proc.Until(ctx, often, func(ctx context.Context) error {
		if counts {
			others := int(e.others.Load())
			alive, err := c.Alive(ctx)
			if err != nil {
				return err
			}
			if more := n + others - alive - e.count(); more > 0 {
				e.add(more)
			}
		}
		if left := n - e.count(); left > 0 {
			return fmt.Errorf("%d sessions have not expired", left)
		}
		return nil
	})
}

// bystanders open sessions at an even pace during while, and return the duration of each open.
func (e *ends) bystanders(ctx context.Context, conns []system.Conn, while func(context.Context) error) (*outcome,
	error,
) {
	return paced(ctx, func(i int, done func(error)) {
		conns[i%len(conns)].Open(long, func(_ system.Session, err error) {
			if err == nil {
				e.others.Add(1)
			}
			done(err)
		})
	}, while)
}
