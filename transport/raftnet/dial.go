package raftnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Dial connects to the node at address and shakes hands with it. A node that may be elsewhere is tried there first, for half of the time:
// the directory that the address names says that it is the same one. The error is a [session.ErrWrongCluster] when either side refused
// the other; net.ErrClosed after Close. While the layer is suspended it dials nobody.
//
// The connection is dialled anew when it is used after a long silence.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	find := func(timeout time.Duration) (net.Conn, error) { return l.find(address, timeout) }
	conn, err := find(timeout)
	if err != nil {
		return nil, err
	}
	c := newRenewed(conn, find)
	return &called{guarded: guarded{Conn: c}, revive: c.renew}, nil
}

// find connects to the node at address, where it may be elsewhere, and shakes hands with it.
func (l *Layer) find(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	host, want, err := Split(address)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	if l.waits() {
		return nil, errWaits
	}
	var refused error
	if other := l.elsewhere(want); other != "" && other != host {
		var conn net.Conn
		timeout /= 2
		if conn, refused = l.reach(other, want, timeout); refused == nil {
			return conn, nil
		}
	}
	conn, err := l.reach(host, want, timeout)
	if err != nil && refused != nil {
		err = fmt.Errorf("%w; and before: %w", err, refused)
	}
	return conn, err
}

func (l *Layer) elsewhere(d Directory) string {
	if d == 0 || l.cfg.Elsewhere == nil {
		return ""
	}
	return l.cfg.Elsewhere(d)
}

// reach connects to the node at host and shakes hands with it.
func (l *Layer) reach(host string, want Directory, timeout time.Duration) (net.Conn, error) {
	conn, err := l.dial(context.Background(), host, timeout) //nolint:forbidigo // raft's StreamLayer gives a timeout and no context
	if err != nil {
		return nil, err
	}
	theirs, err := l.greetFirst(conn, codeHello, timeout)
	if err == nil {
		err = theirs.expect(want)
	}
	if err != nil {
		l.log(conn, err)
		l.drop(conn)
		return nil, fmt.Errorf("raft handshake with %s: %w", host, err)
	}
	return conn, nil
}

// dial connects. Close interrupts it.
func (l *Layer) dial(ctx context.Context, address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	d := &dialling{cancel: cancel}
	defer cancel()
	if err := l.add(d); err != nil {
		return nil, err
	}
	defer l.remove(d)
	raw, err := l.cfg.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	return l.track(raw)
}

// greetFirst is the handshake of the side that dials. It returns what the other side said.
func (l *Layer) greetFirst(conn net.Conn, code byte, timeout time.Duration) (greeting, error) {
	if err := conn.SetDeadline(time.Now().Add(min(timeout, l.cfg.HandshakeTimeout))); err != nil {
		return greeting{}, err
	}
	if err := l.greeting(code).write(conn); err != nil {
		return greeting{}, fmt.Errorf("greeting: %w", err)
	}
	theirs, err := readGreeting(conn)
	if err != nil {
		return greeting{}, err
	}
	if err := theirs.check(&l.cfg); err != nil {
		return greeting{}, err
	}
	return theirs, conn.SetDeadline(time.Time{})
}

func (l *Layer) greeting(code byte) greeting {
	return greeting{version: version, code: code, node: l.cfg.Node, text: introduction(l.cfg.ClusterID, l.cfg.Settings), directory: l.cfg.Directory}
}

// errSuspended says that this node takes no part for now.
var errSuspended = errors.New("raft's network is suspended on this node")

// add takes c among what Close and Suspend close. Its error is net.ErrClosed after Close.
func (l *Layer) add(c io.Closer) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed():
		return net.ErrClosed
	case l.suspended:
		return errSuspended
	}
	l.open[c] = struct{}{}
	return nil
}

func (l *Layer) remove(c io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// track returns raw as a connection that Close and Suspend close. After either it closes raw itself.
func (l *Layer) track(raw net.Conn) (net.Conn, error) {
	c := &tracked{Conn: raw, layer: l}
	if err := l.add(c); err != nil {
		l.drop(raw)
		return nil, err
	}
	return c, nil
}

// tracked leaves the layer when it is closed.
type tracked struct {
	net.Conn
	layer *Layer
	once  sync.Once
}

// Close closes the connection.
func (c *tracked) Close() error {
	c.once.Do(func() { c.layer.remove(c) })
	return c.Conn.Close()
}

// dialling is a dial that is under way, as something to close.
type dialling struct{ cancel context.CancelFunc }

// Close interrupts the dial.
func (d *dialling) Close() error {
	d.cancel()
	return nil
}
