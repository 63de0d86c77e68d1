package client

import (
	"context"
	"errors"
	"slices"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// unary makes a call at one endpoint after the other, with a back-off after each round, until one of them decides it or
// ctx ends; then the error wraps its cause and what stood in the way last.
func (c *Client) unary(ctx context.Context, call func(context.Context, *grpc.ClientConn) error) error {
	var trouble route.Failure
	for n := 1; ; n++ {
		if decided, err := c.round(ctx, &trouble, call); decided {
			return err
		}
		if !over(ctx) {
			trouble.Ended()
		}
		if slept := sleep(ctx, c.jitter.Wait(n, trouble.Last())); slept != nil {
			return errors.Join(slept, trouble.Last())
		}
	}
}

// round makes a call at one endpoint after the other, until one of them decides it or ctx ends. Undecided, the error is
// what stands in the way, which is noted.
func (c *Client) round(ctx context.Context, trouble *route.Failure,
	call func(context.Context, *grpc.ClientConn) error,
) (decided bool, err error) {
	for _, address := range c.endpoints() {
		err := c.attempt(ctx, address, call)
		if route.Judge(err) == route.Final {
			return true, err
		}
		if !over(ctx) || trouble.Last() == nil { // an attempt that ctx cut short says nothing of the node
			trouble.Met(err)
		}
		if over(ctx) {
			break
		}
	}
	return false, trouble.Last()
}

// over reports whether ctx has ended or its deadline has passed, which an attempt may find before the timer of ctx
// fires on a busy machine.
func over(ctx context.Context) bool {
	deadline, has := ctx.Deadline()
	return ctx.Err() != nil || has && time.Until(deadline) <= 0
}

// sleep waits for d, or returns the cause of ctx's end.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// endpoints returns the servers, the one that answered last first.
func (c *Client) endpoints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	addresses := slices.Clone(c.servers)
	if i := slices.Index(addresses, c.good); i > 0 {
		addresses[0], addresses[i] = addresses[i], addresses[0]
	}
	return addresses
}

// attempt makes a call at one node, for at most the connect timeout. The error is the domain's, [ErrUnreachable] when
// the node did not answer.
func (c *Client) attempt(ctx context.Context, address string,
	call func(context.Context, *grpc.ClientConn) error,
) error {
	cc, err := c.conn(address)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.ConnectTimeout)
	defer cancel()
	err = call(ctx, cc)
	if err == nil {
		c.mu.Lock()
		c.good = address
		c.mu.Unlock()
		return nil
	}
	domain := wire.Domain(err)
	switch code := status.Code(err); {
	case errors.Is(domain, session.ErrOutcomeUnknown), route.Judge(domain) == route.Final:
		return domain
	case code == codes.Unavailable && !answered(err):
		return route.Unreachable(address, errors.New(status.Convert(err).Message()))
	case code == codes.DeadlineExceeded, code == codes.Canceled:
		return route.Unreachable(address, route.ErrSlow)
	default:
		return domain
	}
}

// conn returns the connection to address, made at the first use.
func (c *Client) conn(address string) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, session.ErrClosed
	}
	cc := c.conns[address]
	if cc == nil {
		var err error
		if cc, err = dial.Client(address, dial.Options{
			Dial: c.cfg.Dial, Principal: c.cfg.Principal, Heard: func(state session.NodeState) {
				c.seen.note(state.Index)
			},
		}); err != nil {
			return nil, err
		}
		c.conns[address] = cc
	}
	return cc, nil
}
