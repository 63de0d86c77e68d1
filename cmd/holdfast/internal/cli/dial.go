package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
)

var (
	// errHTTP1 reports that a server answered gRPC's first bytes in HTTP/1.
	errHTTP1 = errors.New("server answers in HTTP/1")
	// errHungUp reports that a server ended a connection before it sent anything.
	errHungUp = errors.New("server ended the connection before it sent anything")
)

// dialer makes the connections of the SDK. For each address it remembers why the newest connection failed before the
// server sent HTTP/2. gRPC gives these causes as text only, and the advice to the user depends on them. A dialer is
// safe for concurrent use.
//
// gRPC sets the socket option TCP_USER_TIMEOUT on a [net.TCPConn] only, not on the connections of a dialer. gRPC's
// keep-alive still finds a dead connection.
type dialer struct {
	mu sync.Mutex
	// failures has an error for each address whose newest connection failed early; guarded by mu.
	failures map[string]error
	// answered reports that a server has begun to speak anything but HTTP/1; guarded by mu. gRPC sends no request
	// before.
	answered bool
}

// dial makes a TCP connection to address, for [client.Config].
func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	var tcp net.Dialer
	conn, err := tcp.DialContext(ctx, "tcp", address)
	if errors.Is(err, context.Canceled) {
		return nil, err // the SDK gave up the connection, which says nothing about the address
	}
	d.note(address, err)
	if err != nil {
		return nil, err
	}
	return &watchedConn{Conn: conn, note: func(err error) { d.note(address, err) }, onHTTP2: d.speaksHTTP2}, nil
}

// speaksHTTP2 records that a server speaks HTTP/2.
func (d *dialer) speaksHTTP2() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answered = true
}

// anyAnswered reports whether any server has spoken, so that it may have got a request.
func (d *dialer) anyAnswered() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.answered
}

// note records the newest connection to address; err is nil unless the connection failed early.
func (d *dialer) note(address string, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err == nil {
		delete(d.failures, address)
		return
	}
	if d.failures == nil {
		d.failures = map[string]error{}
	}
	d.failures[address] = err
}

// failure returns why the newest connection to address failed early, or nil.
func (d *dialer) failure(address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures[address]
}

// saw reports whether the newest connection to any address failed early because of cause.
func (d *dialer) saw(cause error) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, err := range d.failures {
		if errors.Is(err, cause) {
			return true
		}
	}
	return false
}

// watchedConn is a connection that reports once whether it failed early: after the first read, or after a write that
// failed before.
type watchedConn struct {
	net.Conn
	note     func(error)
	onHTTP2  func()
	reported atomic.Bool
}

// Read reads, and reports the first read.
func (c *watchedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.reported.CompareAndSwap(false, true) {
		failed := earlyFailure(b[:n], err)
		if c.note(failed); failed == nil && n > 0 {
			c.onHTTP2()
		}
	}
	return n, err
}

// Write writes, and reports a failure before the first read. gRPC may close the connection after a failed write, and no
// read shows the cause then.
func (c *watchedConn) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && c.reported.CompareAndSwap(false, true) {
		c.note(earlyFailure(nil, err))
	}
	return n, err
}

// earlyFailure returns why a connection failed early, from its first bytes and first error; nil if it did not fail. An
// HTTP/2 server begins with a SETTINGS frame, whose first byte is 0, so its first bytes never look like HTTP/1.
func earlyFailure(first []byte, err error) error {
	switch {
	case bytes.HasPrefix(first, []byte("HTTP/")):
		return errHTTP1
	case len(first) > 0:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &hungUpError{err}
	default: // for example, the SDK closed the connection
		return nil
	}
}

// hungUpError is an [errHungUp] with its cause.
type hungUpError struct{ cause error }

func (e *hungUpError) Error() string { return errHungUp.Error() + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *hungUpError) Unwrap() error { return e.cause }

// Is makes e an [errHungUp].
func (*hungUpError) Is(Cluster error) bool { return Cluster == errHungUp }
