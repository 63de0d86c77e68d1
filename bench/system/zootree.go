package system

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"holdfast/tree"
)

// Codes of the requests for entries, and of answers.
const (
	zooCreate   = 1
	zooGetData  = 4
	zooSetData  = 5
	zooSync     = 9
	zooAddWatch = 106

	zooNoNode = -101

	zooEphemeral = 1 // flag of a create
	zooRecursive = 1 // mode of a lasting watch
	zooAll       = 31
)

// zooError is the error of an answer's code.
func zooError(code int32) error {
	switch code {
	case 0:
		return nil
	case zooNoNode:
		return ErrNoEntry
	case zooNodeExists:
		return errEntryExists
	default:
		return fmt.Errorf("refused: ZooKeeper's code %d", code)
	}
}

// OpenWriter is Open: every session writes.
func (c *zooConn) OpenWriter(timeout time.Duration, done func(Session, error)) { c.Open(timeout, done) }

// Create makes an entry that everybody may change.
func (c *zooConn) Create(held Session, path string, data []byte, kind tree.Kind, done func(error)) {
	b := zooBytes(zooBytes(nil, []byte(path)), data)
	b = zooInts(b, 1, zooAll) // one grant
	b = zooBytes(zooBytes(b, []byte("world")), []byte("anyone"))
	flags := uint32(0)
	if kind == tree.Ephemeral {
		flags = zooEphemeral
	}
	s := held.(*zooSession) //nolint:errcheck // this system's own
	s.request(zooCreate, zooInts(b, flags), func(_ []byte, err error) { done(err) })
}

// Set sets an entry's data, whatever its version.
func (c *zooConn) Set(held Session, path string, data []byte, done func(error)) {
	b := zooBytes(zooBytes(nil, []byte(path)), data)
	s := held.(*zooSession) //nolint:errcheck // this system's own
	s.request(zooSetData, zooInts(b, 1<<32-1), func(_ []byte, err error) { done(err) })
}

// Read reads in the order of the session's requests: the protocol has no other way.
func (c *zooConn) Read(held Session, path string, done func([]byte, error)) {
	b := append(zooBytes(nil, []byte(path)), 0)                                // no watch
	held.(*zooSession).request(zooGetData, b, func(answer []byte, err error) { //nolint:errcheck // this system's own
		if err != nil {
			done(nil, err)
			return
		}
		done(zooData(answer))
	})
}

// InOrder says that a session's reads are in the order of its requests.
func (*zooConn) InOrder() {}

// ReadNewest sends a sync and a read at once: the server answers them in order.
func (c *zooConn) ReadNewest(held Session, path string, done func([]byte, error)) {
	s := held.(*zooSession) //nolint:errcheck // this system's own
	var failed error
	s.request(zooSync, zooBytes(nil, []byte(path)), func(_ []byte, err error) { failed = err })
	c.Read(held, path, func(data []byte, err error) { done(data, errors.Join(failed, err)) })
}

// zooData returns the data that an answer to a read begins with.
func zooData(answer []byte) ([]byte, error) {
	if len(answer) < 4 {
		return nil, fmt.Errorf("answer of %d bytes to a read", len(answer))
	}
	n := int32(binary.BigEndian.Uint32(answer)) //nolint:gosec // its bits: -1 is null
	if int(n) > len(answer)-4 {
		return nil, fmt.Errorf("data of %d bytes in an answer of %d", n, len(answer))
	}
	return answer[4 : 4+max(0, n)], nil
}

// Watch sets a watch with a session that this connection opens for its watches. The watch of data comes with a read.
func (c *zooConn) Watch(path string, kind tree.WatchKind, onEvent, done func(error)) {
	c.mu.Lock()
	s := c.watcher
	c.mu.Unlock()
	if s == nil {
		c.Open(watcherTimeout, func(held Session, err error) {
			if err != nil {
				done(err)
				return
			}
			c.mu.Lock()
			c.watcher = held.(*zooSession) //nolint:errcheck // this system's own
			c.mu.Unlock()
			c.Watch(path, kind, onEvent, done)
		})
		return
	}
	s.mu.Lock()
	s.onEvent = onEvent
	s.mu.Unlock()
	code, b := int32(zooGetData), append(zooBytes(nil, []byte(path)), 1)
	if kind == tree.WatchRecursive {
		code, b = zooAddWatch, zooInts(zooBytes(nil, []byte(path)), zooRecursive)
	}
	s.request(code, b, func(_ []byte, err error) { done(err) })
}

// Watchers makes clients of a server. A client is a connection.
func (e *ensemble) Watchers(ctx context.Context, server, n int) ([]Watcher, error) {
	return zooWatchers(ctx, e.addresses[server], n), nil
}

func zooWatchers(ctx context.Context, address string, n int) []Watcher {
	all := make([]Watcher, n)
	for i := range all {
		all[i] = newZooConn(ctx, address)
	}
	return all
}

// zooBytes appends data or a text with its length.
func zooBytes(b, data []byte) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(len(data))), data...) //nolint:gosec // it is short
}

func zooInts(b []byte, all ...uint32) []byte {
	for _, n := range all {
		b = binary.BigEndian.AppendUint32(b, n)
	}
	return b
}
