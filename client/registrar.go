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

// ErrStop ends a [Registrar] whose hook returns an error that wraps it.
var ErrStop = errors.New("application wants no further attempt")

// closeWithin bounds the close of a registrar's session at its end.
const closeWithin = 3 * time.Second

// Opener opens sessions: a [Client] or a [Pool].
type Opener interface {
	Open(ctx context.Context, o SessionOptions) (*Session, error)
}

// Establishment is what a hook is told.
type Establishment struct {
	// Session is new: it has another id than any before, and nothing of what hung on a former one hangs on it.
	Session *Session
	// Former is the session that has expired, and Err how it ended, a [session.ExpiredError]; zero and nil for the
	// first.
	Former session.ID
	Err    error
	// Attempt counts the calls for this session, from 1.
	Attempt int
}

// RegistrarOptions configures a [Registrar].
type RegistrarOptions struct {
	// Session says what sessions to open. Its RequestID must be zero.
	Session SessionOptions
	// Register is called with each session that was opened, the first one included, to make everything that hangs on
	// it: it must be able to start from nothing. Its context ends with the session's promise, see [Session.Context],
	// and with that of [Registrar.Run]. When it returns an error it is called again after a back-off, as long as the
	// session lives; an error that wraps [ErrStop] ends the registrar. It is never called twice at a time.
	Register func(ctx context.Context, e Establishment) error
	// MinBackoff and MaxBackoff are as in [Config]: between calls of Register, between opens that a limit of the
	// cluster refuses, and between sessions that expired before they were registered.
	MinBackoff, MaxBackoff time.Duration
	// Logger hears of each session; nil is silence.
	Logger hclog.Logger
}

// Registrar opens a new session when one has expired, and has the application register again: what users of ZooKeeper
// write by hand. Nothing else in this package does so, and it never does so silently: an application that cannot be
// told cannot have one. Only expiry is mended: a session that was closed, or that another client has resumed, is not.
type Registrar struct {
	opener Opener
	opts   RegistrarOptions
	jitter *route.Jitter

	mu      sync.Mutex
	current *Session // guarded by mu
}

// NewRegistrar returns a registrar that opens sessions with o. The error is a [session.FieldError].
func NewRegistrar(o Opener, opts RegistrarOptions) (*Registrar, error) {
	invalid := func(field, limit string) (*Registrar, error) {
		return nil, fmt.Errorf("configure registrar: %w", &session.FieldError{Field: field, Limit: limit})
	}
	switch {
	case opts.Register == nil:
		return invalid("register", "a function: nothing is established again silently")
	case opts.Session.RequestID != session.RequestID{}:
		return invalid("request_id", "zero: each session is another one")
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

// Session returns the newest session, nil before the first. It may have ended, and not be registered yet. Safe for
// concurrent use.
func (r *Registrar) Session() *Session {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.current
}

// Run keeps a session open and registered until ctx ends, the hook stops it, or a session cannot be opened or ends
// otherwise than by expiry, and returns why; never nil. When ctx ends or the hook stops it, it closes the session, for
// at most 3 s. It must not be called twice.
func (r *Registrar) Run(ctx context.Context) error {
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
		if !errors.Is(err, session.ErrExpired) {
			return err
		}
		r.opts.Logger.Warn("session has expired: opening another one", "session", s.ID(), "error", err)
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

// open opens the next session; limits of the cluster may pass.
func (r *Registrar) open(ctx context.Context) (*Session, error) {
	for n := 1; ; n++ {
		s, err := r.opener.Open(ctx, r.opts.Session)
		switch {
		case err == nil:
			r.mu.Lock()
			defer r.mu.Unlock()
			r.current = s
			return s, nil
		case !errors.Is(err, session.ErrLimit):
			return nil, err
		}
		if session.Sleep(ctx, r.jitter.Wait(n, err)) != nil {
			return nil, errors.Join(context.Cause(ctx), err)
		}
	}
}

// register calls the hook until it succeeds; the error is why it never will for this session.
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

// await returns why s ended, nil when it is time for something else before. When ctx ends it closes s.
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

// close ends s although ctx may have ended. What it fails with is of no use: the session expires by itself.
func (r *Registrar) close(ctx context.Context, s *Session) {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeWithin)
	defer cancel()
	if err := s.Close(closing); err != nil {
		r.opts.Logger.Info("session is left to expire", "session", s.ID(), "error", err)
	}
}

// call runs the hook under the session's promise and ctx.
func (r *Registrar) call(ctx context.Context, e Establishment) error {
	calling, cancel := context.WithCancelCause(e.Session.Context())
	defer cancel(nil)
	defer context.AfterFunc(ctx, func() { cancel(context.Cause(ctx)) })()
	//nolint:contextcheck // the session's context lives no longer than its promise, and ends with ctx too
	return r.opts.Register(calling, e)
}
