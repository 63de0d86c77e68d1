package leader

import (
	"context"
	"errors"
	"strconv"

	"holdfast/session"
)

// requests handles the requests of learners. Safe for concurrent use.
type requests struct {
	cfg        *Config
	log        Log
	view       View
	term       *term
	heartbeats *heartbeats
	registry   *registry
	closer     *closer
	takeOvers  *takeOvers
	wall       *wallClock
	stats      *counters
	handlers   handlers
}

// arrives reports whether a request adds to the state. Such requests have their own slots on a stream, as their
// commands have in the log's queue. So however many of them wait, a resume, a close or a read of the same node finds a
// slot.
func arrives(r *session.Request) bool { return r.Open != nil || r.Upgrade != nil || r.Claim != nil }

// answered receives the reply to a request, or the domain error that refuses it, once. It does not block.
type answered func(session.Reply, error)

// serve handles the requests of a message in order, and sends the replies on s. Only a request that needs a good round
// costs a goroutine. serve refuses a request if all slots are in use.
func (q *requests) serve(ctx context.Context, s *stream, all []session.Request) {
	if !q.handlers.begin() {
		for i := range all {
			s.reply(session.Reply{Seq: all[i].Seq, Err: &session.NotLeaderError{}}, slot{})
		}
		return
	}
	defer q.handlers.end()
	ends := closes{requests: q}
	for i := range all {
		r := &all[i]
		if done := q.reserveSlot(s, r); done != nil {
			q.answer(ctx, s.hello.Node, r, &ends, done)
		}
	}
	ends.submit()
}

// reserveSlot reserves a slot for a request, and returns the function that queues the reply and frees the slot; nil if
// the request was refused.
func (q *requests) reserveSlot(s *stream, r *session.Request) answered {
	name, p, limit := "requests_per_stream", slot{of: &s.others, n: 1}, int32(maxRequests)
	switch {
	case arrives(r):
		name, p.of = "opens_per_stream", &s.arrivals
	case r.Resumes != nil:
		name, p, limit = "moves_per_stream", slot{of: &s.moving, n: int32(len(r.Resumes.Sessions))}, maxMoving
	}
	seq := r.Seq
	if p.of.Add(p.n) > limit {
		p.release()
		s.reply(session.Reply{Seq: seq, Err: &session.LimitError{
			Name: name, Limit: strconv.Itoa(int(limit)), RetryAfter: session.BusyRetryAfter,
		}}, slot{})
		return nil
	}
	return func(reply session.Reply, err error) {
		reply.Seq, reply.Err = seq, err
		if errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrMoved) {
			// The learner answers its client after it has applied the end or the move too (N4 seen index), an end with
			// its certificate.
			reply.Index = q.view.CommitIndex()
		}
		s.reply(reply, p)
	}
}

// answer handles a request of a node. It adds closes to ends. The error is a domain error.
func (q *requests) answer(ctx context.Context, node session.Node, r *session.Request, ends *closes, done answered) {
	switch {
	case r.Open != nil:
		q.open(node, r.Open, done)
	case r.Resume != nil:
		q.resume(ctx, node, r.Resume, done)
	case r.Close != nil:
		q.close(ctx, r.Close, ends, done)
	case r.Read != nil:
		q.wait(done, func() { done(q.readIndex(ctx, r.Read)) })
	case r.Claim != nil:
		q.claim(node, r.Claim, done)
	case r.Upgrade != nil:
		q.upgrade(node, r.Upgrade, done)
	case r.Resumes != nil:
		q.resumes(node, r.Resumes, done)
	case r.Explain != 0:
		q.wait(done, func() { done(q.explain(ctx, r.Explain)) })
	case r.Kill != nil:
		q.kill(ctx, r.Kill, done)
	case r.Freeze != nil:
		q.freeze(r.Freeze, done)
	case r.Extend != nil:
		q.extend(r.Extend, done)
	case r.Soonest != nil:
		q.wait(done, func() { done(q.soonest(ctx, r.Soonest)) })
	case r.Release != nil:
		q.takeOvers.recent.Release(r.Release...)
		done(session.Reply{}, nil)
	default:
		done(session.Reply{}, &session.FieldError{
			Field: "request",
			Limit: "one of open, resume, close, read, claim, upgrade, resumes, explain, kill, freeze, extend, soonest and release",
		})
	}
}

// wait runs f in a goroutine. f waits for a good round and then calls done.
func (q *requests) wait(done answered, f func()) {
	if !q.handlers.start(f) {
		done(session.Reply{}, &session.NotLeaderError{})
	}
}

// propose proposes a command whose result is a session or a block of ids.
func (q *requests) propose(c session.Command, done answered) {
	q.log.Submit(c, q.replyWith(done))
}

// replyWith returns a function that calls done with the result of a command.
func (q *requests) replyWith(done answered) func(session.Result, error) {
	return func(result session.Result, err error) {
		if err == nil {
			err = q.decided(&result)
		}
		if err != nil {
			done(session.Reply{}, err)
			return
		}
		done(session.Reply{
			Term: result.Term, Index: result.Index, Session: result.Session, Repeated: result.Repeated,
			First: result.First,
		}, nil)
	}
}

// decided returns the caller's error for a result. Only the leader of the entry's own term, while it is in this term,
// may report the effect of an entry (M3 served in the leader's term).
func (q *requests) decided(result *session.Result) error {
	if result.Term != q.term.number || !q.term.current() {
		return session.ErrOutcomeUnknown
	}
	return result.Err
}

// authentic returns the session of a token if the token's credential is valid. For a local token of a session that this
// node's state does not show, it returns neither a session nor an error.
func (q *requests) authentic(token *session.Token) (one session.Session, shown bool, err error) {
	if !q.view.Verify(token.ID, token.Credential) {
		return session.Session{}, false, session.ErrBadCredential
	}
	// The attachment is read first. If the state had reached the token's attachment by then and does not have the
	// session, the session has ended. A deposed leader that does not know so yet may lag behind (M5 lagging, not
	// expired).
	applied := q.view.Attachment()
	one, ok := q.view.Session(token.ID)
	switch {
	case ok:
		return one, true, nil
	case token.Local:
		return session.Session{}, false, nil
	case token.Attachment > applied:
		return session.Session{}, false, session.ErrLagging
	default:
		return session.Session{}, false, &session.ExpiredError{ID: token.ID}
	}
}

// madeGlobal looks up the session of a local token once more. The attachment of a local token does not show how far
// this node's state should be. Only a good round that began after the first look-up proves that the session is not
// global (M5).
func (q *requests) madeGlobal(ctx context.Context, id session.ID) (session.Session, error) {
	if err := q.heartbeats.await(ctx); err != nil {
		return session.Session{}, readError(err)
	}
	if one, ok := q.view.Session(id); ok {
		return one, nil
	}
	return session.Session{}, &session.ExpiredError{ID: id}
}
