package system

import (
	"context"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/tree"
)

// OpenWriter grants a lease: every client writes.
func (c *etcdConn) OpenWriter(timeout time.Duration, done func(Session, error)) {
	c.Open(timeout, done)
}

// Create puts a key, an ephemeral with the session's lease.
func (c *etcdConn) Create(held Session, path string, data []byte, kind tree.Kind, done func(error)) {
	m := etcdPair(path, data)
	if kind == tree.Ephemeral {
		m = protowire.AppendVarint(protowire.AppendTag(m, 3, protowire.VarintType), uint64(held.(int64))) //nolint:errcheck,gosec // this system's own
	}
	c.put(m, done)
}

// Set puts a key.
func (c *etcdConn) Set(_ Session, path string, data []byte, done func(error)) {
	c.put(etcdPair(path, data), done)
}

// Read is a linearizable read, etcd's default.
func (c *etcdConn) Read(_ Session, path string, done func([]byte, error)) {
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		key, answer := etcdPair(path, nil), raw(nil)
		if err := c.conn.Invoke(ctx, etcdRange, &key, &answer); err != nil {
			done(nil, err)
			return
		}
		var data []byte
		there := false
		err := walk(answer, func(f field) {
			if f.n == 2 { // a pair: 5 is its value
				there = true
				_ = walk(f.inner, func(f field) {
					if f.n == 5 {
						data = f.inner
					}
				})
			}
		})
		if err == nil && !there {
			err = ErrNoEntry
		}
		done(data, err)
	})
}

// ReadNewest is Read.
func (c *etcdConn) ReadNewest(held Session, path string, done func([]byte, error)) {
	c.Read(held, path, done)
}

// InOrder says that reads are newer than all writes that were answered.
func (*etcdConn) InOrder() {}

func (c *etcdConn) put(m raw, done func(error)) {
	c.running.Go(func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		var answer raw
		done(c.conn.Invoke(ctx, etcdPut, &m, &answer))
	})
}

// etcdPair builds a message of a key and a value.
func etcdPair(key string, value []byte) raw {
	b := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), key)
	if value != nil {
		b = protowire.AppendBytes(protowire.AppendTag(b, 2, protowire.BytesType), value)
	}
	return b
}
