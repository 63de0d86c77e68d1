package recipes

import (
	"context"

	"holdfast/client"
	"holdfast/tree"
)

// Lock is a lock that one caller holds alone, or any number of readers together. It is fair: callers stand in one line,
// in the order in which they came. A reader waits for the writers before it, everybody else for all before it. So a
// writer that waits holds up the readers behind it. Any number of goroutines and processes may use the same path, each
// with a session of its own or with a shared one: two calls of Lock of one session are two contenders. It is not
// reentrant, and a reader cannot become a writer without giving its hold up. Safe for concurrent use.
//
//	          Lock             nobody is ahead, and promised
//	away  ------------> WAITING ---------------------------> HOLDING
//	  ^                    |                                   |
//	  |  ctx ends, broken, |       Unlock, broken, session ends|
//	  +--------------------+-----------------------------------+
//
// The token of a writer is higher than those of all holders before. Readers that hold the lock at the same time have
// tokens of their own, in the order in which they came: a resource that lets readers in must keep the highest token of
// writers alone.
type Lock struct{ line line }

// The names of entries begin with what their owners want: to be alone, or to be beside other readers.
const (
	contender = "lock-"
	reader    = "read-"
)

// NewLock returns the lock at a path. It asks the cluster for nothing.
func NewLock(s *client.Session, path string, o ...Option) *Lock { return &Lock{newLine(s, path, o)} }

// Hold is a lock that is held.
type Hold struct{ *Grant }

// Unlock gives the lock up. The context of the hold ends first. It returns [Grant.Err] if the lock was lost before, and
// then nothing is left to do. When ctx ends before the cluster has answered, the error wraps its cause, and the lock is
// given up as soon as the cluster can be asked.
func (h *Hold) Unlock(ctx context.Context) error {
	return failed("unlock", h.place.path, h.release(ctx))
}

// Lock waits for the lock, to hold it alone. When ctx ends first, the error wraps its cause, and no place in the line is
// left behind.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) { return l.line.lock(ctx, writing()) }

// RLock waits for the lock as a reader, see [Lock.Lock].
func (l *Lock) RLock(ctx context.Context) (*Hold, error) { return l.line.lock(ctx, reading()) }

// TryLock takes the lock if it is free. Otherwise the error wraps [ErrBusy].
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) { return l.line.tryLock(ctx, writing()) }

// TryRLock takes the lock as a reader if no writer holds it or waits for it. Otherwise the error wraps [ErrBusy].
func (l *Lock) TryRLock(ctx context.Context) (*Hold, error) { return l.line.tryLock(ctx, reading()) }

// Do runs work while it holds the lock, under [Grant.Context] and with [Grant.Token]. The context ends with ctx too.
// Do returns the error of work, or why the lock did not last until the end of work. When ctx has ended, Do waits until
// the cluster has heard that the lock is given up, or until the session has no promise. Then the error wraps the cause
// of ctx, unless work has one, and the lock is given up as in [Hold.Unlock]. When work panics, the lock is given up
// too, and the panic goes on.
func (l *Lock) Do(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return l.line.do(ctx, writing(), work)
}

// DoRead runs work while it holds the lock as a reader, see [Lock.Do].
func (l *Lock) DoRead(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return l.line.do(ctx, reading(), work)
}

// reading is what readers want: to have no writer ahead.
func reading() want {
	return want{
		recipe: "read lock", prefix: reader,
		ahead: func(ctx context.Context, p *place) (string, error) {
			name, err := p.before(ctx, contender)
			if err == nil && name == "" {
				err = p.verify(ctx) // after the last writer ahead has gone
			}
			return name, err
		},
		taken: func(ctx context.Context, l line) (string, error) { return l.first(ctx, contender) },
	}
}

// writing is what callers want that hold a lock alone: to have nobody ahead.
func writing() want {
	readers := true // may be ahead: nobody comes in before a place, so those that have gone stay away
	return want{
		recipe: "lock", prefix: contender,
		ahead: func(ctx context.Context, p *place) (other string, err error) {
			if readers {
				if other, err = p.before(ctx, reader); err != nil {
					return "", err
				}
				readers = other != ""
			}
			one, err := p.before(ctx, contender) // the last read, because it sees the place too
			if err == nil && sequence(other) > sequence(one) {
				return other, nil
			}
			return one, err
		},
		taken: func(ctx context.Context, l line) (string, error) {
			if one, err := l.first(ctx, contender); err != nil || one != "" {
				return one, err
			}
			return l.first(ctx, reader)
		},
	}
}
