package play

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
)

const (
	// short is a timeout of which much comes due in a work.
	short = 10 * time.Second
	// share is how many sessions a client process has in this work.
	share = 83
)

// crowdWork keeps 50,000 sessions of 10 s alive over 600 clients. Each session is touched every 3.3 s, and CPU is that
// of 30 s. ZooKeeper has as many sessions as this process may open files, and its CPU is scaled.
func crowdWork() Work {
	return Work{
		Name: "sessions",
		Figures: []Figure{
			{"sessions_cpu", "50,000 sessions of 10 s, touched every T/3, servers' CPU", Percent},
			{"sessions_kept", "sessions in that work, to which its CPU is scaled", Count},
			{"sessions_lost", "sessions lost in it", Count},
		},
		bound: 5 * time.Minute,
		play:  crowd,
	}
}

// crowd keeps many sessions of many clients alive, spread evenly over the servers.
func crowd(ctx context.Context, s *stage) error {
	const wanted, during = 50_000, 30 * time.Second
	n := s.many(wanted)
	conns, err := connectAll(ctx, s, max(1, n/share/len(s.Servers())))
	if err != nil {
		return err
	}
	defer endAll(conns)
	kept := keep(ctx, conns, short/3)
	defer kept.stop()
	held := make([]system.Session, n)
	if _, err = flood(ctx, n, flight, spread(conns, held, short)); err != nil {
		return err
	}
	if err = session.Sleep(ctx, short); err != nil {
		return err
	}
	used, err := busy(ctx, s, during)
	if err != nil {
		return err
	}
	kept.stop()
	lost, err := lostOf(ctx, conns, held)
	s.set("sessions_cpu", used*wanted*s.Scale/float64(n))
	s.set("sessions_kept", float64(n))
	s.set("sessions_lost", float64(lost))
	return err
}

// lostOf counts the sessions that have ended: spread has assigned the i-th to its connection.
func lostOf(ctx context.Context, conns []system.Conn, held []system.Session) (int, error) {
	var lost atomic.Int64
	_, err := flood(ctx, len(held), flight, func(i int, done func(error)) {
		answer := func(err error) {
			if err != nil {
				lost.Add(1)
			}
			done(nil)
		}
		switch c := conns[i%len(conns)].(type) {
		case system.Toucher:
			c.TouchOne(held[i], answer)
		case system.Follower:
			answer(c.Ended(held[i]))
		default:
			done(errors.ErrUnsupported)
		}
	})
	return int(lost.Load()), err
}
