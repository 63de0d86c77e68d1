package client

import (
	"context"
	"fmt"
	"sync"
	"time"

	sessions "holdfast/client/internal/core/session"
	"holdfast/session"
)

// Session is a session held by a [Client], which keeps it alive until it ends. Safe for concurrent use.
type Session struct {
	loop   *loop
	events eventQueue
	done   chan struct{}
	// core, id and timeout are written before Open or Resume returns the session, and never after.
	core    *sessions.Session
	id      session.ID
	timeout time.Duration

	mu       sync.Mutex
	state    State           // guarded by mu
	granted  session.Session // guarded by mu; from the newest open, resume or upgrade
	token    session.Token   // guarded by mu
	promised promise         // guarded by mu
	closing  bool            // guarded by mu
	err      error           // guarded by mu; set once, before done is closed
}

func newSession(ctx context.Context, l *loop) *Session {
	s := &Session{loop: l, state: StateConnecting, done: make(chan struct{})}
	s.promised = newPromise(ctx, s.runOut)
	return s
}

// ID returns the session's id.
func (s *Session) ID() session.ID { return s.id }

// Timeout returns the negotiated timeout. It never changes.
func (s *Session) Timeout() time.Duration { return s.timeout }

// Token returns the newest token. A token is a secret: a client with the token can take the session over. Its text form
// is [session.Token.Secret].
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

// Labels returns the session's labels. Callers must not change the slice.
func (s *Session) Labels() session.Labels {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.granted.Labels
}

// SafeUntil returns the moment until which the cluster promises not to expire the session, on this process's monotonic
// clock. It returns zero without a promise: before the first promise, after the last promise has run out, after the
// machine was suspended (S5 suspended machines), and after the end of the session. A promise excludes expiry only: the
// session may still be closed, or resumed by another client.
func (s *Session) SafeUntil() time.Time {
	now, suspensions := s.loop.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		return time.Time{}
	}
	return s.promised.until
}

// Context returns a context that lives while there is a promise. The context ends at [Session.SafeUntil] unless a later
// promise has arrived by then, with the cause [ErrLapsed]. It also ends with the session, with the error of
// [Session.Err] as the cause. So the context ends before the cluster can expire the session. After a suspension of the
// machine the context ends within a second of running, when the client detects the suspension. A separate timer ends
// the context: a Logger or an OnNode that blocks the client cannot make the context outlive its promise.
//
// A context that has ended stays ended. A new promise after a lapse means that the session has not expired in between:
// Context then returns a new context, and a [Regained] event reports the change. Without a promise, Context returns a
// context that has ended. It carries the values of the context passed to [Client.Open] or [Client.Resume], but does not
// end with that context.
func (s *Session) Context() context.Context {
	now, suspensions := s.loop.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		s.promised.drop(ErrLapsed) // the loop may be late; a former cause stays
	}
	return s.promised.context()
}

// AwaitPromise waits until there is a promise, and returns [Session.Context]. The error wraps the cause of ctx, or is
// that of [Session.Err] after the session's end.
func (s *Session) AwaitPromise(ctx context.Context) (context.Context, error) {
	for {
		promised, next := s.promisedOrNext()
		if next == nil {
			return promised, nil
		}
		select {
		case <-next:
		case <-s.done:
			return nil, s.Err()
		case <-ctx.Done():
			return nil, fmt.Errorf("await promise of session %s: %w", s.id, context.Cause(ctx))
		}
	}
}

// promisedOrNext returns the context of the promise. Without a promise it returns a channel that the next promise
// closes.
func (s *Session) promisedOrNext() (context.Context, <-chan struct{}) {
	now, suspensions := s.loop.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.promised.holds(now, suspensions) {
		return s.promised.context(), nil
	}
	s.promised.drop(ErrLapsed)
	return nil, s.promised.next()
}

// Done returns a channel that is closed when the session has ended for this client: it was closed, has expired, was
// resumed by another client, or the client was closed.
func (s *Session) Done() <-chan struct{} { return s.done }

// Err returns nil until the session has ended for this client, then the reason: [session.ErrClosed] after
// [Session.Close] and [Client.Close], [session.ErrMoved] when another client resumed it, a [session.ExpiredError] when
// the cluster ended it, with the certificate if the cluster still has it, and [session.ErrBadCredential] when the
// cluster refused its token.
func (s *Session) Err() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}

// State returns the session's state now. It may be newer than the events that the application has read.
func (s *Session) State() State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state
}

// Events returns the channel of the session's events, from its start. All calls return the same channel, which is for
// one reader. It holds 64 unread events. A further event drops the oldest event, and [Event].Dropped counts it: a slow
// reader misses old events, never the newest. The channel is closed after the last event, which reports the end of the
// session.
func (s *Session) Events() <-chan Event { return s.events.channel() }

// Close closes the session in the cluster. Its Context ends at once, and the client stops touching this session by
// name; a touch of all sessions of the connection may still keep the session alive until the cluster receives the
// close. Close repeats the request through lost connections until ctx ends. Then the error wraps the cause, and the
// session expires if the cluster never received the close.
//
// If another client has resumed the session, Close leaves the session alone and returns [session.ErrMoved]. It returns
// a [session.ExpiredError] if the session has expired. Later calls return the same result: nil after a close.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.promised.drop(session.ErrClosed)
	s.mu.Unlock()
	return s.loop.close(ctx, s)
}

// grant records the result of an open, a resume or an upgrade.
func (s *Session) grant(g sessions.Granted) {
	if s.core == nil {
		s.core, s.id, s.timeout = g.Session, g.Grant.Session.ID, g.Grant.Session.Timeout
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = g.Grant.Token
	if g.Grant.Session.ID == 0 {
		s.granted.Owner, s.granted.Attachment = g.Grant.Session.Owner, g.Grant.Session.Attachment
		return
	}
	s.granted = g.Grant.Session
}

// promise records a promise until a moment, made after the given number of suspensions. It reports whether the context
// had ended before.
func (s *Session) promise(until time.Time, suspensions uint64) (ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil || s.closing {
		return false
	}
	return s.promised.renew(until, suspensions)
}

// lapse ends the promise and the context.
func (s *Session) lapse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.promised.drop(ErrLapsed)
}

// runOut ends an expired promise. The promise's timer calls runOut, also while the loop is blocked.
func (s *Session) runOut() {
	now, suspensions := s.loop.clock.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		s.promised.drop(ErrLapsed)
	}
}

// end ends the session for the application. Only the loop calls it, once.
func (s *Session) end(err error) {
	s.mu.Lock()
	s.err = err
	s.promised.drop(err)
	s.mu.Unlock()
	close(s.done)
	s.events.end()
}

// happened updates the state and queues the event.
func (s *Session) happened(e *sessions.Event) {
	s.mu.Lock()
	s.state = State(e.To)
	s.mu.Unlock()
	s.events.push(Event{
		Kind: EventKind(e.Kind), From: State(e.From), State: State(e.To), At: e.At, Node: e.Node, Address: e.Address,
		SafeUntil: e.SafeUntil, Err: e.Err,
	})
}
