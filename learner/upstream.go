package learner

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"holdfast/session"
)

// upstream sends requests to the leader, through the relay of the present stream. Safe for concurrent use.
type upstream struct {
	standing *standing
	// forwards says that this node has had writes to send.
	forwards atomic.Bool

	mu sync.Mutex
	// relay is nil while no leader is followed. guarded by mu
	relay *relay
}

// use sends requests through r from now on; nil: there is no leader.
func (u *upstream) use(r *relay) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.relay = r
	u.standing.follows.Store(r != nil)
}

// current returns the relay of the present stream, nil without a leader.
func (u *upstream) current() *relay {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.relay
}

// submit sends a request to the leader, and tells done what came of it. A read-only node asks for reads only:
// session.ErrReadOnly says that nothing was done (N2).
func (u *upstream) submit(request session.Request, done onReply) {
	r, err := u.way(request)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	r.calls.submit(request, done)
}

// ask sends a request to the leader and returns the reply. Its errors are those of submit, and ctx's while nothing was
// asked.
func (u *upstream) ask(ctx context.Context, request session.Request) (session.Reply, error) {
	return u.askFor(ctx, request, nil)
}

// askFor is ask of a request whose reply late is told when ctx has ended before it comes.
func (u *upstream) askFor(ctx context.Context, request session.Request, late onReply) (session.Reply, error) {
	r, err := u.way(request)
	if err != nil {
		return session.Reply{}, err
	}
	request.Trace = session.TraceOf(ctx)
	return r.calls.do(ctx, request, late)
}

// way returns the relay that takes a request.
func (u *upstream) way(request session.Request) (*relay, error) {
	r := u.current()
	switch {
	case u.standing.stopping.Load():
		return nil, session.ErrStopping
	case u.standing.drain.on() && takesOn(&request):
		return nil, u.standing.drain.refusal()
	case request.Read == nil && request.Explain == 0 && u.standing.readOnly():
		return nil, session.ErrReadOnly
	case r == nil:
		return nil, session.ErrNoLeader
	}
	return r, nil
}

// claim claims a block of ids for node, and returns the first (O3).
func (u *upstream) claim(ctx context.Context, node session.Node, r session.ClaimRequest) (session.ID, error) {
	reply, err := u.ask(ctx, session.Request{Claim: &r})
	if err != nil {
		return 0, err
	}
	if reply.First.Node() != node {
		return 0, fmt.Errorf("%w: claim of ids for node %d: got %v, an id of another node", errProtocol, node,
			reply.First)
	}
	return reply.First, nil
}
