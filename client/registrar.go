package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// ErrStop ends a [Registrar] when its Register function returns an error that wraps ErrStop.
var ErrStop = errors.New("application stops the registrar")

// closeWithin bounds the time for closing the session when a registrar ends.
const closeWithin = 3 * time.Second

// Opener opens sessions: a [Client] or a [Pool].
type Opener interface {
	Open(ctx context.Context, o SessionOptions) (*Session, error)
}

// Establishment is the argument of [RegistrarOptions].Register.
type Establishment struct {
	// Session is new: its id differs from all former ids, and the cluster has dropped everything that belonged to a
	// former session.
	Session *Session
	// Former is the expired session, and Err its end, a [session.ExpiredError]. Both are zero for the first session.
	Former session.ID
	Err    error
	// Attempt counts the calls for this session, from 1.
	Attempt int
}

// RegistrarOptions configures a [Registrar].
type RegistrarOptions struct {
	// Session describes the sessions to open. Its RequestID must be zero.
	Session SessionOptions
	// Register is called with each new session, also the first. Register makes everything that belongs to the session,
	// and must be able to start from nothing. When Register returns an error, it is called again after a back-off,
	// while the session lives. An error that wraps [ErrStop] ends the registrar. Calls never overlap.
	//
	// The context outlives the call: a service that Register starts may run in it. The context ends with the session,
	// with the cause of [Session.Err]; with the context of [Registrar.Run]; and when Register returns an error. It
	// lives on when the promise of the session has run out, as the registration does. Work that only one process may do
	// at a time belongs in [Session.Context].
	Register func(ctx context.Context, e Establishment) error
	// MinBackoff and MaxBackoff bound back-offs as in [Config]: between calls of Register, between opens that a limit
	// of the cluster refuses, and between sessions that expired before they were registered.
	MinBackoff, MaxBackoff time.Duration
	// Logger gets lines about each session; nil is silence.
	Logger hclog.Logger
}

// Registrar keeps an application registered. When its session expires, it opens a new session and calls the application
// to register again; users of ZooKeeper write this by hand. Nothing else in this package replaces a session, and a
// registrar never does so silently: it requires a Register function. A registrar replaces only expired sessions; it
// ends when its session was closed or resumed by another client.
type Registrar struct {
	opener Opener
	opts   RegistrarOptions
	jitter *route.Jitter

	mu      sync.Mutex
	current *Session // guarded by mu

	// watchers are the goroutines that end the contexts of Register. Run waits for them.
	watchers sync.WaitGroup
}

// NewRegistrar returns a registrar that opens sessions with o. It starts nothing: call [Registrar.Run]. The error wraps
// a [session.FieldError].
func NewRegistrar(o Opener, opts RegistrarOptions) (*Registrar, error) {
	invalid := func(field, limit string) (*Registrar, error) {
		return nil, fmt.Errorf("configure registrar: %w", &session.FieldError{Field: field, Limit: limit})
	}
	switch {
	case opts.Register == nil:
		return invalid("register", "a function, because a registrar replaces no session silently")
	case opts.Session.RequestID != session.RequestID{}:
		return invalid("request_id", "zero, because each new session has a request id of its own")
	}
	if err := errors.Join(notNegative("min backoff", opts.MinBackoff),
		notNegative("max backoff", opts.MaxBackoff)); err != nil {
		return nil, fmt.Errorf("configure registrar: %w", err)
	}
	setDefault(&opts.MinBackoff, DefaultMinBackoff)
	setDefault(&opts.MaxBackoff, max(DefaultMaxBackoff, opts.MinBackoff))
	if opts.Logger == nil {
		opts.Logger = hclog.NewNullLogger()
	}
	opts.Logger = opts.Logger.Named("registrar")
	d := route.NewJitter(rand.NewPCG(randomUint64(), randomUint64()), opts.MinBackoff, opts.MaxBackoff)
	return &Registrar{opener: o, opts: opts, jitter: d}, nil
}

