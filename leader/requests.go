package leader

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"holdfast/session"
)

// arrives reports whether a request adds to the state. Such requests have places of their own on a stream, as their
// commands have in the log's queue: however many of them wait, a resume, a close and a read of the same node find a
// place.
func arrives(r *session.Request) bool { return r.Open != nil || r.Upgrade != nil || r.Claim != nil }

// serve has a request handled beside the stream; its reply goes out on it.
func (t *Tracker) serve(ctx context.Context, s *stream, r *session.Request) {
	refuse := func(err error) { s.reply(&session.Reply{Seq: r.Seq, Err: err}) }
	name, places := "requests_per_stream", &s.others
	if arrives(r) {
		name, places = "opens_per_stream", &s.arrivals
	}
	if places.Add(1) > maxRequests {
		places.Add(-1)
		refuse(&session.LimitError{Name: name, Limit: strconv.Itoa(maxRequests), RetryAfter: session.BusyRetryAfter})
		return
	}
	started := t.handle(func() {
		defer places.Add(-1)
		reply, err := t.answer(ctx, s.hello.Node, r)
		reply.Seq, reply.Err = r.Seq, err
		if errors.Is(err, session.ErrExpired) || errors.Is(err, session.ErrMoved) {
			// The learner tells it once it has applied the end or the move too (N4), an end with its certificate.
			reply.Index = t.view.CommitIndex()
		}
		s.reply(&reply)
	})
	if !started {
		places.Add(-1)
		refuse(&session.NotLeaderError{})
	}
}

// answer handles a request of a node. The error is a domain error.
func (t *Tracker) answer(ctx context.Context, node session.Node, r *session.Request) (session.Reply, error) {
	switch {
	case r.Open != nil:
		return t.open(ctx, node, r.Open)
	case r.Resume != nil:
		return t.resume(ctx, node, r.Resume)
	case r.Close != nil:
		return t.closeOne(ctx, r.Close)
	case r.Read != nil:
		return t.readIndex(ctx, r.Read)
	case r.Claim != nil:
		return t.claim(ctx, node, r.Claim)
	case r.Upgrade != nil:
		return t.upgrade(ctx, node, r.Upgrade)
	default:
		return session.Reply{}, &session.FieldError{
			Field: "request", Limit: "one of open, resume, close, read, claim and upgrade",
		}
	}
}

// open proposes a session for the node that took the open.
func (t *Tracker) open(ctx context.Context, node session.Node, r *session.OpenRequest) (session.Reply, error) {
	timeout, err := t.cfg.Limits.Negotiate(r.Timeout)
	if err != nil {
		return session.Reply{}, err
	}
	if err = r.Labels.Check(); err != nil {
		return session.Reply{}, err
	}
	ms, err := t.timeOf(node, r.MS)
	if err != nil {
		return session.Reply{}, err
	}
	return t.add(ctx, session.OpenSession{
		Node: node, MS: ms, Timeout: timeout, Labels: r.Labels, RequestID: r.RequestID,
	})
}

// claim proposes a block of ids for the node that asks (O3). What it asks for was never used and is never used again,
// so that it matters to nobody whether a deposed leader's entry commits: only the answer that comes counts.
func (t *Tracker) claim(ctx context.Context, node session.Node, r *session.ClaimRequest) (session.Reply, error) {
	if err := session.CheckClaim(r.Count); err != nil {
		return session.Reply{}, err
	}
	ms, err := t.timeOf(node, r.MS)
	if err != nil {
		return session.Reply{}, err
	}
	return t.propose(ctx, session.ClaimIDs{Node: node, MS: ms, Count: r.Count})
}

// upgrade proposes to make a local session global for the one node that can know it (L7).
func (t *Tracker) upgrade(ctx context.Context, node session.Node, r *session.UpgradeRequest) (session.Reply, error) {
	if r.ID.Node() != node {
		return session.Reply{}, &session.FieldError{
			Field: "session_id", Limit: fmt.Sprintf("an id of node %d, which asks", node),
		}
	}
	return t.add(ctx, session.UpgradeSession(*r))
}

