package client

import (
	"context"
	"sync"

	"holdfast/client/internal/core"
	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/stream"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/dial"
)

// loop carries out the decisions of a client's core. One goroutine runs the turns of the core. Other goroutines queue
// inputs and wait for answers.
type loop struct {
	cfg    Config
	clock  *clock
	shared shared
	cancel context.CancelFunc // set by start
	done   chan struct{}
	inbox  *inbox
	calls  chan func(*core.Core)
	// running counts the goroutines of streams and lookups.
	running sync.WaitGroup

	// The fields below belong to the loop's goroutine.
	core    *core.Core
	streams map[*conn.Conn]*stream.Stream
	sending sending
	// cluster is the identity of the cluster last passed to the core.
	cluster uint64
}

// shared is the state that the loop shares with its client and the client's pool.
type shared struct {
	occupancy *occupancy
	seen      *seen
	served    func(server string) // nil outside pools
	learnt    func(addresses []string)
}

// waiter is a caller that waits for an answer of the core.
type waiter struct {
	sessions.Call
	ctx    context.Context //nolint:containedctx // the context of the caller that waits
	answer chan outcome    // buffers one answer: the core gives exactly one
}

type outcome struct {
	s   *Session
	err error
}

func newWaiter(ctx context.Context) *waiter {
	w := &waiter{ctx: ctx, answer: make(chan outcome, 1)}
	w.Handle = w
	return w
}

func newLoop(cfg Config, c *clock, s shared, decides core.Config) *loop {
	return &loop{
		cfg: cfg, clock: c, shared: s, done: make(chan struct{}), inbox: newInbox(),
		calls: make(chan func(*core.Core)), core: core.New(decides), streams: make(map[*conn.Conn]*stream.Stream),
	}
}

// start runs the loop until stop.
func (l *loop) start(ctx context.Context) {
	ctx, l.cancel = context.WithCancel(ctx)
	go func() {
		defer close(l.done)
		l.run(ctx)
	}()
}

// stop ends the loop and waits for its goroutines.
func (l *loop) stop() {
	l.cancel()
	<-l.done
}

func (l *loop) run(ctx context.Context) {
	timer := newWake()
	defer timer.Stop()
	for {
		select {
		case <-l.inbox.wake:
		case call := <-l.calls:
			call(l.core)
			continue
		case <-timer.C:
		case <-ctx.Done():
			l.turn(ctx, append(l.inbox.close(), core.Shut{})...)
			l.shared.occupancy.note(core.Load{})
			l.running.Wait()
			return
		}
		timer.set(l.turn(ctx, l.inbox.take()...))
		l.inbox.done()
	}
}

// do queues an input, and reports whether the loop will handle it.
func (l *loop) do(in core.Input) bool { return l.inbox.put(in) }

// call has the loop run f between turns, and reports whether f ran.
func (l *loop) call(f func(*core.Core)) bool {
	done := make(chan struct{})
	select {
	case l.calls <- func(c *core.Core) { defer close(done); f(c) }:
		<-done
		return true
	case <-l.done:
		return false
	}
}

// wait queues the input of a caller, and returns the answer. When the caller's context ends first, wait informs the
// core, which then answers.
func (l *loop) wait(w *waiter, in core.Input) (*Session, error) {
	if !l.do(in) {
		return nil, session.ErrClosed
	}
	select {
	case o := <-w.answer:
		return o.s, o.err
	case <-w.ctx.Done():
	}
	l.do(core.GiveUp{Call: &w.Call, Cause: context.Cause(w.ctx)})
	o := <-w.answer // the core answers every call before it ends
	return o.s, o.err
}

// open opens a session and waits for the answer.
func (l *loop) open(ctx context.Context, want sessions.Want) (*Session, error) {
	w := newWaiter(ctx)
	w.Trace = placeOf(ctx, &l.cfg)
	w.Session = newSession(ctx, l)
	if w.Want = want; want.Request == (session.RequestID{}) {
		w.Want.Request = newRequestID()
	}
	return l.wait(w, core.Open{Call: &w.Call})
}

// resume resumes a session and waits for the answer.
func (l *loop) resume(ctx context.Context, t session.Token) (*Session, error) {
	w := newWaiter(ctx)
	w.Trace = placeOf(ctx, &l.cfg)
	w.Session = newSession(ctx, l)
	return l.wait(w, core.Resume{Call: &w.Call, Token: t})
}

// close ends a session and waits for the answer.
func (l *loop) close(ctx context.Context, s *Session) error {
	w := newWaiter(ctx)
	w.Trace = placeOf(ctx, &l.cfg)
	_, err := l.wait(w, core.Close{Call: &w.Call, Session: s.core})
	return err
}

// upgrade makes a session global and waits for the answer.
func (l *loop) upgrade(ctx context.Context, s *Session) error {
	w := newWaiter(ctx)
	w.Trace = placeOf(ctx, &l.cfg)
	_, err := l.wait(w, core.Upgrade{Call: &w.Call, Session: s.core})
	return err
}

// listener passes a stream's reports to the loop, until the loop closes the stream.
type listener struct {
	loop *loop
	conn *conn.Conn
}

// Up implements [stream.Listener].
func (t *listener) Up(ctx context.Context) { t.loop.inbox.offer(ctx, core.Up{Conn: t.conn}) }

// Received implements [stream.Listener].
func (t *listener) Received(ctx context.Context, m *holdfastv1.ServerMessage) {
	t.loop.inbox.offer(ctx, core.Received{Conn: t.conn, Message: m})
}

// Down implements [stream.Listener].
func (t *listener) Down(ctx context.Context, err error) {
	t.loop.inbox.offer(ctx, core.Down{Conn: t.conn, Err: err})
}

// Members implements [stream.Listener].
func (t *listener) Members(ctx context.Context, addresses []string, err error) {
	t.loop.inbox.offer(ctx, core.Members{Conn: t.conn, Addresses: addresses, Err: err})
}

// dial begins to connect.
func (l *loop) dial(ctx context.Context, c *conn.Conn) {
	o := dial.Options{
		Dial: l.cfg.dialer.named(c.Server), Credentials: l.cfg.dialer.credentials(), ClientName: l.cfg.ClientName,
		Digests: l.cfg.Digests, Token: l.cfg.Token, TokenWithoutTLS: l.cfg.TokenWithoutTLS,
	}
	l.streams[c] = stream.Start(ctx, &l.running, c.Address, o, &listener{l, c})
}

// resolve starts to resolve a name.
func (l *loop) resolve(ctx context.Context, name conn.Lookup) {
	l.running.Go(func() {
		resolving, cancel := context.WithTimeout(ctx, name.Within)
		defer cancel()
		addresses, err := l.cfg.Resolve(resolving, name.Host)
		l.inbox.offer(ctx, core.Resolved{Of: name, Addresses: addresses, Err: err})
	})
}
