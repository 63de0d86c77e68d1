package main

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
	// errHTTP1 says that a server answered gRPC's first bytes in HTTP/1.
	errHTTP1 = errors.New("answers in HTTP/1")
	// errHungUp says that a server ended a connection before it sent anything.
	errHungUp = errors.New("ended the connection without a word")
)

// dialer connects to nodes and remembers why the newest connection to each address did not begin. gRPC gives these
// causes as text only; the advice to the user depends on them. It is safe for concurrent use.
//
// gRPC sets TCP_USER_TIMEOUT only on a bare [net.TCPConn], so connections of a dialer are without it. gRPC's keep-alive
// finds a dead connection all the same.
type dialer struct {
	mu sync.Mutex
	// failures holds an error for each address whose newest connection did not begin; guarded by mu.
	failures map[string]error
}

// dial makes a TCP connection to address. It is a [client.Config]'s Dial.
func (d *dialer) dial(ctx context.Context, address string) (net.Conn, error) {
	var tcp net.Dialer
	conn, err := tcp.DialContext(ctx, "tcp", address)
	if errors.Is(err, context.Canceled) {
		return nil, err // the SDK no longer wants the connection: this says nothing about the address
	}
	d.note(address, err)
	if err != nil {
		return nil, err
	}
	return &beginning{Conn: conn, note: func(err error) { d.note(address, err) }}, nil
}

// note records how the newest connection to address began; nil is well, or not known yet.
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

// failure returns why the newest connection to address did not begin; nil if it did, or if there was none.
func (d *dialer) failure(address string) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.failures[address]
}

// saw reports whether the newest connection to any address failed with cause.
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

// beginning is a connection that reports how it began: once, after the first bytes or the first error.
type beginning struct {
	net.Conn
	note func(error)
	over atomic.Bool
}

// Read reads, and reports the result of the first read.
func (c *beginning) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.over.CompareAndSwap(false, true) {
		c.note(judgeBeginning(b[:n], err))
	}
	return n, err
}

// Write writes. A write that fails before the first read ended is the connection's beginning: gRPC may close the
// connection then, and the read does not show the cause any more.
func (c *beginning) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err != nil && c.over.CompareAndSwap(false, true) {
		c.note(judgeBeginning(nil, err))
	}
	return n, err
}

// judgeBeginning returns what is wrong with a connection whose first read or write brought these bytes and this error.
// The first frame of HTTP/2 begins with its length, which no letter can be.
func judgeBeginning(first []byte, err error) error {
	switch {
	case bytes.HasPrefix(first, []byte("HTTP/")):
		return errHTTP1
	case len(first) > 0:
		return nil
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET), errors.Is(err, syscall.EPIPE):
		return &hungUpError{err}
	default: // this side closed the connection, for one
		return nil
	}
}

// hungUpError is an [errHungUp] with its cause.
type hungUpError struct{ cause error }

func (e *hungUpError) Error() string { return errHungUp.Error() + ": " + e.cause.Error() }

// Unwrap returns the cause.
func (e *hungUpError) Unwrap() error { return e.cause }

// Is makes e an [errHungUp].
func (*hungUpError) Is(target error) bool { return target == errHungUp }
