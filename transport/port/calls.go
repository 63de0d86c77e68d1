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
	// FirstMessageWait is how long a call may say nothing.
	FirstMessageWait = 10 * time.Second
	// refusedWait is how long a call may say nothing that was refused: a unary one hears of that when its message is
	// there.
	refusedWait = time.Second
)

// inbound is a call under way, from its headers to its end. gRPC gives a unary call to its handler with its message
// only: what takes its time with that is seen here.
type inbound struct {
	wire    *Wire
	refused *session.LimitError // nil for a call that has a place
	silent  *time.Timer
	spoken  bool // it belongs to whoever receives
}

type callKey struct{}

// tap gives a call that begins a place. It is called with locks of the call's connection held.
func (p *Port) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	c := &inbound{wire: WireOf(ctx)}
	var evicted *Seat
	if evicted, c.refused = p.Crowd.Begin(&c.wire.Seat); evicted != nil {
		p.evict(evicted)
	}
	wait := FirstMessageWait
	if c.refused != nil {
		p.CallsRefused.Add(1)
		wait = refusedWait
	}
	ctx, cancel := context.WithCancel(ctx)
	c.silent = time.AfterFunc(wait, cancel)
	if info.FullMethodName == wire.ConnectMethod {
		c.silent.Stop() // its handler runs already, and says why it ends
	}
	context.AfterFunc(ctx, func() {
		c.silent.Stop()
		if p.Crowd.Finish(&c.wire.Seat) {
			c.wire.quiet()
		}
		cancel()
	})
	return context.WithValue(ctx, callKey{}, c), nil
}

// callOf returns the call of a context, for its interceptor; one that came over no port has none that is counted.
func callOf(ctx context.Context) *inbound {
	if c, ok := ctx.Value(callKey{}).(*inbound); ok {
		c.wire.Complete(headerBytes(ctx))
		return c
	}
	return &inbound{wire: WireOf(ctx), spoken: true}
}

// headerBytes returns how many bytes the headers of a call took on the wire: gRPC's streams tell, their interface does
// not.
func headerBytes(ctx context.Context) int {
	if s, ok := grpc.ServerTransportStreamFromContext(ctx).(interface{ HeaderWireLength() int }); ok {
		return s.HeaderWireLength()
	}
	return 0
}

// err returns why a call is refused: for want of a place, or of one for its connection.
func (c *inbound) err() error {
	switch {
	case c.wire.refused != nil:
		return c.wire.refused
	case c.refused != nil:
		return c.refused
	default:
		return nil
	}
}

// speaks notes that a message has come.
func (c *inbound) speaks() {
	if !c.spoken {
		c.spoken = true
		c.silent.Stop()
	}
}
