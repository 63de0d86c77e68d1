// Package porttest has helpers for the tests of transport's packages.
package porttest

import (
	"context"
	"net"
	"sync"
)

// Pipes is a network of net.Pipe: a listener and its dial function.
type Pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
	// Cut, when set, wraps the dialler's end.
	Cut func(net.Conn) net.Conn
}

// NewPipes returns a network without connections.
func NewPipes() *Pipes { return &Pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

// Accept returns the next dialled connection.
func (p *Pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

// Close ends the listener.
func (p *Pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

// Addr returns the same address for every network.
func (p *Pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }

// Dial returns a connection once it is accepted.
func (p *Pipes) Dial(ctx context.Context, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		if p.Cut != nil {
			ours = p.Cut(ours)
		}
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
