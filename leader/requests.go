package leader

import (
	"context"
	"errors"
	"strconv"

	"holdfast/session"
)

// requests answers what learners ask of the leader. Safe for concurrent use.
type requests struct {
	cfg        *Config
	log        Log
	view       View
	term       *term
	heartbeats *heartbeats
	registry   *registry
	closer     *closer
	wall       *wallClock
	stats      *counters
	handlers   handlers
}

// arrives reports whether a request adds to the state. Such requests have slots of their own on a stream, as their
// commands have in the log's queue: however many of them wait, a resume, a close or a read of the same node finds a
// slot.
func arrives(r *session.Request) bool { return r.Open != nil || r.Upgrade != nil || r.Claim != nil }

// serve starts the handling of a request, whose reply is sent on s. It refuses the request if all slots are taken.
func (q *requests) serve(ctx context.Context, s *stream, r *session.Request) {
	refuse := func(err error) { s.reply(&session.Reply{Seq: r.Seq, Err: err}) }
	name, slots := "requests_per_stream", &s.others
	if arrives(r) {
		name, slots = "opens_per_stream", &s.arrivals
	}
	if slots.Add(1) > maxRequests {
		slots.Add(-1)
		refuse(&session.LimitError{Name: name, Limit: strconv.Itoa(maxRequests), RetryAfter: session.BusyRetryAfter})
		return
	}
	started := q.handlers.start(func() {
		defer slots.Add(-1)
		reply, err := q.answer(ctx, s.hello.Node, r)
		reply.Seq, reply.Err = r.Seq, err
		if errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrMoved) {
			// The learner tells its client once it has applied the end or the move too (N4), an end with its
			// certificate.
			reply.Index = q.view.CommitIndex()
		}
		s.reply(&reply)
	})
	if !started {
		slots.Add(-1)
		refuse(&session.NotLeaderError{})
	}
}

// answer handles a request of a node. The error is a domain error.
func (q *requests) answer(ctx context.Context, node session.Node, r *session.Request) (session.Reply, error) {
	switch {
	case r.Open != nil:
		return q.open(ctx, node, r.Open)
	case r.Resume != nil:
		return q.resume(ctx, node, r.Resume)
	case r.Close != nil:
		return q.close(ctx, r.Close)
	case r.Read != nil:
		return q.readIndex(ctx, r.Read)
	case r.Claim != nil:
		return q.claim(ctx, node, r.Claim)
	case r.Upgrade != nil:
		return q.upgrade(ctx, node, r.Upgrade)
	default:
		return session.Reply{}, &session.FieldError{
			Field: "request", Limit: "one of open, resume, close, read, claim and upgrade",
		}
	}
}

// propose proposes a command whose result is a session or a block of ids.
func (q *requests) propose(ctx context.Context, c session.Command) (session.Reply, error) {
	result, err := q.log.Propose(ctx, c)
	if err == nil {
		err = q.decided(&result)
	}
	if err != nil {
		return session.Reply{}, err
	}
	return session.Reply{
		Term: result.Term, Index: result.Index, Session: result.Session, Repeated: result.Repeated, First: result.First,
	}, nil
}

// decided returns what a result means to the caller. Only the leader of the entry's own term, while it is in that term,
// says what an entry did (M3).
func (q *requests) decided(result *session.Result) error {
	if result.Term != q.term.number || !q.term.current() {
		return session.ErrOutcomeUnknown
	}
	return result.Err
}

// authentic returns the session that a token names, if the token's credential is the session's.
func (q *requests) authentic(ctx context.Context, token *session.Token) (session.Session, error) {
	if !q.view.Verify(token.ID, token.Credential) {
		return session.Session{}, session.ErrBadCredential
	}
	// The attachment is read first. If the state had reached the token's attachment by then and does not hold the
	// session, the session has ended. A leader that does not know yet that it was deposed may be behind (M5).
	applied := q.view.Attachment()
	one, ok := q.view.Session(token.ID)
	switch {
	case ok:
		return one, nil
	case token.Local:
		return q.madeGlobal(ctx, token.ID)
	case token.Attachment > applied:
		return session.Session{}, session.ErrLagging
	default:
		return session.Session{}, &session.ExpiredError{ID: token.ID}
	}
}

// madeGlobal looks again for a session whose token is local. The attachment of such a token does not say how far this
// node's state should be. Only a good round that began after the first look proves that the session is not global (M5).
func (q *requests) madeGlobal(ctx context.Context, id session.ID) (session.Session, error) {
	if err := q.heartbeats.await(ctx); err != nil {
		return session.Session{}, readError(err)
	}
	if one, ok := q.view.Session(id); ok {
		return one, nil
	}
	return session.Session{}, &session.ExpiredError{ID: id}
}

// logVersion returns the newest form of log entries that every member reads, see [Tracker.LogVersion].
func (q *requests) logVersion() uint32 {
	if q.cfg.Written() >= session.LogVersion {
		return session.LogVersion
	}
	return q.heartbeats.logVersion()
}
