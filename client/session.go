package client

import (
	"context"
	"sync"
	"time"

	"holdfast/client/internal/core"
	"holdfast/session"
)

// Session is a session held by a [Client], which keeps it alive until it ends. Safe for concurrent use.
type Session struct {
	loop   *loop
	events eventQueue
	done   chan struct{}
	// core, id and timeout are written before anyone but the loop sees the session.
	core    *core.Session
	id      session.ID
	timeout time.Duration

	mu       sync.Mutex
	state    State           // guarded by mu
	granted  session.Session // guarded by mu; as of the newest open or resume
	token    session.Token   // guarded by mu
	promised promise         // guarded by mu
	closing  bool            // guarded by mu
	err      error           // guarded by mu; set once, before done is closed
}

func newSession(ctx context.Context, l *loop) *Session {
	s := &Session{loop: l, state: StateConnecting, done: make(chan struct{})}
	s.promised = newPromise(context.WithoutCancel(ctx), s.runOut)
	return s
}

// ID returns the session's id.
func (s *Session) ID() session.ID { return s.id }

// Timeout returns the negotiated timeout. It never changes.
func (s *Session) Timeout() time.Duration { return s.timeout }

// Token returns the newest token, with which another client could take the session over. It is a secret;
// [session.Token.Secret] is its text.
func (s *Session) Token() session.Token {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.token
}

// Owner returns the node that owns the session, as of the newest open or resume.
func (s *Session) Owner() session.Node {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted.Owner
}

// Labels returns the session's labels. They must not be changed.
func (s *Session) Labels() session.Labels {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted.Labels
}

// SafeUntil returns the moment up to which the cluster promises not to expire the session, on this process's monotonic
// clock; zero when nothing is promised now: before the first promise, after the last one has run out, after the machine
// was suspended (S5), and after the end. A promise is against expiry, not against a close or against another client
// that resumes the session.
func (s *Session) SafeUntil() time.Time {
	now, suspensions := s.loop.clock.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		return time.Time{}
	}
	return s.promised.until
}

// Context returns a context that lives as long as a promise does. It ends at [Session.SafeUntil] when no later promise
// has arrived by then, with the cause [ErrLapsed]; and at the end of the session, with the cause that [Session.Err]
// returns; see context.Cause. So it ends before the cluster can expire the session, unless the machine was suspended:
// then it ends when that is noticed, within a second of running. A timer of the session's own ends it: neither a Logger
// nor an OnNode that blocks the client can make a context outlive its promise.
//
// A context that has ended stays ended. When the session gets a promise after a lapse, Context returns a new one from
// then on, and [Regained] tells so: the session never expired meanwhile. While nothing is promised, Context returns one
// that has ended. It carries the values of the context given to [Client.Open] or [Client.Resume], not its end.
func (s *Session) Context() context.Context {
	now, suspensions := s.loop.clock.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		s.promised.drop(ErrLapsed) // the loop may not have come to it yet; a former cause stays
	}
	return s.promised.current
}

// Done is closed when the session has ended for this client: closed, expired, moved to another client, or the client
// was closed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil while the session is held, then why it ended: [session.ErrClosed] after [Session.Close] and
// [Client.Close], [session.ErrMoved] when another client resumed it, a [session.ExpiredError] with the certificate when
// the cluster ended it, [session.ErrBadCredential] when its token was refused.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// State returns the session's state now, whatever events were read.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Events returns what happens to the session, from its beginning. It is one channel, for one reader, and holds 64
// unread events: when it is full the oldest is dropped and counted by the next one that is read (see [Event].Dropped),
// so a slow reader misses what is over and never what is newest. It is closed after the session's end, whose event is
// the last.
func (s *Session) Events() <-chan Event { return s.events.channel() }

// Close ends the session in the cluster. From the call on its Context has ended, and nothing is sent to keep it alive;
// a touch of all sessions of the connection may still do so until the cluster has heard of the close. The close is
// repeated through lost connections until ctx ends; then the error wraps the cause of that, and the session expires by
// itself if the cluster never heard of the close. A session that another client resumed is left alone:
// [session.ErrMoved]. One that has expired meanwhile is a [session.ExpiredError]. Later calls return what the end was:
// nil after a close.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.promised.drop(session.ErrClosed)
	s.mu.Unlock()
	return s.loop.close(ctx, s)
}

// grant takes what an open, a resume or an upgrade brought.
func (s *Session) grant(g core.Granted) {
	if s.core == nil {
		s.core, s.id, s.timeout = g.Session, g.Grant.Session.ID, g.Grant.Session.Timeout
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted, s.token = g.Grant.Session, g.Grant.Token
}

// promise takes the latest moment promised, noted under a count of suspensions. It reports whether the context had
// ended before.
func (s *Session) promise(until time.Time, suspensions uint64) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.closing {
		return false
	}
	return s.promised.renew(until, suspensions)
}

// lapse drops the promise.
func (s *Session) lapse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised.drop(ErrLapsed)
}

// runOut drops the promise if it is over. The promise's timer calls it, whatever keeps the loop busy.
func (s *Session) runOut() {
	now, suspensions := s.loop.clock.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		s.promised.drop(ErrLapsed)
	}
}

// end tells everyone who waits. Only the loop calls it, once.
func (s *Session) end(err error) {
	s.mu.Lock()
	s.err = err
	s.promised.drop(err)
	s.mu.Unlock()
	close(s.done)
	s.events.end()
}

// happened has the state follow, and tells the reader of events.
func (s *Session) happened(e *core.Event) {
	s.mu.Lock()
	s.state = State(e.To)
	s.mu.Unlock()
	s.events.push(Event{
		Kind: EventKind(e.Kind), From: State(e.From), State: State(e.To), At: e.At, Node: e.Node, Address: e.Address,
		SafeUntil: e.SafeUntil, Err: e.Err,
	})
}
