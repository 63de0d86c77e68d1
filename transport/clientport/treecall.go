package clientport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/session"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
	"holdfast/tree"
)

// treeCall is the connection of one call of TreeService.
type treeCall struct {
	conn       session.Connection
	tree       session.TreeConnection
	principals []tree.Principal
	// wake signals that there may be messages for the client. It has a buffer of one.
	wake chan struct{}
}

// newTreeCall makes a connection for a call, and waits for the tree of a new cluster (W8 feature level). The caller
// calls end.
func (s *sessionServer) newTreeCall(ctx context.Context) (*treeCall, error) {
	principals, err := ratelimit.PrincipalsOf(ctx, s.cfg.Super)
	if err != nil {
		return nil, err
	}
	conn, err := s.service.Connect(nil)
	if err != nil {
		return nil, err
	}
	c := &treeCall{conn: conn, principals: principals, wake: make(chan struct{}, 1)}
	c.tree = s.cfg.Audit.Supers(ctx, principals, conn.Tree(principals, func() {
		select {
		case c.wake <- struct{}{}:
		default:
		}
	}))
	return c, nil
}

// end ends the connection. A write in flight may still take effect.
func (c *treeCall) end() {
	c.tree.Close()
	c.conn.Disconnect()
}

// next waits for the next message to the client.
func (c *treeCall) next(ctx context.Context) (session.TreeMessage, error) {
	return c.nextUntil(ctx, nil)
}

// errTick says that ticks fired.
var errTick = errors.New("time to check")

// nextUntil is next, but returns errTick if ticks fires before there is a message.
func (c *treeCall) nextUntil(ctx context.Context, ticks <-chan time.Time) (session.TreeMessage, error) {
	for {
		if message, ok := c.tree.Next(time.Now()); ok {
			return message, nil
		}
		select {
		case <-c.wake:
		case <-ticks:
			return session.TreeMessage{}, errTick
		case <-ctx.Done():
			return session.TreeMessage{}, ctx.Err()
		}
	}
}

// answer waits for the answer to the call's only request.
func (c *treeCall) answer(ctx context.Context) (*session.TreeAnswer, error) {
	for {
		message, err := c.next(ctx)
		if err != nil || message.Answer != nil {
			return message.Answer, err
		}
	}
}

// read sends a read of the given size to the node, and waits for its answer.
func (c *treeCall) read(ctx context.Context, q tree.Query, bytes int) (tree.Answer, error) {
	if err := c.tree.Read(session.TreeRead{Key: 1, Query: q, Bytes: bytes}); err != nil {
		return tree.Answer{}, err
	}
	a, err := c.answer(ctx)
	switch {
	case err != nil:
		return tree.Answer{}, err
	case a.Err != nil:
		return tree.Answer{}, a.Err
	case a.Read == nil:
		return tree.Answer{}, errNoAnswer
	}
	found := *a.Read
	found.Stamp = a.Stamp
	return found, nil
}

// errNoAnswer says that the node's answer does not fit the request, which is a bug.
var errNoAnswer = errors.New("the node's answer is not one to the request")

// write sends a write to the node, and waits for its result. Once the node has the write, the end of ctx leaves the
// outcome unknown.
func (c *treeCall) write(ctx context.Context, w tree.NumberedWrite) (tree.Result, error) {
	if err := c.tree.Write(session.TreeWrite{Key: 1, Write: w, Trace: session.TraceOf(ctx)}); err != nil {
		return tree.Result{}, err
	}
	a, err := c.answer(ctx)
	switch {
	case err != nil:
		return tree.Result{}, fmt.Errorf("waiting for the result of write %d: %w: %w", w.Number,
			session.ErrOutcomeUnknown, err)
	case a.Err != nil:
		return tree.Result{}, a.Err
	case a.Wrote == nil:
		return tree.Result{}, errNoAnswer
	}
	return *a.Wrote, nil
}

// adopt attaches a session to the call, with a touch. It waits, within a bound, for a node that lags behind the token.
func (c *treeCall) adopt(ctx context.Context, t session.Token, wait time.Duration) (session.Token, error) {
	waits, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	adopted, err := c.tree.Adopt(waits, t)
	if err != nil && ctx.Err() == nil && waits.Err() != nil && errors.Is(err, waits.Err()) {
		return session.Token{}, session.ErrLagging
	}
	return adopted, err
}

// queuedBytes is the approximate memory of a queued request of the tree.
func queuedBytes(request proto.Message) int { return proto.Size(request) + port.RequestBytes }
