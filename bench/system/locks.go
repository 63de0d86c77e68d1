package system

import (
	"context"
	"errors"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/test/proc"
)

const (
	// lockTimeout is that of the session of a client that contends for a lock: the longest that ZooKeeper grants.
	lockTimeout = 40 * time.Second
	// lockPath is that of the lock.
	lockPath = "/bench-lock"
	// passPause is between the moment at which the next holder is queued and the release: its watch is set then.
	// etcd sends a new watch the older event of a key only after up to 100 ms.
	passPause = 150 * time.Millisecond
)

// Locking is a Cluster whose clients have a recipe for locks.
type Locking interface {
	// Contest starts clients that contend for one lock: one for each of the servers, with a connection and a session of
	// its own.
	Contest(ctx context.Context, servers []int) (Contest, error)
	// Entries is the index of the newest entry of the cluster's log.
	Entries(ctx context.Context) (uint64, error)
}

// LocksOnly is a System that is there for the works with locks alone.
type LocksOnly interface{ LocksOnly() }

// Contest is some clients that contend for one lock. No client holds the lock before and after Alone, Pass and Drain.
type Contest interface {
	// Alone has one client lock and unlock, again and again. It returns the time of each round.
	Alone(ctx context.Context, client, rounds int) ([]time.Duration, error)
	// Pass has the first two clients hand the lock over to each other. A time is from the call that unlocks to the end of
	// the other's call that locks.
	Pass(ctx context.Context, rounds int) ([]time.Duration, error)
	// Queue has the first client lock, and returns when all others wait for the lock.
	Queue(ctx context.Context) error
	// Drain comes after Queue: the first client unlocks, and so does each other one as soon as it has the lock. The time
	// is that from the first call that unlocks to the end of the last.
	Drain(ctx context.Context) (time.Duration, error)
	// End ends the clients.
	End()
}

// locker is a client in this process.
type locker interface {
	lock(ctx context.Context) error
	unlock(ctx context.Context) error
	// queued is the number of clients that hold the lock or wait for it.
	queued(ctx context.Context) (int, error)
	end()
}

// lockers are a contest in this process.
type lockers struct {
	all []locker
	// drained has the errors of the waiting clients.
	drained chan error
}

// contest makes a locker for each server.
func contest(ctx context.Context, servers []int, begin func(context.Context, int) (locker, error)) (Contest, error) {
	l := &lockers{}
	for _, server := range servers {
		one, err := begin(ctx, server)
		if err != nil {
			l.End()
			return nil, err
		}
		l.all = append(l.all, one)
	}
	return l, nil
}

func (l *lockers) Alone(ctx context.Context, client, rounds int) (took []time.Duration, err error) {
	for range rounds {
		begin := time.Now()
		if err = l.all[client].lock(ctx); err == nil {
			err = l.all[client].unlock(ctx)
		}
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(begin))
	}
	return took, nil
}

func (l *lockers) Pass(ctx context.Context, rounds int) (took []time.Duration, err error) {
	holder, next := l.all[0], l.all[1]
	if err = holder.lock(ctx); err != nil {
		return nil, err
	}
	for range rounds {
		one, err := pass(ctx, holder, next)
		if err != nil {
			return nil, err
		}
		took = append(took, one)
		holder, next = next, holder
	}
	return took, holder.unlock(ctx)
}

// pass hands the lock over once.
func pass(ctx context.Context, holder, next locker) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	var begun, got time.Time
	var waiting sync.WaitGroup
	defer waiting.Wait()
	defer cancel()
	locked := make(chan error, 1)
	waiting.Go(func() {
		err := next.lock(ctx)
		got = time.Now()
		locked <- err
	})
	err := waitQueued(ctx, holder, 2)
	if err == nil {
		err = session.Sleep(ctx, passPause)
	}
	if err != nil {
		return 0, err
	}
	begun = time.Now()
	if err = holder.unlock(ctx); err == nil {
		err = <-locked
	}
	return got.Sub(begun), err
}

// waitQueued waits until that number of clients hold the lock or wait for it.
func waitQueued(ctx context.Context, client locker, number int) error {
	return proc.Until(ctx, time.Millisecond, func(ctx context.Context) error {
		there, err := client.queued(ctx)
		if err == nil && there != number {
			err = errors.New("not all clients are queued")
		}
		return err
	})
}

func (l *lockers) Queue(ctx context.Context) error {
	if err := l.all[0].lock(ctx); err != nil {
		return err
	}
	l.drained = make(chan error, len(l.all))
	for _, one := range l.all[1:] {
		go func() {
			err := one.lock(ctx)
			if err == nil {
				err = one.unlock(ctx)
			}
			l.drained <- err
		}()
	}
	return waitQueued(ctx, l.all[0], len(l.all))
}

func (l *lockers) Drain(ctx context.Context) (time.Duration, error) {
	begin := time.Now()
	if err := l.all[0].unlock(ctx); err != nil {
		return 0, err
	}
	for range l.all[1:] {
		select {
		case err := <-l.drained:
			if err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
	}
	return time.Since(begin), nil
}

func (l *lockers) End() {
	var ending sync.WaitGroup
	for _, one := range l.all {
		ending.Go(one.end)
	}
	ending.Wait()
}