// Session returns the newest session, nil before the first. The session may not be registered yet, or may have ended.
// Safe for concurrent use.
func (r *Registrar) Session() *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Run keeps a session open and registered. It ends when ctx ends, Register returns [ErrStop], a session cannot be
// opened, or a session ends otherwise than by expiry, and returns the reason, never nil. When ctx ends or Register
// returns [ErrStop], Run closes the session, within at most 3 s. It must not be called twice.
func (r *Registrar) Run(ctx context.Context) error {
	defer r.watchers.Wait() // each ends with its session, with ctx, or with its call of Register
	e := Establishment{}
	for misses := 0; ; {
		s, err := r.open(ctx)
		if err != nil {
			return err
		}
		e.Session = s
		registered, err := r.register(ctx, e)
		if err == nil {
			misses, err = 0, r.await(ctx, s, nil)
		}
		if errors.Is(err, ErrStop) || !errors.Is(err, session.ErrExpired) {
			return err // the reason to stop may be that the session has expired
		}
		r.opts.Logger.Warn("session has expired: opening a new session", "session", s.ID(), "error", err)
		e = Establishment{Former: s.ID(), Err: err}
		if registered {
			continue
		}
		misses++
		if slept := session.Sleep(ctx, r.jitter.Backoff(misses)); slept != nil {
			return slept
		}
	}
}

// open opens the next session. It retries when a limit of the cluster refuses the open, because the limit may pass.
// After the first session it also retries when the nodes deny the client: a token that is replaced too late must not
// end a registration.
func (r *Registrar) open(ctx context.Context) (*Session, error) {
	for n := 1; ; n++ {
		s, err := r.opener.Open(ctx, r.opts.Session)
		again := errors.Is(err, session.ErrLimit) || route.Denied(err) && r.Session() != nil
		switch {
		case err == nil:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.current = s
			return s, nil
		case !again:
			return nil, err
		}
		if session.Sleep(ctx, r.jitter.Wait(n, err)) != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// register calls the application until a call succeeds. The error explains why registration cannot succeed for this
// session.
func (r *Registrar) register(ctx context.Context, e Establishment) (done bool, err error) {
	s := e.Session
	for e.Attempt = 1; ; e.Attempt++ {
		err = r.call(ctx, e)
		switch {
		case err == nil:
			r.opts.Logger.Info("session is registered", "session", s.ID(), "attempt", e.Attempt)
			return true, nil
		case errors.Is(err, ErrStop):
			r.close(ctx, s)
			return false, fmt.Errorf("register session %s: %w", s.ID(), err)
		}
		r.opts.Logger.Warn("session is not registered", "session", s.ID(), "attempt", e.Attempt, "error", err)
		timer := time.NewTimer(r.jitter.Backoff(e.Attempt))
		err = r.await(ctx, s, timer.C)
		timer.Stop()
		if err != nil {
			return false, err
		}
	}
}

// await returns the reason of the end of s, or nil when other fires first. When ctx ends it closes s.
func (r *Registrar) await(ctx context.Context, s *Session, other <-chan time.Time) error {
	select {
	case <-s.Done():
		return s.Err()
	case <-other:
		return nil
	case <-ctx.Done():
		r.close(ctx, s)
		return context.Cause(ctx)
	}
}

// close ends s although ctx may have ended. It only logs an error: the session then expires on its own.
func (r *Registrar) close(ctx context.Context, s *Session) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := s.Close(closing); err != nil {
		r.opts.Logger.Info("session could not be closed: it is left to expire", "session", s.ID(), "error", err)
	}
}

// call calls the application. The context that it gets ends with ctx, with the session, and when the call has failed.
func (r *Registrar) call(ctx context.Context, e Establishment) error {
	registered, cancel := context.WithCancelCause(context.WithoutCancel(e.Session.Context()))
	r.watchers.Go(func() {
		select {
		case <-e.Session.Done():
			cancel(e.Session.Err())
		case <-ctx.Done():
			cancel(context.Cause(ctx))
		case <-registered.Done():
		}
	})
	//nolint:contextcheck // has the session's values, and ends with ctx too
	err := r.opts.Register(registered, e)
	if err != nil {
		cancel(err)
	}
	return err
}
