package play

import (
	"context"
	"errors"
	"slices"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
	"holdfast/test/proc"
)

// usualWork has clients that have one session each, on a connection of their own. 5,000 of them keep a session of 30 s
// alive every 10 s: it measures RSS above that with 200 clients, and CPU over 30 s. Then 1,024 others make 20,000 opens,
// each one after the other.
func usualWork() Work {
	return Work{
		Name: "usual",
		Figures: []Figure{
			{"usual_opens_rate", "opens/s by 1,024 clients, each one after the other on its connection", PerSecond},
			{"usual_opens_cpu", "servers' CPU for 1 M of them", Seconds},
			{"usual_rss", "RSS for a client with one session, three servers", Bytes},
			{"usual_cpu", "5,000 such clients with sessions of 30 s, kept alive every 10 s, servers' CPU", Percent},
		},
		bound: 8 * minute,
		play:  usual,
	}
}

// usual measures clients that stay, before the servers have memory that others have left, and then clients that open.
func usual(ctx context.Context, s *stage) error {
	if err := usualStay(ctx, s); err != nil {
		return err
	}
	return usualOpens(ctx, s)
}

func usualStay(ctx context.Context, s *stage) error {
	const timeout, warmUp, during = 30 * time.Second, 15 * time.Second, 30 * time.Second
	some, err := single(ctx, s, 200, timeout)
	defer endAll(some)
	if err != nil {
		return err
	}
	before, err := proc.RSS(s.Servers()...)
	if err != nil {
		return err
	}
	n := s.many(5_000)
	all, err := single(ctx, s, n, timeout)
	defer endAll(all)
	if err != nil {
		return err
	}
	kept := keep(ctx, slices.Concat(all, some), timeout/3)
	defer kept.stop()
	if err = session.Sleep(ctx, warmUp); err != nil {
		return err
	}
	used, err := busy(ctx, s, during)
	if err != nil {
		return err
	}
	after, err := proc.RSS(s.Servers()...)
	s.set("usual_rss", float64(after-before)/float64(n))
	s.set("usual_cpu", used)
	return err
}

// usualOpens opens sessions by many clients. The first opens warm up.
func usualOpens(ctx context.Context, s *stage) error {
	conns, err := single(ctx, s, flight, long)
	defer endAll(conns)
	if err != nil {
		return err
	}
	most := s.many(30*flight)/flight - 8 // besides the sessions that stay
	for _, each := range []int{2, min(s.scaled(20), max(most, 1))} {
		before := proc.CPU(s.Servers()...)
		begin := time.Now()
		_, err := flood(ctx, len(conns), len(conns), func(i int, done func(error)) {
			openAgain(conns[i], each, done)
		})
		if err != nil {
			return err
		}
		n := float64(each * len(conns))
		s.set("usual_opens_rate", n/time.Since(begin).Seconds())
		s.set("usual_opens_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/n*1e6)
	}
	return nil
}

// openAgain opens n sessions, one after the other.
func openAgain(c system.Conn, n int, done func(error)) {
	if n == 0 {
		done(nil)
		return
	}
	openOne(c, long, func(err error) {
		if err != nil {
			done(err)
			return
		}
		openAgain(c, n-1, done)
	})
}

// single makes connections to the servers in turn, and opens one session on each. It returns those that it has made,
// also with an error.
func single(ctx context.Context, s *stage, n int, timeout time.Duration) ([]system.Conn, error) {
	const together = 32
	made := make(chan system.Conn, n)
	_, err := flood(ctx, n, together, func(i int, done func(error)) {
		go func() {
			c, err := s.Connect(ctx, i%len(s.Servers()))
			if err != nil {
				done(err)
				return
			}
			made <- c
			openOne(c, timeout, done)
		}()
	})
	var all []system.Conn
	for len(made) > 0 {
		all = append(all, <-made)
	}
	return all, err
}

// openOne opens a session, again as long as it is refused for a while.
func openOne(c system.Conn, timeout time.Duration, done func(error)) {
	c.Open(timeout, func(_ system.Session, err error) {
		if refused, ok := errors.AsType[*system.RefusedError](err); ok {
			time.AfterFunc(refused.After, func() { openOne(c, timeout, done) })
			return
		}
		done(err)
	})
}
