package client

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"google.golang.org/grpc"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

const (
	// betterWithin bounds what the other nodes are given to answer a read once a read-only node has: about two rounds
	// of a cluster as it is configured by default, so that one which hears of a leader does.
	betterWithin = time.Second
	// trustFor is how long reads go to a node that was read-only straight away, before the others are asked too.
	trustFor = 2 * time.Second
)

// readCall makes a read at one node, and returns what it shows and the state told with the answer.
type readCall[T any] func(context.Context, *grpc.ClientConn, session.ReadOptions) (T, *holdfastv1.NodeState, error)

// reading is a read that goes on until a node decides it.
type reading[T any] struct {
	c    *Client
	call readCall[T]
	last readAnswer[T]
	// kept is the best answer of a read-only node in this round.
	kept *readAnswer[T]
	// trouble is what stands in the way.
	trouble route.Failure
	// behind is the refusal of a node that was LAGGING.
	behind error
}

// readAnswer is what a node has answered, a refusal too.
type readAnswer[T any] struct {
	shown   T
	state   session.NodeState
	err     error
	address string
}

// read makes a read at the nodes, and returns what the node that answered was.
func read[T any](ctx context.Context, c *Client, call readCall[T]) (T, session.NodeState, error) {
	r := &reading[T]{c: c, call: call}
	var err error
	if c.cfg.ReadOnly {
		err = r.anywhere(ctx)
	} else {
		err = c.unary(ctx, r.ask)
	}
	if another(err) {
		_, err = c.searchHome(ctx, err, r.ask)
	}
	if r.behind != nil && err != nil && !route.Silent(err) && route.Judge(err) != route.Final &&
		!errors.Is(err, session.ErrLagging) {
		err = errors.Join(err, r.behind) // whatever the last node said
	}
	if errors.Is(err, session.ErrLagging) {
		err = fmt.Errorf("index %d was seen before: %w", c.seen.demand(), err)
	}
	if state := r.last.state; err != nil && !route.Silent(err) && state.Mode == session.ModeReadOnly &&
		!errors.Is(err, session.ErrReadOnly) {
		err = fmt.Errorf("%w: node %d knows the log up to index %d: %w", session.ErrReadOnly, state.Node, state.Index,
			err)
	}
	return r.last.shown, r.last.state, err
}

// ask asks one node, for nothing older than the client has seen (N4).
func (r *reading[T]) ask(ctx context.Context, cc *grpc.ClientConn) error {
	a := r.once(ctx, cc)
	if a.err == nil || answered(a.err) { // else what a node said before is the last that was heard
		r.last = a
	}
	r.noteBehind(wire.Domain(a.err))
	return a.err
}

func (r *reading[T]) noteBehind(err error) {
	if errors.Is(err, session.ErrLagging) {
		r.behind = err
	}
}

func (r *reading[T]) once(ctx context.Context, cc *grpc.ClientConn) readAnswer[T] {
	o := session.ReadOptions{AllowReadOnly: r.c.cfg.ReadOnly, Seen: r.c.seen.demand()}
	shown, p, err := r.call(ctx, cc, o)
	if err != nil {
		return readAnswer[T]{state: wire.StateOf(err), err: err}
	}
	a := readAnswer[T]{shown: shown, state: wire.StateFrom(p)}
	if one, ok := any(shown).(Found); !ok || !one.local() {
		a.err = notOlder(a.state, o.Seen)
	}
	return a
}

// anywhere is unary for a read that a read-only node may answer (N3).
func (r *reading[T]) anywhere(ctx context.Context) error {
	for n := 1; ; n++ {
		if first := r.c.trusted(); first != "" {
			// the others have their time too
			trying, cancel := context.WithTimeout(ctx, part(ctx, r.c.cfg.ConnectTimeout, 2))
			err := r.c.attempt(trying, first, r.ask)
			cancel()
			if route.Judge(err) == route.Final {
				return err
			}
			r.c.trust("")
		}
		if decided, err := r.round(ctx); decided {
			return err
		}
		if !over(ctx) {
			r.trouble.Ended()
		}
		if slept := sleep(ctx, r.c.jitter.Wait(n, r.trouble.Last())); slept != nil {
			return errors.Join(slept, r.trouble.Last())
		}
	}
}

// part returns a part of the time that ctx leaves, at most limit.
func part(ctx context.Context, limit time.Duration, of int) time.Duration {
	if deadline, has := ctx.Deadline(); has {
		limit = min(limit, time.Until(deadline)/time.Duration(of))
	}
	return limit
}

// round asks all nodes until one decides the read: each when the one before has answered, or has not within the hedge
// delay, which is shorter when there is little time. What a read-only node says decides for want of a better answer: it
// is kept until the others had their chance. Undecided, what stood in the way is noted.
func (r *reading[T]) round(ctx context.Context) (decided bool, err error) {
	servers := r.c.readFrom()
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	better := time.AfterFunc(time.Hour, cancel) // set when there is an answer to fall back on
	better.Stop()
	defer better.Stop()
	answers := make(chan readAnswer[T], len(servers))
	due := time.NewTimer(0)
	defer due.Stop()
	pace := part(ctx, r.c.cfg.HedgeDelay, len(servers)+1)
	r.kept = nil
	for asked, heard := 0, 0; heard < len(servers); {
		select {
		case <-due.C:
			address := servers[asked]
			go func() { answers <- r.at(asking, address) }()
			asked++
			due.Reset(pace)
		case a := <-answers:
			heard++
			due.Reset(0)
			first := r.kept == nil
			if r.decides(ctx, a) {
				return true, a.err
			}
			if first && r.kept != nil {
				better.Reset(part(ctx, betterWithin, 2))
			}
		}
		if asked == len(servers) {
			due.Stop()
		}
	}
	if r.kept == nil {
		return false, nil
	}
	r.c.trust(r.kept.address)
	r.last = *r.kept
	return true, r.last.err
}

// decides takes an answer, and reports whether no other is waited for.
func (r *reading[T]) decides(ctx context.Context, a readAnswer[T]) bool {
	r.noteBehind(a.err)
	switch {
	case route.Judge(a.err) != route.Final:
		if !over(ctx) || r.trouble.Last() == nil { // an attempt that ctx cut short says nothing of the node
			r.trouble.Met(a.err)
		}
	case a.state.Mode != session.ModeReadOnly:
		r.last = a
		return true
	case r.kept == nil || r.kept.state.Index < a.state.Index:
		r.kept = &a
	}
	return false
}

// at asks the node at address.
func (r *reading[T]) at(ctx context.Context, address string) readAnswer[T] {
	var a readAnswer[T]
	err := r.c.attempt(ctx, address, func(ctx context.Context, cc *grpc.ClientConn) error {
		a = r.once(ctx, cc)
		return a.err
	})
	a.address, a.err = address, err
	return a
}

// readFrom returns the servers, that of the session connection first: it is up.
func (c *Client) readFrom() []string {
	servers := c.endpoints()
	if at := c.occupancy.server.Load(); at != nil {
		if i := slices.Index(servers, *at); i > 0 {
			servers[0], servers[i] = servers[i], servers[0]
		}
	}
	return servers
}

// trusted returns the read-only node that answered a short while ago, empty for none.
func (c *Client) trusted() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.readOnly == "" || time.Since(c.readOnlyAt) >= trustFor {
		return ""
	}
	return c.readOnly
}

// trust has reads go to a node for a while, or nowhere in particular.
func (c *Client) trust(address string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readOnly, c.readOnlyAt = address, time.Now()
}
