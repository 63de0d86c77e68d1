package raftnet

import (
	"context"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"
)

// Dial connects to the node at address and shakes hands with it. The error is a [session.ErrWrongCluster] when either
// side refused the other; net.ErrClosed after Close.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	conn, err := l.dial(string(address), timeout)
	if err != nil {
		return nil, err
	}
	if err := l.greetFirst(conn, timeout); err != nil {
		l.log(conn, err)
		l.drop(conn)
		return nil, fmt.Errorf("raft handshake with %s: %w", address, err)
	}
	return conn, nil
}

// dial connects. Close interrupts it.
func (l *Layer) dial(address string, timeout time.Duration) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout) //nolint:forbidigo // raft's StreamLayer gives a timeout and no context
	d := &dialling{cancel: cancel}
	defer cancel()
	if !l.add(d) {
		return nil, net.ErrClosed
	}
	defer l.remove(d)
	raw, err := l.cfg.Dial(ctx, address)
	if err != nil {
		return nil, fmt.Errorf("dialling %s: %w", address, err)
	}
	return l.track(raw)
}

// greetFirst is the handshake of the side that dials.
func (l *Layer) greetFirst(conn net.Conn, timeout time.Duration) error {
	if err := conn.SetDeadline(time.Now().Add(min(timeout, l.cfg.HandshakeTimeout))); err != nil {
		return err
	}
	ours := greeting{version: version, code: codeHello, node: l.cfg.Node, text: l.cfg.ClusterID}
	if err := ours.write(conn); err != nil {
		return fmt.Errorf("greeting: %w", err)
	}
	theirs, err := readGreeting(conn)
	if err != nil {
		return err
	}
	if err := theirs.check(l.cfg.ClusterID, l.cfg.Node); err != nil {
		return err
	}
	return conn.SetDeadline(time.Time{})
}

// add takes c among what Close closes; false after Close.
func (l *Layer) add(c io.Closer) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed() {
		return false
	}
	l.open[c] = struct{}{}
	return true
}

func (l *Layer) remove(c io.Closer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, c)
}

// track returns raw as a connection that Close closes. After Close it closes raw itself.
func (l *Layer) track(raw net.Conn) (net.Conn, error) {
	c := &tracked{Conn: raw, layer: l}
	if !l.add(c) {
		l.drop(raw)
		return nil, net.ErrClosed
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
