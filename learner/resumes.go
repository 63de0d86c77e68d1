package learner

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"holdfast/session"
)

// resuming is a request to resume many sessions on its way to the leader and back. As with leaderRequest, no goroutine
// waits for it. All its sessions share one request, one wait for this node's state, and one answer.
//
//	StartResumes --> [seen: park] --> upstream --> replied --> applyQueue (M3) --> grants --> done
type resuming struct {
	conn *connection
	// request has the sessions to ask the leader for, and at their positions in outcomes.
	request session.ResumesRequest
	at      []int
	// received is the moment at which the request was sent to the leader, which is not before it arrived.
	received time.Duration
	outcomes []session.Resumed
	done     func([]session.Resumed)

	// answered is set once moved has the leader's answer.
	answered bool
	moved    []session.MoveResult
}

// StartResumes begins to resume many global sessions. See session.Connection.
func (c *connection) StartResumes(r session.ResumesRequest, done func([]session.Resumed)) {
	b := &resuming{
		conn: c, request: r, at: make([]int, 0, len(r.Sessions)), done: done,
		outcomes: make([]session.Resumed, len(r.Sessions)),
	}
	b.request.Sessions = make([]session.Resuming, 0, len(r.Sessions))
	waits := c.server.view.AppliedIndex() < r.Seen
	for i := range r.Sessions {
		one := &r.Sessions[i]
		if c.server.local.Has(one.ID) {
			// The token says that the session is global, but this node's state does not show it yet (M5 lagging, not
			// expired), perhaps because its upgrade runs here. The other sessions do not wait for that (M1 a resume is
			// a move).
			b.refuse(i, session.ErrLagging)
			continue
		}
		if waits { // only the holder of a session has seen an index
			if err := c.server.registry.authentic(one.Token()); errors.Is(err, session.ErrBadCredential) {
				b.refuse(i, err)
				continue
			}
		}
		b.request.Sessions = append(b.request.Sessions, *one)
		b.at = append(b.at, i)
	}
	s := c.server
	switch {
	case len(b.at) == 0:
		b.done(b.outcomes)
	case !waits:
		b.ask()
	case s.modeFacts.readOnly(): // before the wait, which would end in the same refusal (N2 read-only refusals)
		b.refuseAll(session.ErrReadOnly)
	default:
		c.park(r.Seen, b) // N4
	}
}

func (b *resuming) refuse(i int, err error) { b.outcomes[i] = session.Resumed{SafeFor: -1, Err: err} }

// refuseAll refuses all sessions without an outcome, and answers the request. It releases the sessions that have moved
// here.
func (b *resuming) refuseAll(err error) {
	var all []session.Release
	for n := range b.moved {
		if b.moved[n].Err == nil {
			all = append(all, session.Release{ID: b.request.Sessions[n].ID, Attachment: b.moved[n].Attachment})
		}
	}
	for part := range slices.Chunk(all, session.MaxReleases) {
		b.conn.server.sendReleases(part)
	}
	for _, i := range b.at {
		b.refuse(i, err)
	}
	b.done(b.outcomes)
}

// ask sends the request to the leader.
func (b *resuming) ask() {
	s := b.conn.server
	b.received = s.clock.checkedNow()
	request := session.Request{Resumes: &b.request, Trace: b.request.Trace}
	r, err := s.upstream.relayFor(request)
	if err != nil {
		b.refuseAll(err)
		return
	}
	r.calls.submit(request, b.replied)
}

// replied receives the leader's reply. Its effect is shown once this node has applied the entry too (M3 served in the
// leader's term, N4 seen index).
func (b *resuming) replied(reply session.Reply, refusal error) {
	switch {
	case refusal != nil:
		b.refuseAll(refusal)
	case len(reply.Moved) != len(b.at):
		b.refuseAll(fmt.Errorf("%w: %w: resume %d sessions: the reply has %d", session.ErrOutcomeUnknown, errProtocol,
			len(b.at), len(reply.Moved)))
	default:
		b.answered, b.moved = true, reply.Moved
		b.conn.server.wait.queue.after(reply.Index, b)
	}
}

// applied continues a request whose wait is over.
func (b *resuming) applied(behind error) {
	step := b.outcome
	if !b.answered {
		step = b.ask // this node has applied the index that the client has seen
	}
	if behind == nil {
		behind = guarded(step)
	}
	if behind != nil {
		b.refuseAll(behind)
	}
}

// outcome answers the request. This node has applied the reply's index.
func (b *resuming) outcome() {
	c := b.conn
	if c.over.Load() {
		// The client repeats the request over another connection, which then serves the sessions.
		b.refuseAll(fmt.Errorf("%w: the connection ended", session.ErrOutcomeUnknown))
		return
	}
	s := c.server
	confirmed := mark{tag: s.table.nextTag(), at: b.received}
	now := s.clock.checkedNow()
	if s.clock.stalls.suspendedSince(b.received) {
		confirmed = mark{}
	}
	granted := make([]*attached, 0, len(b.at))
	for n, i := range b.at {
		var a *attached
		var err error
		// a panic affects its own session only, because others are already served
		if panicked := guarded(func() { a, err = b.serve(n, confirmed, now) }); panicked != nil {
			err = panicked
		}
		if err != nil {
			b.refuse(i, err)
			continue
		}
		granted = append(granted, a)
	}
	c.addAll(granted)
	b.done(b.outcomes)
}

// serve serves the n-th session if it has moved, otherwise returns why not.
func (b *resuming) serve(n int, confirmed mark, now time.Duration) (*attached, error) {
	s, one, asked := b.conn.server, &b.moved[n], &b.request.Sessions[n]
	if one.Err != nil {
		return nil, s.registry.explained(one.Err, asked.Token())
	}
	if one.Repeated {
		confirmed = mark{} // a repeat confirms no touch (S2 opens and moves are touches)
	}
	a, err := s.attachMoved(asked.ID, one.Attachment, b.conn, confirmed, now)
	if err != nil {
		return nil, err
	}
	outcome := session.Resumed{Attachment: one.Attachment, SafeFor: -1}
	outcome.Applied, outcome.Floor = a.conn.server.tree.Numbers(asked.ID)
	if confirmed.tag != 0 {
		// The client counts from the moment when it sent the request, so the full promise is safe (S3 with k = r).
		outcome.SafeFor = session.SafeFor(a.timeout(), 0)
	}
	b.outcomes[b.at[n]] = outcome
	return a, nil
}

// attachMoved serves the attachment of a session moved here, unless the state has a newer attachment or the end of the
// session.
func (s *Server) attachMoved(id session.ID, attachment uint64, c *connection, confirmed mark,
	now time.Duration,
) (*attached, error) {
	current, ok := s.view.Session(id)
	switch {
	case !ok:
		return nil, s.registry.gone(id)
	case current.Attachment != attachment || current.Owner != s.cfg.Node:
		return nil, session.MovedTo(current)
	}
	return s.attach(current, c, confirmed, now)
}