// resume proposes to move a session to the node that asks. The credential comes first: who has none learns nothing
// and changes nothing (K-03). A closing session is not moved (M6). Which attachment it may name only the log can tell
// (M1): what this node has not applied yet may be a resume by another process.
func (t *Tracker) resume(ctx context.Context, node session.Node, r *session.ResumeRequest) (session.Reply, error) {
	if _, err := t.authentic(ctx, &r.Token); err != nil {
		return session.Reply{}, err
	}
	if t.closing(r.Token.ID) {
		return session.Reply{}, session.ErrClosing
	}
	move := session.MoveSession{ID: r.Token.ID, NewOwner: node, Instance: r.Instance, Attempt: r.Attempt}
	if t.LogVersion() >= 1 { // a release before that stops at an entry with these
		move.Named, move.NamedLocal = r.Token.Attachment, r.Token.Local
	}
	return t.propose(ctx, move)
}

// authentic returns the session that a token names.
func (t *Tracker) authentic(ctx context.Context, token *session.Token) (session.Session, error) {
	if !t.view.Verify(token.ID, token.Credential) {
		return session.Session{}, session.ErrBadCredential
	}
	// The attachment is read first: a session whose token this node's state was not behind of, and that it does not
	// hold, has ended. A leader that does not know yet that it was deposed may be behind (M5).
	applied := t.view.Attachment()
	one, ok := t.view.Session(token.ID)
	switch {
	case ok:
		return one, nil
	case token.Local:
		return t.madeGlobal(ctx, token.ID)
	case token.Attachment > applied:
		return session.Session{}, session.ErrLagging
	default:
		return session.Session{}, &session.ExpiredError{ID: token.ID}
	}
}

// madeGlobal looks for a session again whose token is of the time when it was local. The attachment of such a token
// does not tell how far this node should have come: only who leads still, after it did not find the session, knows that
// it is not global (M5).
func (t *Tracker) madeGlobal(ctx context.Context, id session.ID) (session.Session, error) {
	if err := t.await(ctx); err != nil {
		return session.Session{}, readError(err)
	}
	if one, ok := t.view.Session(id); ok {
		return one, nil
	}
	return session.Session{}, &session.ExpiredError{ID: id}
}

// closing reports whether a session is marked as closing.
func (t *Tracker) closing(id session.ID) bool {
	s := t.shard(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.queue.Find(id)
	return it != nil && it.Marked()
}

// add proposes a command that makes a session, if there is room. Where there is none a refusal costs neither an entry
// nor memory: who is refused may come again and again (O4).
func (t *Tracker) add(ctx context.Context, c session.Command) (session.Reply, error) {
	if err := t.cfg.Room(c); err != nil {
		t.stats.full.Add(1)
		return session.Reply{}, err
	}
	return t.propose(ctx, c)
}

// propose proposes a command whose result is a session or a block of ids.
func (t *Tracker) propose(ctx context.Context, c session.Command) (session.Reply, error) {
	result, err := t.log.Propose(ctx, c)
	if err == nil {
		err = t.decided(&result)
	}
	if err != nil {
		return session.Reply{}, err
	}
	return session.Reply{
		Term: result.Term, Index: result.Index, Session: result.Session, Repeated: result.Repeated, First: result.First,
	}, nil
}

// decided returns what a result means to who asked. Only the leader of the entry's own term, while it is in that term,
// says what an entry did (M3).
func (t *Tracker) decided(result *session.Result) error {
	if result.Term != t.cfg.Term || !t.current() {
		return session.ErrOutcomeUnknown
	}
	return result.Err
}

// closeOne ends a session because its client wishes so. The proposal outlives the stream: only its outcome says whether
// the mark is taken back (E4).
func (t *Tracker) closeOne(ctx context.Context, token *session.Token) (session.Reply, error) {
	one, err := t.authentic(ctx, token)
	if err != nil {
		return session.Reply{}, err
	}
	if token.Local {
		return session.Reply{}, session.MovedTo(one) // the token is of the time before the session was global (L5)
	}
	c, err := t.mark(token, &one)
	switch {
	case errors.Is(err, session.ErrExpired):
		err = t.notFiled(token.ID)
	case errors.Is(err, session.ErrMoved):
		err = t.leftAlone(token)
	}
	if err != nil {
		return session.Reply{}, err
	}
	term, cancel := t.termContext(ctx)
	defer cancel()
	result, err := t.closeSessions(term, session.CauseClosed, []session.Closing{c})
	if err == nil {
		err = t.decided(&result)
	}
	if err == nil && (len(result.Closed) != 1 || !result.Closed[0]) {
		err = t.leftAlone(token)
	}
	if err != nil {
		return session.Reply{}, err
	}
	t.stats.closed.Add(1)
	return session.Reply{Term: result.Term, Index: result.Index}, nil
}

// termContext outlives ctx, and ends with the term: what is not decided by then no tracker waits for.
func (t *Tracker) termContext(ctx context.Context) (context.Context, context.CancelFunc) {
	term, cancel := context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		select {
		case <-t.over:
			cancel()
		case <-term.Done():
		}
	}()
	return term, cancel
}

