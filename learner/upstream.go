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
	modeFacts *modeFacts
	// forwards says that this node has had writes to send, so that it opens a stream for writes to each leader.
	forwards atomic.Bool

	mu sync.Mutex
	// relay is nil while there is no leader. guarded by mu
	relay *relay
}

// use makes requests go through r from now on; nil means that there is no leader.
func (u *upstream) use(r *relay) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.relay = r
	u.modeFacts.follows.Store(r != nil)
}

// current returns the relay of the present stream, nil without a leader.
func (u *upstream) current() *relay {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.relay
}

// submit sends a request to the leader, and passes the outcome to done. A read-only node sends reads only:
// session.ErrReadOnly means that nothing was done (N2 read-only refusals).
func (u *upstream) submit(request session.Request, done onReply) {
	r, err := u.relayFor(request)
	if err != nil {
		done(session.Reply{}, err)
		return
	}
	r.calls.submit(request, done)
}

// ask sends a request to the leader and returns the reply. Its errors are those of submit, and ctx's error if the
// request was not sent.
func (u *upstream) ask(ctx context.Context, request session.Request) (session.Reply, error) {
	return u.askFor(ctx, request, nil)
}

// askFor asks like ask; if ctx ends before the reply arrives, late gets the reply.
func (u *upstream) askFor(ctx context.Context, request session.Request, late onReply) (session.Reply, error) {
	r, err := u.relayFor(request)
	if err != nil {
		return session.Reply{}, err
	}
	request.Trace = session.TraceOf(ctx)
	return r.calls.do(ctx, request, late)
}

// relayFor returns the relay for a request.
func (u *upstream) relayFor(request session.Request) (*relay, error) {
	r := u.current()
	switch {
	case u.modeFacts.stopping.Load():
		return nil, session.ErrStopping
	case u.modeFacts.drain.on() && bringsSession(&request):
		return nil, u.modeFacts.drain.refusal()
	case request.Read == nil && request.Explain == 0 && u.modeFacts.readOnly():
		return nil, session.ErrReadOnly
	case r == nil:
		return nil, session.ErrNoLeader
	}
	return r, nil
}

// claim claims a block of ids for node, and returns the first (O3 id blocks).
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
