package system

import (
	"context"
	"errors"
	"time"

	"holdfast/client"
	"holdfast/tree"
)

// OpenWriter is Open: every session writes.
func (c *sdkConn) OpenWriter(timeout time.Duration, done func(Session, error)) { c.Open(timeout, done) }

// Create makes an entry.
func (c *sdkConn) Create(held Session, path string, data []byte, kind tree.Kind, done func(error)) {
	c.through(held, done, func(ctx context.Context, t *client.Tree) error {
		_, err := t.Create(ctx, path, data, client.CreateOptions{Kind: kind})
		return err
	})
}

// Set sets an entry's data.
func (c *sdkConn) Set(held Session, path string, data []byte, done func(error)) {
	c.through(held, done, func(ctx context.Context, t *client.Tree) error {
		_, err := t.Set(ctx, path, data)
		return err
	})
}

// Read reads in the order of the session's requests.
func (c *sdkConn) Read(held Session, path string, done func([]byte, error)) { c.read(held, path, done) }

// ReadNewest reads through the leader.
func (c *sdkConn) ReadNewest(held Session, path string, done func([]byte, error)) {
	c.read(held, path, done, client.Linearizable())
}

func (c *sdkConn) read(held Session, path string, done func([]byte, error), o ...client.ReadOption) {
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		e, err := held.(*client.Session).Tree().Get(ctx, path, o...) //nolint:errcheck // this system's own
		if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			err = ErrNoEntry
		}
		done(e.Data, err)
	}()
}

// InOrder says that a session's reads are in the order of its requests.
func (*sdkConn) InOrder() {}

func (c *sdkConn) through(held Session, done func(error), do func(context.Context, *client.Tree) error) {
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		done(do(ctx, held.(*client.Session).Tree())) //nolint:errcheck // this system's own
	}()
}
