package play

import (
	"context"
	"time"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

const (
	// long is a timeout that no session of these works comes to. Holdfast and ZooKeeper lower it to 40 s.
	long = 10 * time.Minute
	// flight is the number of requests in flight, through all servers together.
	flight = 1024
)

// openWork makes 400 opens, one after the other, through the leader and through a follower in turns of 100.
func openWork() Work {
	return Work{
		Name: "open",
		Figures: []Figure{
			{"open_leader_p50", "open by one client through the leader, p50", Seconds},
			{"open_leader_p99", "the same, p99", Seconds},
			{"open_follower_p50", "open by one client through a follower, p50", Seconds},
			{"open_follower_p99", "the same, p99", Seconds},
		},
		bound: 3 * time.Minute,
		play:  openByOne,
	}
}

// openByOne opens sessions one after the other through the leader and through a follower, in turns.
func openByOne(ctx context.Context, s *stage) error {
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	names := []string{"leader", "follower"}
	conns := make([]system.Conn, len(names))
	for i := range conns {
		if conns[i], err = s.Connect(ctx, (leader+i)%len(s.Servers())); err != nil {
			return err
		}
		defer conns[i].End()
		if err = warm(ctx, conns[i]); err != nil {
			return err
		}
	}
	const turns = 4
	took := make([]outcome, len(names))
	for i := range turns * len(names) {
		n := s.many(100)
		o, err := flood(ctx, n, 1, openings(conns[i%len(names)], make([]system.Session, n)))
		if err != nil {
			return err
		}
		took[i%len(names)].took = append(took[i%len(names)].took, o.took...)
	}
	for i, name := range names {
		took[i].sort()
		s.set("open_"+name+"_p50", took[i].at(0.5).Seconds())
		s.set("open_"+name+"_p99", took[i].at(0.99).Seconds())
	}
	return nil
}

// openings opens the sessions of into through one connection.
func openings(c system.Conn, into []system.Session) request {
	return spread([]system.Conn{c}, into, long)
}

// spread opens the sessions of into through connections in turn.
func spread(over []system.Conn, into []system.Session, timeout time.Duration) request {
	return func(i int, done func(error)) {
		over[i%len(over)].Open(timeout, func(held system.Session, err error) {
			into[i] = held
			done(err)
		})
	}
}

// floodWork makes 40,000 opens through all servers, 1,024 in flight, and then as many closes. 4,000 of each before
// them warm up.
func floodWork() Work {
	return Work{
		Name: "opens",
		Figures: []Figure{
			{"opens_rate", "opens/s, 1,024 in flight", PerSecond},
			{"opens_p99", "an open among them, p99", Seconds},
			{"opens_refused", "refusals with a time to come back, per 1,000 opens", Count},
			{"opens_cpu", "servers' CPU for 1 M opens", Seconds},
			{"closes_rate", "closes/s, 1,024 in flight", PerSecond},
			{"closes_cpu", "servers' CPU for 1 M closes", Seconds},
		},
		bound: 3 * time.Minute,
		play:  opensAndCloses,
	}
}

// opensAndCloses opens many sessions through all servers at once, and closes them through the same connections.
func opensAndCloses(ctx context.Context, s *stage) error {
	conns, err := connectAll(ctx, s, 1)
	if err != nil {
		return err
	}
	defer endAll(conns)
	for _, n := range []int{s.many(4_000), s.many(40_000)} { // the first is to warm up
		held := make([]system.Session, n)
		before := proc.CPU(s.Servers()...)
		opened, err := flood(ctx, n, flight, spread(conns, held, long))
		if err != nil {
			return err
		}
		between := proc.CPU(s.Servers()...)
		closed, err := flood(ctx, n, flight, func(i int, done func(error)) { conns[i%len(conns)].Close(held[i], done) })
		if err != nil {
			return err
		}
		s.set("opens_rate", opened.rate())
		s.set("opens_p99", opened.at(0.99).Seconds())
		s.set("opens_refused", float64(opened.refused)/float64(n)*1000)
		s.set("opens_cpu", (between-before).Seconds()/float64(n)*1e6)
		s.set("closes_rate", closed.rate())
		s.set("closes_cpu", (proc.CPU(s.Servers()...)-between).Seconds()/float64(n)*1e6)
	}
	return nil
}

// connectAll makes connections to every server: each, server by server in turn.
func connectAll(ctx context.Context, s *stage, each int) ([]system.Conn, error) {
	var all []system.Conn
	for i := range each * len(s.Servers()) {
		c, err := s.Connect(ctx, i%len(s.Servers()))
		if err != nil {
			endAll(all)
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

func endAll(conns []system.Conn) {
	for _, c := range conns {
		c.End()
	}
}
