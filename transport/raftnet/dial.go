package raftnet

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// Dial connects to the node at address and does the handshake. If Config.Elsewhere knows another address of the node,
// Dial tries that one first, for half of the time: the directory in address identifies the node. The error is a
// [session.ErrWrongCluster] when either side refused the other, and net.ErrClosed after Close. While the layer is
// suspended, Dial connects to no node.
//
// The connection is renewed when it is used after a long silence.
func (l *Layer) Dial(address raft.ServerAddress, timeout time.Duration) (net.Conn, error) {
	find := func(timeout time.Duration) (net.Conn, error) { return l.find(address, timeout) }
	conn, err := find(timeout)
	if err != nil {
		return nil, err
	}
	c := newRenewed(conn, find)
	return &called{scannedConn: scannedConn{Conn: c}, revive: c.renew, probe: c.probe}, nil
}

// find connects to the node at address, or at the address from Config.Elsewhere, and does the handshake.
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
		err = fmt.Errorf("%w; and earlier: %w", err, refused)
	}
	return conn, err
}

func (l *Layer) elsewhere(d Directory) string {
	if d == 0 || l.cfg.Elsewhere == nil {
		return ""
	}
	return l.cfg.Elsewhere(d)
}

// reach connects to the node at host for Raft: it does the handshake and checks the directory.
func (l *Layer) reach(host string, want Directory, timeout time.Duration) (net.Conn, error) {
	//nolint:forbidigo // raft's StreamLayer gives a timeout and no context
	conn, _, err := l.introduce(context.Background(), host, codeHello, want, timeout)
	return conn, err
}

// introduce connects to the node at host and does the handshake. want is the directory on which the node must run; 0
// for any.
func (l *Layer) introduce(ctx context.Context, host string, code byte, want Directory,
	timeout time.Duration,
) (net.Conn, greeting, error) {
	end := time.Now().Add(timeout)
	conn, err := l.dial(ctx, host, time.Until(end))
	if err != nil {
		return nil, greeting{}, err
	}
	theirs, err := l.greetFirst(conn, code, want, time.Until(end))
	if err == nil {
		return conn, theirs, nil
	}
	l.drop(conn)
	if code != codeHello { // the callers of Meet and Ask report the error
		return nil, greeting{}, fmt.Errorf("greeting %s: %w", host, err)
	}
	l.log(conn, err)
	return nil, greeting{}, fmt.Errorf("raft handshake with %s: %w", host, err)
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

// greetFirst is the dialler's side of the handshake. It returns the other side's greeting, with a proven directory. It
// proves its own directory only to the directory that it wants: another node could pass the proof on.
func (l *Layer) greetFirst(conn net.Conn, code byte, want Directory, timeout time.Duration) (greeting, error) {
	if err := conn.SetDeadline(time.Now().Add(min(timeout, l.cfg.HandshakeTimeout))); err != nil {
		return greeting{}, err
	}
	said := l.greeting(code).bytes()
	if _, err := conn.Write(said); err != nil {
		return greeting{}, fmt.Errorf("greeting: %w", err)
	}
	theirs, err := readGreeting(conn)
	if err == nil {
		err = theirs.check(&l.cfg)
	}
	if err == nil {
		err = l.identify(conn, theirs)
	}
	if err == nil && theirs.code != codeHello {
		err = &refusal{theirs.code, fmt.Sprintf("node %d answers a greeting with code %d", theirs.node, theirs.code)}
	}
	if err == nil {
		err = theirs.expect(want)
	}
	if err != nil {
		return theirs, err
	}
	said = append(said, theirs.bytes()...)
	known, err := readReport(conn, theirs.directory, sideDialled, said)
	if err != nil {
		return theirs, err
	}
	if _, err = conn.Write(l.report(theirs.directory, sideDialler, append(said, known.bytes()...))); err != nil {
		return theirs, fmt.Errorf("greeting: %w", err)
	}
	if err = l.reportKnown(theirs, true, known); err != nil {
		return theirs, err
	}
	return theirs, conn.SetDeadline(time.Time{})
}

func (l *Layer) greeting(code byte) greeting {
	g := greeting{
		format: session.GreetingFormat, code: code, node: l.cfg.Node, text: introduction(l.cfg.ClusterID, l.cfg.Settings),
		directory: l.directory,
	}
	_, _ = rand.Read(g.nonce[:]) // never fails: crypto/rand ends the process instead
	return g
}

// errSuspended says that Suspend has closed the network.
var errSuspended = errors.New("raft's network is suspended on this node")

// add adds c to the connections that Close and Suspend close. Its error is net.ErrClosed after Close.
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

// track wraps raw in a connection that Close and Suspend close. After either call, it closes raw and returns an error.
func (l *Layer) track(raw net.Conn) (net.Conn, error) {
	c := &tracked{Conn: raw, layer: l}
	if err := l.add(c); err != nil {
		l.drop(raw)
		return nil, err
	}
	return c, nil
}

// tracked is a connection that removes itself from the layer when it is closed.
type tracked struct {
	net.Conn
	layer *Layer
	once  sync.Once
}

// NetConn returns the underlying connection.
func (c *tracked) NetConn() net.Conn { return c.Conn }

// Close closes the connection.
func (c *tracked) Close() error {
	c.once.Do(func() { c.layer.remove(c) })
	return c.Conn.Close()
}

// dialling is a dial in progress, which Close interrupts.
type dialling struct{ cancel context.CancelFunc }

// Close interrupts the dial.
func (d *dialling) Close() error {
	d.cancel()
	return nil
}
