package unary

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc"

	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// BetterWithin bounds the time that the other nodes get for an answer after a read-only node has answered a read. It is
// about two rounds of a cluster with the default configuration: enough for a node that knows a leader.
const BetterWithin = time.Second

// Query makes a read at one node.
type Query[T any] func(context.Context, *grpc.ClientConn, session.ReadOptions) (Answer[T], error)

// Answer is the answer of one node to a [Query].
type Answer[T any] struct {
	Shown T
	// State is the state that the node reported with the answer.
	State *holdfastv1.NodeState
	// Local reports whether Shown is about a local session. Its node alone decides about the session, so Shown is never
	// too old, at any index of the node (N4 seen index).
	Local bool
}

// Read makes a read at the nodes, and returns the result and the state of its node at this moment. When
// [Config].ReadOnly allows it, the answer of a read-only node decides if no other node decides. When a node answers
// that a session is another node's, Read asks all nodes. No answer is older than [Config].Demand (N4).
func Read[T any](ctx context.Context, n *Nodes, query Query[T]) (T, session.NodeState, error) {
	r := &reading[T]{nodes: n, query: query}
	var err error
	if n.cfg.ReadOnly {
		err = r.anywhere(ctx)
	} else {
		err = n.Any(ctx, r.ask)
	}
	if NotHome(err) {
		_, err = n.searchHome(ctx, err, r.ask)
	}
	return r.last.shown, r.last.state, r.explain(err)
}

// reading is a read that continues until a node decides it.
type reading[T any] struct {
	nodes *Nodes
	query Query[T]
	last  answer[T]
	// fallback is the best answer of a read-only node in this round.
	fallback *answer[T]
	trouble  route.Failure
	// behind is the refusal of a node that was LAGGING.
	behind error
}

// answer is the answer of one node, possibly a refusal.
type answer[T any] struct {
	shown   T
	state   session.NodeState
	err     error
	address string
}

// explain adds the other obstacles to the error of a read: nodes that were LAGGING, or a read-only node.
func (r *reading[T]) explain(err error) error {
	if r.behind != nil && err != nil && !route.Silent(err) && route.Classify(err) != route.Final &&
		!errors.Is(err, session.ErrLagging) {
		err = errors.Join(err, r.behind) // whatever the last node answered
	}
	if errors.Is(err, session.ErrLagging) {
		err = fmt.Errorf("index %d was seen before: %w", r.nodes.cfg.Demand(), err)
	}
	if state := r.last.state; err != nil && !route.Silent(err) && state.Mode == session.ModeReadOnly &&
		!errors.Is(err, session.ErrReadOnly) {
		err = fmt.Errorf("%w: node %d knows the log up to index %d: %w", session.ErrReadOnly, state.Node, state.Index,
			err)
	}
	return err
}

