package system

import (
	"context"
	"fmt"
	"net"
	"sync/atomic"
	"time"

	"holdfast/client"
)

// SDK is a build of Holdfast, spoken to by the Go SDK of this one.
type SDK struct{ Holdfast }

// Name is that of the column.
func (s SDK) Name() string { return s.Column + " SDK" }

// Start starts the nodes.
func (s SDK) Start(ctx context.Context, dir string, size int) (Cluster, error) {
	n, err := s.start(ctx, dir, size, nil)
	if err != nil {
		return nil, err
	}
	return &sdkNodes{n}, nil
}

// sdkNodes are a cluster whose clients are the SDK's.
type sdkNodes struct{ *nodes }

// Connect makes a client that knows all nodes, and reaches the given one alone until it has its first session.
func (n *sdkNodes) Connect(ctx context.Context, server int) (Conn, error) {
	c := &sdkConn{}
	only := n.address(server, clients)
	var d net.Dialer
	made, err := client.New(client.Config{
		Endpoints: n.endpoints(),
		Dial: func(ctx context.Context, address string) (net.Conn, error) {
			if address != only && !c.opened.Load() {
				return nil, fmt.Errorf("dial %s: this client begins at %s", address, only)
			}
			return d.DialContext(ctx, "tcp", address)
		},
	})
	if err != nil {
		return nil, err
	}
	c.client = made
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c, nil
}

// sdkConn is a client of the SDK.
type sdkConn struct {
	client *client.Client
	//nolint:containedctx // the connection's life
	ctx    context.Context
	cancel context.CancelFunc
	// opened says that the client has had a session.
	opened atomic.Bool
}

// Open opens a session.
func (c *sdkConn) Open(timeout time.Duration, done func(Session, error)) {
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		s, err := c.client.Open(ctx, client.SessionOptions{Timeout: timeout})
		if err != nil {
			done(nil, err)
			return
		}
		c.opened.Store(true)
		done(s, nil)
	}()
}

// Repeats says that a client repeats by itself what a server refuses or loses.
func (*sdkConn) Repeats() {}

// Ended returns why a session has ended, nil while it lives.
func (*sdkConn) Ended(held Session) error {
	return held.(*client.Session).Err() //nolint:errcheck // this system's own
}

// Serves returns the node that serves a session now, 0 for none.
func (*sdkConn) Serves(held Session) int {
	s := held.(*client.Session) //nolint:errcheck // this system's own
	if s.State() != client.StateConnected {
		return 0
	}
	return int(s.Owner())
}

// Close ends a session.
func (c *sdkConn) Close(held Session, done func(error)) {
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, requestWait)
		defer cancel()
		done(held.(*client.Session).Close(ctx)) //nolint:errcheck // this system's own
	}()
}

// Touch does nothing: the SDK touches its sessions by itself.
func (c *sdkConn) Touch(done func(error)) { done(nil) }

// End ends the client.
func (c *sdkConn) End() {
	c.cancel()
	_ = c.client.Close()
}
