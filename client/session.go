package client

import (
	"context"
	"fmt"
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
	// core, id and timeout are written before Open or Resume returns the session, and never after.
	core    *core.Session
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

// Token returns the newest token. It is a secret: a client that has it can take the session over. Its text form is
// [session.Token.Secret].
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

// SafeUntil returns the moment until which the cluster promises not to expire the session, on this process's monotonic
// clock. It returns zero without a promise: before the first one, after the last one has run out, after the machine was
// suspended (S5), and after the end of the session. A promise is against expiry alone: the session may still be closed,
// or resumed by another client.
func (s *Session) SafeUntil() time.Time {
	now, suspensions := s.loop.clock.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		return time.Time{}
	}
	return s.promised.until
}

// Context returns a context that lives while there is a promise. It ends at [Session.SafeUntil] unless a later promise
// has arrived by then, with the cause [ErrLapsed]. It also ends with the session; its cause is then the error that
// [Session.Err] returns. So it ends before the cluster can expire the session. After a suspension of the machine it
// ends within a second of running, when the client notices the suspension. A timer of its own ends the context: a
// Logger or an OnNode that blocks the client cannot make it outlive its promise.
//
// A context that has ended stays ended. When the session gets a new promise after a lapse, it has not expired in
// between: Context returns a new context from then on, and a [Regained] event tells so. Without a promise, Context
// returns a context that has ended. It carries the values of the context given to [Client.Open] or [Client.Resume], but
// does not end with that context.
func (s *Session) Context() context.Context {
	now, suspensions := s.loop.clock.look()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.promised.holds(now, suspensions) {
		s.promised.drop(ErrLapsed) // the loop may not have come to it yet; a former cause stays
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

// promisedOrNext returns the context of the promise. Without one it returns a channel that is closed with the next one.
func (s *Session) promisedOrNext() (context.Context, <-chan struct{}) {
	now, suspensions := s.loop.clock.look()
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

// Events returns the channel of the session's events, from its beginning. All calls return the same channel, which is
// for one reader. It holds 64 unread events. A further event drops the oldest one, and [Event].Dropped counts it: a
// slow reader misses old events, never the newest. The channel is closed after the last event, which tells the end of
// the session.
func (s *Session) Events() <-chan Event { return s.events.channel() }

// Close ends the session in the cluster. Its Context ends at once, and the client sends no more touch for this session
// alone; a touch of all sessions of the connection may still keep it alive until the cluster hears of the close. Close
// repeats the request through lost connections until ctx ends. Then the error wraps the cause, and the session expires
// by itself if the cluster never heard of the close.
//
// Close leaves a session alone that another client has resumed, and returns [session.ErrMoved]. It returns a
// [session.ExpiredError] if the session has expired. Later calls return the same result: nil after a close.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closing = true
	s.promised.drop(session.ErrClosed)
	s.mu.Unlock()
	return s.loop.close(ctx, s)
}

// grant takes the result of an open, a resume or an upgrade.
func (s *Session) grant(g core.Granted) {
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

// promise takes a promise until a moment, noted under a number of suspensions. It reports whether the context had ended
// before.
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

// runOut ends the promise if it is over. The promise's timer calls it, also while the loop is blocked.
func (s *Session) runOut() {
	now, suspensions := s.loop.clock.look()
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
func (s *Session) happened(e *core.Event) {
	s.mu.Lock()
	s.state = State(e.To)
	s.mu.Unlock()
	s.events.push(Event{
		Kind: EventKind(e.Kind), From: State(e.From), State: State(e.To), At: e.At, Node: e.Node, Address: e.Address,
		SafeUntil: e.SafeUntil, Err: e.Err,
	})
}
