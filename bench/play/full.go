package play

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"

	"holdfast/bench/system"
	"holdfast/session"
)

const (
	// crowded is how many sessions a connection has in this work; a node accepts up to 100,000.
	crowded = 80_000
	// touchEvery is how often each connection touches its sessions after the leader's death, as any client of sessions
	// with this timeout does.
	touchEvery = short / 4
	// askEvery bounds how exactly the time is known at which all are promised again.
	askEvery = 100 * time.Millisecond
	// resuming is how many sessions of a connection are moved at the same time, one with a message: as many as the SDK
	// has in flight, and less than a node accepts.
	resuming = 512
)

// fullWork kills the leader of a cluster with 1,000,000 sessions of 10 s, a third at each node. It measures until a new
// session is open and until the cluster has renewed each promise, and counts expiries until 20 s later. It needs 8 GB.
func fullWork() Work {
	return fullWorkWith("full-leader-killed", "full", "a third of them to be moved", reattach)
}

// fullSinglyWork is fullWork with one session a message, 512 in flight on each connection.
func fullSinglyWork() Work {
	return fullWorkWith("full-leader-killed-singly", "full_singly", "a third of them to be moved one by one",
		singly(resuming))
}

func fullWorkWith(name, key, moved string, move moving) Work {
	return Work{
		Name: name,
		Figures: []Figure{
			{key + "_sessions", "leader killed with that many sessions of 10 s, " + moved, Count},
			{key + "_expired", "false expiries", Count},
			{key + "_first", "first new session after", Seconds},
			{key + "_promised", "all promised again after", Seconds},
		},
		bound: 20 * minute,
		needs: func(c system.Conn) bool {
			return can[system.Promiser](c) && can[system.Expirer](c) && can[system.BulkMover](c)
		},
		play: func(ctx context.Context, s *stage) error {
			return (&full{stage: s, key: key, moving: move}).leaderKilled(ctx)
		},
	}
}

// full is the running work.
type full struct {
	*stage
	// key begins the keys of the figures.
	key     string
	moving  moving
	leader  int
	expired atomic.Int64
	// conns are the connections, and held their sessions.
	conns []system.Conn
	held  [][]system.Session
}

// leaderKilled opens the sessions at all servers, kills the leader, moves its sessions to the other servers, and
// waits until the cluster has renewed the promise of each session.
func (f *full) leaderKilled(ctx context.Context) error {
	defer func() { endAll(f.conns) }()
	if err := f.open(ctx); err != nil {
		return err
	}
	leader, err := f.Leader(ctx)
	if err != nil {
		return err
	}
	f.leader = leader
	probe, err := f.Connect(ctx, (leader+1)%len(f.Servers()))
	if err != nil {
		return err
	}
	defer probe.End()
	if err = warm(ctx, probe); err != nil {
		return err
	}
	begin := time.Now()
	if err = kill(ctx, f.Servers()[leader]); err != nil {
		return err
	}
	opened := make(chan error, 1)
	go func() {
		took, failed := firstOpen(ctx, []system.Conn{probe}, begin)
		f.set(f.key+"_first", took.Seconds())
		opened <- failed
	}()
	kept := keep(ctx, f.left(), touchEvery)
	defer kept.stop()
	if err = cmp.Or(f.move(ctx), <-opened); err != nil {
		return err
	}
	kept.stop()
	if err = promised(ctx, f.conns, begin.Add(short)); err != nil {
		return err
	}
	f.set(f.key+"_promised", time.Since(begin).Seconds())
	kept = keep(ctx, f.conns, touchEvery)
	defer kept.stop()
	err = session.Sleep(ctx, 2*short) // whatever was to expire falsely has
	f.set(f.key+"_expired", float64(f.expired.Load()))
	return err
}

// open opens the sessions, and waits until all have been kept for a while.
func (f *full) open(ctx context.Context) error {
	n := f.many(f.Sessions)
	conns, err := connectAll(ctx, f.stage, n/crowded/len(f.Servers())+1)
	if err != nil {
		return err
	}
	f.conns = conns
	for _, c := range conns {
		c.(system.Expirer).OnExpired(func(k int) { f.expired.Add(int64(k)) }) //nolint:errcheck // the work needs it
	}
	kept := keep(ctx, conns, touchEvery)
	defer kept.stop()
	held := make([]system.Session, n)
	o, err := flood(ctx, n, flight, spread(conns, held, short))
	if err != nil {
		return err
	}
	f.Log("%d sessions in %s, %d refusals", n, o.elapsed.Round(time.Second), o.refused)
	f.held = make([][]system.Session, len(conns))
	for i, one := range held {
		f.held[i%len(conns)] = append(f.held[i%len(conns)], one)
	}
	f.set(f.key+"_sessions", float64(n))
	if err = session.Sleep(ctx, 2*short); err != nil {
		return err
	}
	if k := f.expired.Load(); k > 0 {
		f.Log("%d sessions had expired before the leader was killed", k)
		return errors.New("sessions expired while all was well")
	}
	return nil
}

// at is the server of a connection.
func (f *full) at(conn int) int { return conn % len(f.Servers()) }

// left are the connections to servers that live.
func (f *full) left() []system.Conn {
	var all []system.Conn
	for i, c := range f.conns {
		if f.at(i) != f.leader {
			all = append(all, c)
		}
	}
	return all
}

// move makes a connection for each that was lost, in turn to the servers that live, and moves its sessions there. All
// are moved at once.
func (f *full) move(ctx context.Context) error {
	moved := make(chan error, len(f.conns)) // without a receiver after a failed connection
	var lost int
	for i := range f.conns {
		if f.at(i) != f.leader {
			continue
		}
		f.conns[i].End()
		to, err := f.Connect(ctx, (f.leader+1+lost%(len(f.Servers())-1))%len(f.Servers()))
		if err != nil {
			return err
		}
		to.(system.Expirer).OnExpired(func(k int) { f.expired.Add(int64(k)) }) //nolint:errcheck // the work needs it
		f.conns[i] = to
		lost++
		go func() {
			err := f.moveTo(ctx, to, f.held[i])
			moved <- err
		}()
	}
	var failed error
	for range lost {
		failed = errors.Join(failed, <-moved)
	}
	return failed
}

// moveTo moves sessions to a new connection. A connection learns how much it may put into a message from the answer to
// its first request.
func (f *full) moveTo(ctx context.Context, to system.Conn, held []system.Session) error {
	kept := keep(ctx, []system.Conn{to}, touchEvery)
	defer kept.stop()
	first := min(1, len(held))
	for _, part := range [][]system.Session{held[:first], held[first:]} {
		expired, err := f.moving(ctx, []system.Conn{to}, part)
		f.expired.Add(int64(expired))
		if err != nil {
			return err
		}
	}
	return nil
}

// promised waits until all sessions of all connections are promised to live until a moment and beyond.
func promised(ctx context.Context, conns []system.Conn, until time.Time) error {
	_, err := flood(ctx, len(conns), len(conns), func(i int, done func(error)) {
		begin := time.Now()
		//nolint:errcheck // the work needs it
		conns[i].(system.Promiser).Promise(func(safe time.Duration, err error) {
			if err == nil && !begin.Add(safe).After(until) {
				err = &system.RefusedError{After: askEvery} // check again soon
			}
			done(err)
		})
	})
	return err
}
