package play

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

// minute is a unit of bounds.
const minute = time.Minute

// moveWork kills a follower that has 5,000 sessions of one client, and measures until the other servers have them all.
func moveWork() Work {
	return Work{
		Name:    "moves",
		Figures: []Figure{{"moved", "node with 5,000 sessions killed: all moved after", Seconds}},
		bound:   3 * minute,
		needs:   func(c system.Conn) bool { return can[system.Mover](c) || can[system.Follower](c) },
		play:    func(ctx context.Context, s *stage) error { return moveFromFollower(ctx, s, "moved", reattach) },
	}
}

// singleMoveWork is moveWork with one session a message, 1,024 in flight, where moveWork moves many with a message.
func singleMoveWork() Work {
	return Work{
		Name:    "moves-singly",
		Figures: []Figure{{"moved_singly", "node with 5,000 sessions killed: all moved one by one after", Seconds}},
		bound:   3 * minute,
		needs:   can[system.BulkMover],
		play: func(ctx context.Context, s *stage) error {
			return moveFromFollower(ctx, s, "moved_singly", singly(flight))
		},
	}
}

// moving moves sessions to connections, and returns how many have expired.
type moving func(ctx context.Context, to []system.Conn, held []system.Session) (expired int, err error)

// moveFromFollower opens sessions at a follower, kills it, and measures until the other servers have them all.
func moveFromFollower(ctx context.Context, s *stage, key string, move moving) error {
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	server := (leader + 1) % len(s.Servers())
	at, err := s.Connect(ctx, server)
	if err != nil {
		return err
	}
	defer at.End()
	held := make([]system.Session, s.many(5_000))
	if _, err = flood(ctx, len(held), flight, spread([]system.Conn{at}, held, short)); err != nil {
		return err
	}
	if f, ok := at.(system.Follower); ok {
		return followed(ctx, s, f, held, server)
	}
	others, err := beside(ctx, s, server)
	if err != nil {
		return err
	}
	defer endAll(others)
	begin := time.Now()
	if err = kill(ctx, s.Servers()[server]); err != nil { // its connections have ended with it
		return err
	}
	expired, err := move(ctx, others, held)
	s.set(key, time.Since(begin).Seconds())
	if expired > 0 && err == nil {
		err = fmt.Errorf("%d sessions expired", expired)
	}
	return err
}

// followed waits until a client that moves its sessions by itself has them at other servers.
func followed(ctx context.Context, s *stage, c system.Follower, held []system.Session, server int) error {
	begin := time.Now()
	s.Servers()[server].Kill()
	err := proc.Until(ctx, time.Millisecond, func(context.Context) error {
		for len(held) > 0 {
			last := held[len(held)-1]
			if err := c.Ended(last); err != nil {
				return err
			}
			if at := c.Serves(last); at == 0 || at == server+1 {
				return fmt.Errorf("%d sessions wait to be moved", len(held))
			}
			held = held[:len(held)-1]
		}
		return nil
	})
	s.set("moved", time.Since(begin).Seconds())
	return err
}

// beside connects to each server but one, and waits until the connections are used.
func beside(ctx context.Context, s *stage, but int) ([]system.Conn, error) {
	var all []system.Conn
	for i := range len(s.Servers()) - 1 {
		c, err := s.Connect(ctx, (but+1+i)%len(s.Servers()))
		if err == nil {
			all = append(all, c)
			err = warm(ctx, c)
		}
		if err != nil {
			endAll(all)
			return nil, err
		}
	}
	return all, nil
}

// reattach moves sessions to connections, evenly, with as few messages as the system allows. It returns how many have
// expired.
func reattach(ctx context.Context, to []system.Conn, held []system.Session) (int, error) {
	if b, ok := to[0].(system.BulkMover); ok && b.Together() > 1 {
		return reattachInBulk(ctx, to, held, b.Together())
	}
	return singly(flight)(ctx, to, held)
}

// singly moves one session with a message.
func singly(inFlight int) moving {
	return func(ctx context.Context, to []system.Conn, held []system.Session) (int, error) {
		var expired atomic.Int64
		_, err := flood(ctx, len(held), inFlight, func(i int, done func(error)) {
			mover, ok := to[i%len(to)].(system.Mover)
			if !ok {
				done(errors.ErrUnsupported)
				return
			}
			mover.Reattach(held[i], func(err error) {
				if errors.Is(err, system.ErrExpired) {
					expired.Add(1)
					err = nil
				}
				done(err)
			})
		})
		return int(expired.Load()), err
	}
}

// reattachInBulk has a few messages in flight at each connection, so a retry delays no other message.
func reattachInBulk(ctx context.Context, to []system.Conn, held []system.Session, together int) (int, error) {
	const few = 4
	var expired atomic.Int64
	chunks := make([][]system.Session, 0, len(held)/together+1)
	for len(held) > 0 {
		n := min(together, len(held))
		chunks = append(chunks, held[:n])
		held = held[n:]
	}
	_, err := flood(ctx, len(chunks), few*len(to), func(i int, done func(error)) {
		mover, ok := to[i%len(to)].(system.BulkMover)
		if !ok {
			done(errors.ErrUnsupported)
			return
		}
		mover.ReattachAll(chunks[i], func(left []system.Session, gone int, err error) {
			expired.Add(int64(gone))
			chunks[i] = left // a repeat, if there is one, is of these
			done(err)
		})
	})
	return int(expired.Load()), err
}

// resumeWork moves 50,000 sessions of one server to the two others, in bulk where the protocol has it, else 1,024 in
// flight. etcd keeps its leases alive through other servers.
func resumeWork() Work {
	return Work{
		Name: "resumes",
		Figures: []Figure{
			{"resumes_rate", "resumes/s, in bulk where there is one, else 1,024 in flight", PerSecond},
			{"resumes_cpu", "servers' CPU for 1 M resumes", Seconds},
		},
		bound: 3 * minute,
		needs: can[system.Mover],
		play:  resumes,
	}
}

// resumes opens sessions at one server, drops their connections, and moves them to the two others.
func resumes(ctx context.Context, s *stage) error {
	at, err := s.Connect(ctx, 0)
	if err != nil {
		return err
	}
	held := make([]system.Session, s.many(50_000))
	_, err = flood(ctx, len(held), flight, spread([]system.Conn{at}, held, long))
	at.End()
	if err != nil {
		return err
	}
	to, err := beside(ctx, s, 0)
	if err != nil {
		return err
	}
	defer endAll(to)
	begin, before := time.Now(), proc.CPU(s.Servers()...)
	expired, err := reattach(ctx, to, held)
	if err != nil || expired > 0 {
		return errors.Join(err, fmt.Errorf("%d sessions expired", expired))
	}
	s.set("resumes_rate", float64(len(held))/time.Since(begin).Seconds())
	s.set("resumes_cpu", (proc.CPU(s.Servers()...)-before).Seconds()/float64(len(held))*1e6)
	return nil
}
