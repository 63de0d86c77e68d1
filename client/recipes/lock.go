package recipes

import (
	"context"

	"holdfast/client"
	"holdfast/tree"
)

// Lock is a lock for one writer, or any number of readers together. It is fair: callers wait in one line, in the order
// of their arrival. A reader waits for the writers before it, a writer for all callers before it. So a waiting writer
// blocks the readers behind it. Any number of goroutines and processes may use the same path, each with its own session
// or with a shared session: two calls of Lock of one session are two contenders. A lock is not reentrant, and a reader
// must give its hold up to become a writer. Safe for concurrent use.
//
//	          Lock             no entry is ahead, and promised
//	away  ------------> WAITING ---------------------------> HOLDING
//	  ^                    |                                   |
//	  |  ctx ends, broken, |       Unlock, broken, session ends|
//	  +--------------------+-----------------------------------+
//
// The token of a writer is higher than those of all holders before. Readers that hold the lock at the same time have
// different tokens, in the order of their arrival: a resource that admits readers must keep only the highest token of
// writers.
type Lock struct{ line line }

// The prefixes of entries: a writer's and a reader's.
const (
	contender = "lock-"
	reader    = "read-"
)

// NewLock returns the lock at a path without contacting the cluster.
func NewLock(s *client.Session, path string, o ...Option) *Lock { return &Lock{newLine(s, path, o)} }

// Hold is a lock that is held.
type Hold struct{ *Grant }

// Unlock gives the lock up. The context of the hold ends first. If the lock was lost before, Unlock returns
// [Grant.Err], and there is nothing left to do. When ctx ends before the cluster has answered, the error wraps its
// cause, and the lock is given up as soon as the cluster can be reached.
func (h *Hold) Unlock(ctx context.Context) error {
	return failed("unlock", h.place.path, h.release(ctx))
}

// Lock waits for the lock as a writer. When ctx ends first, the error wraps its cause, and no place in the line is left
// behind.
func (l *Lock) Lock(ctx context.Context) (*Hold, error) { return l.line.lock(ctx, writing()) }

// RLock waits for the lock as a reader, see [Lock.Lock].
func (l *Lock) RLock(ctx context.Context) (*Hold, error) { return l.line.lock(ctx, reading()) }

// TryLock acquires the lock if it is free. Otherwise the error wraps [ErrBusy].
func (l *Lock) TryLock(ctx context.Context) (*Hold, error) { return l.line.tryLock(ctx, writing()) }

// TryRLock acquires the lock as a reader if no writer holds it or waits. Otherwise the error wraps [ErrBusy].
func (l *Lock) TryRLock(ctx context.Context) (*Hold, error) { return l.line.tryLock(ctx, reading()) }

// Do runs work while it holds the lock, under [Grant.Context] and with [Grant.Token]. The context ends with ctx too. Do
// returns the error of work, or why the lock did not last until the end of work. When ctx has ended, Do waits until the
// cluster has confirmed the release, or until the session has no promise. Then the error wraps the cause of ctx, unless
// work returned an error, and the lock is given up as in [Hold.Unlock]. When work panics, the lock is given up too, and
// the panic continues.
func (l *Lock) Do(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return l.line.do(ctx, writing(), work)
}

// DoRead runs work while it holds the lock as a reader, see [Lock.Do].
func (l *Lock) DoRead(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return l.line.do(ctx, reading(), work)
}

// reading is the want of readers: no writer ahead.
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
		holder: func(ctx context.Context, l line) (string, error) { return l.first(ctx, contender) },
	}
}

// writing is the want of writers: no contender ahead.
func writing() want {
	readers := true // may be ahead: later contenders line up behind, so readers that have gone stay away
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
		holder: func(ctx context.Context, l line) (string, error) {
			if one, err := l.first(ctx, contender); err != nil || one != "" {
				return one, err
			}
			return l.first(ctx, reader)
		},
	}
}
