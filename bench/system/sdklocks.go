package system

import (
	"context"

	"holdfast/client"
	"holdfast/client/recipes"
)

// Contest starts clients that use [recipes.Lock].
func (n *sdkNodes) Contest(ctx context.Context, servers []int) (Contest, error) {
	return contest(ctx, servers, n.locker)
}

// Entries asks the leader.
func (n *sdkNodes) Entries(ctx context.Context) (uint64, error) {
	leader, err := n.Leader(ctx)
	if err != nil {
		return 0, err
	}
	status, err := n.status(ctx, leader)
	return status.GetCommitIndex(), err
}

func (n *sdkNodes) locker(ctx context.Context, server int) (locker, error) {
	c, err := n.Connect(ctx, server)
	if err != nil {
		return nil, err
	}
	held, err := opened(ctx, c)
	if err != nil {
		c.End()
		return nil, err
	}
	s := held.(*client.Session) //nolint:errcheck // this system's own
	return &sdkLocker{Conn: c, tree: s.Tree(), mutex: recipes.NewLock(s, lockPath)}, nil
}

// opened opens a session for a locker.
func opened(ctx context.Context, c Conn) (Session, error) {
	type result struct {
		held Session
		err  error
	}
	results := make(chan result, 1)
	c.Open(lockTimeout, func(held Session, err error) { results <- result{held, err} })
	select {
	case r := <-results:
		return r.held, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// sdkLocker is a client of the SDK with one session.
type sdkLocker struct {
	Conn

	tree  *client.Tree
	mutex *recipes.Lock
	hold  *recipes.Hold
}

func (l *sdkLocker) lock(ctx context.Context) (err error) {
	l.hold, err = l.mutex.Lock(ctx)
	return err
}

func (l *sdkLocker) unlock(ctx context.Context) error { return l.hold.Unlock(ctx) }

func (l *sdkLocker) queued(ctx context.Context) (int, error) {
	stat, _, err := l.tree.Exists(ctx, lockPath)
	return stat.Children, err
}

func (l *sdkLocker) end() { l.End() }