// notFiled is why a session that the state showed is not in the queue: it has ended since, or the entry that opened it
// is shown already and this tracker is about to be told of it. A node that made a session global tells its client as
// soon as it serves it, so that a close can come in between (L8).
func (t *Tracker) notFiled(id session.ID) error {
	if _, ok := t.view.Session(id); ok {
		return session.ErrLagging
	}
	return &session.ExpiredError{ID: id}
}

// mark marks a session as closing if the token's attachment is the session's.
func (t *Tracker) mark(token *session.Token, one *session.Session) (session.Closing, error) {
	t.timed(one.Timeout)
	now := t.now()
	s := t.shard(token.ID)
	s.mu.Lock()
	defer s.mu.Unlock()
	it := s.adopt(token.ID, hold(one))
	switch {
	case it == nil:
		return session.Closing{}, &session.ExpiredError{ID: token.ID}
	case token.Attachment < it.Value.attachment:
		return session.Closing{}, session.ErrMoved
	case token.Attachment > it.Value.attachment:
		return session.Closing{}, session.ErrLagging
	case it.Marked():
		return session.Closing{}, session.ErrClosing
	}
	s.queue.Mark(it)
	return closing(it, now), nil
}

// leftAlone says why the session of a token was not ended: it ended or was moved before.
func (t *Tracker) leftAlone(token *session.Token) error {
	now, ok := t.view.Session(token.ID)
	if !ok {
		return &session.ExpiredError{ID: token.ID}
	}
	return session.MovedTo(now)
}

// readIndex answers a read: what to wait for so that it is linearizable, and how long sessions have (R4).
func (t *Tracker) readIndex(ctx context.Context, r *session.ReadRequest) (session.Reply, error) {
	if len(r.Remaining) > session.MaxPage {
		return session.Reply{}, &session.FieldError{
			Field: "remaining", Limit: fmt.Sprintf("at most %d", session.MaxPage),
		}
	}
	index := t.view.CommitIndex()
	if err := t.await(ctx); err != nil {
		return session.Reply{}, readError(err)
	}
	reply := session.Reply{Term: t.cfg.Term, Index: index}
	if len(r.Remaining) > 0 {
		reply.Remaining = t.remaining(r.Remaining)
	}
	return reply, nil
}

// readError makes the end of the stream a domain error; a read has no outcome to be unknown.
func readError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return session.ErrNoLeader
	}
	return err
}

// remaining returns how long sessions have if they stay silent, negative for one that does not exist.
func (t *Tracker) remaining(ids []session.ID) []time.Duration {
	t.mu.Lock()
	now := t.clock.read(t.mono())
	words := t.rounds.owners(now)
	t.mu.Unlock()
	all := make([]time.Duration, len(ids))
	for i, id := range ids {
		all[i] = -time.Millisecond
		if due, ok := t.due(id, now, words); ok {
			all[i] = max(due-now, 0)
		}
	}
	return all
}

// due returns when a session comes due. One that is not in the queue and exists is about to be filed: as of the term's
// start (E1), or by the entry that this tracker is about to be told of (S2).
func (t *Tracker) due(id session.ID, now time.Duration, words *ownerStates) (time.Duration, bool) {
	s := t.shard(id)
	s.mu.Lock()
	if it := s.queue.Find(id); it != nil {
		defer s.mu.Unlock()
		return words.due(it), true
	}
	filling := s.filling()
	s.mu.Unlock()
	one, ok := t.view.Session(id)
	if filling {
		return words[one.Owner].due(0, one.Timeout), ok
	}
	return now + one.Timeout, ok
}