// ask asks one node.
func (r *reading[T]) ask(ctx context.Context, cc *grpc.ClientConn) error {
	a := r.once(ctx, cc)
	if a.err == nil || answered(a.err) { // otherwise the answer of the node before is the last one
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

// once makes the query at one node, and refuses an answer that is older than demanded (N4).
func (r *reading[T]) once(ctx context.Context, cc *grpc.ClientConn) answer[T] {
	o := session.ReadOptions{AllowReadOnly: r.nodes.cfg.ReadOnly, Seen: r.nodes.cfg.Demand()}
	got, err := r.query(ctx, cc, o)
	if err != nil {
		return answer[T]{state: wire.StateOf(err), err: err}
	}
	a := answer[T]{shown: got.Shown, state: wire.StateFrom(got.State)}
	if !got.Local {
		a.err = notOlder(a.state, o.Seen)
	}
	return a
}

// notOlder refuses an answer from an older state than demanded, whatever the node's reason (N4).
func notOlder(state session.NodeState, demanded uint64) error {
	if state.Index >= demanded {
		return nil
	}
	return fmt.Errorf("node %d shows index %d, and %d was seen before: %w", state.Node, state.Index, demanded,
		session.ErrLagging)
}

// anywhere is [Nodes.Any] for reads that a read-only node may answer (N3 stale reads). It asks the trusted read-only
// node before the others.
func (r *reading[T]) anywhere(ctx context.Context) error {
	began := time.Now()
	for nth := 1; ; nth++ {
		if first := r.nodes.trustedNode(); first != "" {
			trying, cancel := context.WithTimeout(ctx, part(ctx, r.nodes.cfg.Attempt, 2)) // leaves time for the others
			err := r.nodes.at(trying, first, r.ask)
			cancel()
			if route.Classify(err) == route.Final {
				return err
			}
			r.nodes.distrust()
		}
		servers := startingWith(r.nodes.cfg.Connected(), r.nodes.Order()) // the session connection is up
		decided, err := r.round(ctx, servers)
		if others := r.nodes.others(); !decided && len(others) > 0 && !Over(ctx) && r.nodes.triesOthers(began, &r.trouble) {
			decided, err = r.round(ctx, others)
		}
		if decided {
			return err
		}
		if err := r.nodes.backOff(ctx, nth, &r.trouble); err != nil {
			return err
		}
	}
}

// part returns the time left in ctx divided by parts, at most limit.
func part(ctx context.Context, limit time.Duration, parts int) time.Duration {
	if deadline, has := ctx.Deadline(); has {
		limit = min(limit, time.Until(deadline)/time.Duration(parts))
	}
	return limit
}

// round asks servers until a server decides the read. It asks the next server when the previous server has answered, or
// has not answered within the hedge delay, which is shorter when little time is left. It keeps the answer of a
// read-only node, which decides if no other server does within [BetterWithin]. An undecided round records its
// obstacles.
func (r *reading[T]) round(ctx context.Context, servers []string) (decided bool, err error) {
	asking, cancel := context.WithCancel(ctx)
	defer cancel()
	better := time.AfterFunc(time.Hour, cancel) // set once there is an answer to fall back on
	better.Stop()
	defer better.Stop()
	answers := make(chan answer[T], len(servers))
	due := time.NewTimer(0)
	defer due.Stop()
	pace := part(ctx, r.nodes.cfg.Hedge, len(servers)+1)
	r.fallback = nil
	for started, answered := 0, 0; answered < len(servers); {
		select {
		case <-due.C:
			address := servers[started]
			go func() { answers <- r.at(asking, address) }()
			started++
			due.Reset(pace)
		case a := <-answers:
			answered++
			due.Reset(0)
			first := r.fallback == nil
			if r.decides(ctx, a) {
				return true, a.err
			}
			if first && r.fallback != nil {
				better.Reset(part(ctx, BetterWithin, 2))
			}
		}
		if started == len(servers) {
			due.Stop()
		}
	}
	if r.fallback == nil {
		return false, nil
	}
	r.nodes.trust(r.fallback.address)
	r.last = *r.fallback
	return true, r.last.err
}

// decides processes an answer, and reports whether it ends the round.
func (r *reading[T]) decides(ctx context.Context, a answer[T]) bool {
	r.noteBehind(a.err)
	switch {
	case route.Classify(a.err) != route.Final:
		if !Over(ctx) || r.trouble.Last() == nil { // an attempt that ctx cut short says nothing of the node
			r.trouble.Met(a.err)
		}
	case a.state.Mode != session.ModeReadOnly:
		r.last = a
		return true
	case r.fallback == nil || r.fallback.state.Index < a.state.Index:
		r.fallback = &a
	}
	return false
}

// at asks the node at address.
func (r *reading[T]) at(ctx context.Context, address string) answer[T] {
	var a answer[T]
	err := r.nodes.at(ctx, address, func(ctx context.Context, cc *grpc.ClientConn) error {
		a = r.once(ctx, cc)
		return a.err
	})
	a.address, a.err = address, err
	return a
}
