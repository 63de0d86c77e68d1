package play

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/bench/system"
	"holdfast/test/proc"
)

const (
	// attempts is how often a client that repeats nothing by itself requests a session while there may be no leader.
	attempts = 5 * time.Millisecond
	// maxFailover bounds the time without a leader.
	maxFailover = time.Minute
)

// killWork kills the leader with SIGKILL. An open begins every 5 ms at one of the other servers, until one is done.
// The SDK's client has a session at the leader and opens one more: it must notice the failure itself.
func killWork() Work {
	return Work{
		Name:    "leader-killed",
		Figures: []Figure{{"leader_killed", "leader killed: a new session after", Seconds}},
		bound:   3 * time.Minute,
		play: func(ctx context.Context, s *stage) error {
			return withoutLeader(ctx, s, "leader_killed", kill)
		},
	}
}

// freezeWork is killWork with SIGSTOP.
func freezeWork() Work {
	return Work{
		Name:    "leader-frozen",
		Figures: []Figure{{"leader_frozen", "leader frozen: a new session after", Seconds}},
		bound:   3 * time.Minute,
		play: func(ctx context.Context, s *stage) error {
			return withoutLeader(ctx, s, "leader_frozen", freeze)
		},
	}
}

// kill ends a process, and returns when it has ended: until then it may serve.
func kill(ctx context.Context, p *proc.Process) error {
	p.Kill()
	select {
	case <-p.Ended():
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func freeze(ctx context.Context, p *proc.Process) error { return p.Freeze(ctx) }

// withoutLeader makes the leader fail, and measures how long no session can be opened, from the signal on.
func withoutLeader(ctx context.Context, s *stage, key string, fail func(context.Context, *proc.Process) error) error {
	leader, err := s.Leader(ctx)
	if err != nil {
		return err
	}
	conns, err := besideLeader(ctx, s, leader)
	defer endAll(conns)
	if err != nil {
		return err
	}
	begin := time.Now()
	if err = fail(ctx, s.Servers()[leader]); err != nil {
		return err
	}
	took, err := firstOpen(ctx, conns, begin)
	if err == nil {
		s.set(key, took.Seconds())
	}
	return err
}

// besideLeader returns the connections of a client that is to lose the leader, all with sessions. A client that repeats
// by itself has one at the leader. Others have connections to the other servers.
func besideLeader(ctx context.Context, s *stage, leader int) ([]system.Conn, error) {
	var all []system.Conn
	for i := range s.Servers() {
		c, err := s.Connect(ctx, (leader+i)%len(s.Servers()))
		if err != nil {
			return all, err
		}
		if err := warm(ctx, c); err != nil {
			c.End()
			return all, err
		}
		if _, repeats := c.(system.Repeater); repeats {
			return []system.Conn{c}, nil
		}
		if i == 0 {
			c.End()
			continue
		}
		all = append(all, c)
	}
	return all, nil
}

// warm opens some sessions, until the connection is used to it.
func warm(ctx context.Context, c system.Conn) error {
	const n = 20
	_, err := flood(ctx, n, n, openings(c, make([]system.Session, n)))
	return err
}

// firstOpen returns the time from begin until the first open is done. Opens are begun again and again, at connections
// in turn; at a client that repeats by itself, once.
func firstOpen(ctx context.Context, conns []system.Conn, begin time.Time) (time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, maxFailover)
	defer cancel()
	opened, failed := make(chan time.Duration, 1), make(chan error, 1)
	attempt := func(c system.Conn) {
		c.Open(long, func(_ system.Session, err error) {
			if err != nil {
				offer(failed, err)
				return
			}
			offer(opened, time.Since(begin))
		})
	}
	attempt(conns[0])
	again := time.NewTicker(attempts)
	defer again.Stop()
	if _, repeats := conns[0].(system.Repeater); repeats {
		again.Stop()
	}
	var last error
	for i := 1; ; {
		select {
		case took := <-opened:
			return took, nil
		case last = <-failed:
		case <-again.C:
			attempt(conns[i%len(conns)])
			i++
		case <-ctx.Done():
			return 0, fmt.Errorf("no session was opened: %w", errors.Join(ctx.Err(), last))
		}
	}
}

// offer sends a value unless the first one still waits.
func offer[T any](to chan T, value T) {
	select {
	case to <- value:
	default:
	}
}
