package port

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/tap"

	"holdfast/session"
	"holdfast/transport/wire"
)

const (
	// FirstMessageWait is the time limit for the first message of a call.
	FirstMessageWait = 10 * time.Second
	// refusedWait is the time limit for a refused call: gRPC answers a unary call only after its message has arrived.
	refusedWait = time.Second
)

// call is a call from its headers to its end. gRPC passes a unary call to its handler together with its message, so a
// call that sends no message is detected here.
type call struct {
	conn    *Conn
	refused *session.LimitError // nil for a call that has a slot
	silent  *time.Timer
	spoken  bool // belongs to the goroutine that receives
}

type callKey struct{}

// tap counts a call that begins, or refuses it. gRPC calls it with locks of the call's connection held.
func (p *Port) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	c := &call{conn: ConnOf(ctx)}
	var evicted *slot
	if evicted, c.refused = p.limiter.beginCall(&c.conn.slot); evicted != nil {
		p.evict(evicted)
	}
	wait := FirstMessageWait
	if c.refused != nil {
		p.callsRefused.Add(1)
		wait = refusedWait
	}
	ctx, cancel := context.WithCancel(ctx)
	c.silent = time.AfterFunc(wait, cancel)
	if info.FullMethodName == wire.ConnectMethod {
		c.silent.Stop() // its handler already runs, and names the limit when it ends the stream
	}
	context.AfterFunc(ctx, func() {
		c.silent.Stop()
		if p.limiter.endCall(&c.conn.slot) {
			c.conn.quiet()
		}
		cancel()
	})
	return context.WithValue(ctx, callKey{}, c), nil
}

// callOf returns the call of a context, for its interceptor. A call that bypassed tap is not counted.
func callOf(ctx context.Context) *call {
	if c, ok := ctx.Value(callKey{}).(*call); ok {
		c.conn.complete(headerBytes(ctx))
		return c
	}
	return &call{conn: ConnOf(ctx), spoken: true}
}

// headerBytes returns the size of a call's headers on the wire. gRPC's streams have a method for this that is not part
// of their interface.
func headerBytes(ctx context.Context) int {
	if s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ HeaderWireLength() int }); ok {
		return s.HeaderWireLength()
	}
	return 0
}

// err returns why the call is refused: its connection has no slot, or the call has none.
func (c *call) err() error {
	switch {
	case c.conn.refused != nil:
		return c.conn.refused
	case c.refused != nil:
		return c.refused
	default:
		return nil
	}
}

// speaks records that a message has arrived.
func (c *call) speaks() {
	if !c.spoken {
		c.spoken = true
		c.silent.Stop()
	}
}
