package recipes

import (
	"context"

	"holdfast/client"
	"holdfast/tree"
)

// Mutex is a lock that one caller holds at a time, in the order in which callers came. Any number of goroutines and
// processes may use the same path, each with a session of its own or with a shared one: two calls of Lock of one
// session are two contenders. It is not reentrant. Safe for concurrent use.
//
//	          Lock             first in line, and promised
//	away  ------------> WAITING ---------------------------> HOLDING
//	  ^                    |                                   |
//	  |  ctx ends, broken, |       Unlock, broken, session ends|
//	  +--------------------+-----------------------------------+
type Mutex struct{ line line }

const contender = "lock-"

// NewMutex returns the lock at a path. It asks the cluster for nothing.
func NewMutex(s *client.Session, path string, o ...Option) *Mutex { return &Mutex{newLine(s, path, o)} }

// Hold is a lock that is held.
type Hold struct{ *Grant }

// Unlock gives the lock up. The context of the hold ends first. It returns [Grant.Err] if the lock was lost before, and
// then nothing is left to do. When ctx ends before the cluster has answered, the error wraps its cause, and the lock is
// given up as soon as the cluster can be asked.
func (h *Hold) Unlock(ctx context.Context) error {
	return failed("unlock", h.place.path, h.release(ctx))
}

// Lock waits for the lock. When ctx ends first, the error wraps its cause, and no place in the line is left behind.
func (m *Mutex) Lock(ctx context.Context) (*Hold, error) { return m.line.lock(ctx, exclusive()) }

// TryLock takes the lock if it is free. Otherwise the error wraps [ErrBusy].
func (m *Mutex) TryLock(ctx context.Context) (*Hold, error) { return m.line.tryLock(ctx, exclusive()) }

// Do runs work while it holds the lock, under [Grant.Context] and with [Grant.Token]. The context ends with ctx too.
// Do returns the error of work, or why the lock did not last until the end of work. When ctx has ended, Do waits until
// the cluster has heard that the lock is given up, or until the session has no promise. Then the error wraps the cause
// of ctx, unless work has one, and the lock is given up as in [Hold.Unlock]. When work panics, the lock is given up
// too, and the panic goes on.
func (m *Mutex) Do(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return m.line.do(ctx, exclusive(), work)
}

// exclusive is what callers of a mutex want: to be the first of all.
func exclusive() want {
	return want{
		recipe: "mutex", prefix: contender,
		ahead: func(ctx context.Context, p *place) (string, error) { return p.before(ctx, contender) },
		taken: func(ctx context.Context, l line) (string, error) { return l.first(ctx, contender) },
	}
}
