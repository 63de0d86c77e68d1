package clientport

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/transport/port"
	"holdfast/tree"
)

// treeCall is the connection of one call of TreeService.
type treeCall struct {
	conn       session.Connection
	tree       session.TreeConnection
	principals []tree.Principal
	// wake tells that there may be something to tell. It has a buffer of one.
	wake chan struct{}
}

// newTreeCall begins a connection for a call, which waits for the tree of a new cluster (W8). The caller calls end.
func (s *sessionServer) newTreeCall(ctx context.Context) (*treeCall, error) {
	principals, err := gate.PrincipalsOf(ctx, s.cfg.Super)
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

// end ends the connection. A write under way may still take effect.
func (c *treeCall) end() {
	c.tree.Close()
	c.conn.Disconnect()
}

// next waits for the next thing to tell the client.
func (c *treeCall) next(ctx context.Context) (session.TreeTold, error) { return c.nextUntil(ctx, nil) }

// errLook says that it is time for something else than to tell the client.
var errLook = errors.New("time to look")

// nextUntil is next, and returns errLook if look ticks before there is anything.
func (c *treeCall) nextUntil(ctx context.Context, look <-chan time.Time) (session.TreeTold, error) {
	for {
		if told, ok := c.tree.Next(time.Now()); ok {
			return told, nil
		}
		select {
		case <-c.wake:
		case <-look:
			return session.TreeTold{}, errLook
		case <-ctx.Done():
			return session.TreeTold{}, ctx.Err()
		}
	}
}

// answer waits for the answer to the call's only request.
func (c *treeCall) answer(ctx context.Context) (*session.TreeAnswer, error) {
	for {
		told, err := c.next(ctx)
		if err != nil || told.Answer != nil {
			return told.Answer, err
		}
	}
}

// read asks for a read of so many bytes, and waits for its answer.
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

// errNoAnswer says that the node's answer is not one to the request, which is a fault of the program.
var errNoAnswer = errors.New("the node's answer is not one to the request")

// write asks for a write of a session, and waits for its result. Once the node has the write, the end of ctx leaves the
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

// adopt takes a session for the call, with a touch. It waits for a node that lags behind the token, but not for long.
func (c *treeCall) adopt(ctx context.Context, t session.Token, wait time.Duration) (session.Token, error) {
	waits, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	adopted, err := c.tree.Adopt(waits, t)
	if err != nil && ctx.Err() == nil && waits.Err() != nil && errors.Is(err, waits.Err()) {
		return session.Token{}, session.ErrLagging
	}
	return adopted, err
}

// queuedBytes is about what a request of the tree takes while it waits.
func queuedBytes(request proto.Message) int { return proto.Size(request) + port.RequestBytes }
