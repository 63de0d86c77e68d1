package recipes

import (
	"context"

	"holdfast/client"
	"holdfast/tree"
)

// ReadWriteLock is a lock that one writer holds, or any number of readers. It is fair: readers and writers stand in one
// line. A reader waits for the writers before it, a writer for everybody before it. So a writer that waits holds up the
// readers behind it. A reader cannot become a writer without giving its hold up. Safe for concurrent use.
//
// The token of a writer is higher than those of all holders before. Readers that hold the lock at the same time have
// tokens of their own, in the order in which they came: a resource that lets readers in must keep the highest token of
// writers alone.
//
// The states are those of [Mutex].
type ReadWriteLock struct{ line line }

const (
	reader = "read-"
	writer = "write-"
)

// NewReadWriteLock returns the lock at a path. It asks the cluster for nothing.
func NewReadWriteLock(s *client.Session, path string, o ...Option) *ReadWriteLock {
	return &ReadWriteLock{newLine(s, path, o)}
}

// RLock waits for the lock as a reader. When ctx ends first, the error wraps its cause, and no place in the line is
// left behind.
func (l *ReadWriteLock) RLock(ctx context.Context) (*Hold, error) { return l.line.lock(ctx, reading()) }

// TryRLock takes the lock as a reader if no writer holds it or waits for it. Otherwise the error wraps [ErrBusy].
func (l *ReadWriteLock) TryRLock(ctx context.Context) (*Hold, error) {
	return l.line.tryLock(ctx, reading())
}

// Lock waits for the lock as a writer, as RLock does as a reader.
func (l *ReadWriteLock) Lock(ctx context.Context) (*Hold, error) { return l.line.lock(ctx, writing()) }

// TryLock takes the lock as a writer if nobody holds it. Otherwise the error wraps [ErrBusy].
func (l *ReadWriteLock) TryLock(ctx context.Context) (*Hold, error) {
	return l.line.tryLock(ctx, writing())
}

// Do is [Mutex.Do] as a writer, DoRead as a reader.
func (l *ReadWriteLock) Do(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return l.line.do(ctx, writing(), work)
}

// DoRead runs work while it holds the lock as a reader, see [Mutex.Do].
func (l *ReadWriteLock) DoRead(ctx context.Context, work func(ctx context.Context, token tree.Stamp) error) error {
	return l.line.do(ctx, reading(), work)
}

// reading is what readers want: to have no writer ahead.
func reading() want {
	return want{
		recipe: "read lock", prefix: reader,
		ahead: func(ctx context.Context, p *place) (string, error) {
			name, err := p.before(ctx, writer)
			if err == nil && name == "" {
				err = p.verify(ctx) // after the last writer ahead has gone
			}
			return name, err
		},
		taken: func(ctx context.Context, l line) (string, error) { return l.first(ctx, writer) },
	}
}

// writing is what writers want: to have nobody ahead.
func writing() want {
	return want{
		recipe: "write lock", prefix: writer,
		ahead: func(ctx context.Context, p *place) (string, error) {
			other, err := p.before(ctx, reader)
			if err != nil {
				return "", err
			}
			one, err := p.before(ctx, writer) // the last read, because it sees the place too
			if err == nil && sequence(other) > sequence(one) {
				return other, nil
			}
			return one, err
		},
		taken: func(ctx context.Context, l line) (string, error) {
			if one, err := l.first(ctx, writer); err != nil || one != "" {
				return one, err
			}
			return l.first(ctx, reader)
		},
	}
}
