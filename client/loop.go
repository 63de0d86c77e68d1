package client

import (
	"context"
	"maps"
	"sync"

	"holdfast/client/internal/core"
	"holdfast/client/internal/stream"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/dial"
)

// loop carries out what the core of a client decides. One goroutine takes the turns of the core. Other goroutines hand
// it inputs and wait for answers.
type loop struct {
	cfg    Config
	clock  *clock
	shared shared
	cancel context.CancelFunc // set by start
	done   chan struct{}
	inbox  *inbox
	asks   chan func(*core.Core)
	// running counts the goroutines of streams and lookups.
	running sync.WaitGroup

	// The fields below belong to the loop's goroutine.
	core    *core.Core
	streams map[*core.Conn]*stream.Stream
	sending sending
	// cluster is the identity of the cluster that the core was told of last.
	cluster uint64
}

// shared is the state that the loop shares with its client, and with the pool of its client.
type shared struct {
	occupancy *occupancy
	seen      *seen
	settled   func(server string) // nil outside pools
	learnt    func(addresses []string)
}

// waiter is a caller that waits for an answer of the core.
type waiter struct {
	core.Call
	ctx    context.Context //nolint:containedctx // the context of the caller that waits
	answer chan outcome    // room for one answer: the core gives no other
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
		asks: make(chan func(*core.Core)), core: core.New(decides), streams: make(map[*core.Conn]*stream.Stream),
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
		case ask := <-l.asks:
			ask(l.core)
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

// do hands the loop an input, and reports whether the loop takes it.
func (l *loop) do(in core.Input) bool { return l.inbox.put(in) }

// ask has the loop run f between turns, and reports whether it did.
func (l *loop) ask(f func(*core.Core)) bool {
	done := make(chan struct{})
	select {
	case l.asks <- func(c *core.Core) { defer close(done); f(c) }:
		<-done
		return true
	case <-l.done:
		return false
	}
}

// wait hands the loop the input of a caller, and returns the answer. When the caller's context ends first, it tells the
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
func (l *loop) open(ctx context.Context, o SessionOptions) (*Session, error) {
	w := newWaiter(ctx)
	w.Trace = placeOf(ctx, &l.cfg)
	w.Session = newSession(ctx, l)
	w.Want = core.Want{Timeout: o.Timeout, Labels: maps.Clone(o.Labels), Request: o.RequestID, Local: o.Local}
	if o.RequestID == (session.RequestID{}) {
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

// listener hands the loop what a stream tells, until the loop closes the stream.
type listener struct {
	loop *loop
	conn *core.Conn
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
func (l *loop) dial(ctx context.Context, c *core.Conn) {
	o := dial.Options{
		Dial: l.cfg.dialer.named(c.Server), Credentials: l.cfg.dialer.credentials(), Principal: l.cfg.Principal,
		Digests: l.cfg.Digests, Token: l.cfg.Token, PlainToken: l.cfg.PlainToken,
	}
	l.streams[c] = stream.Start(ctx, &l.running, c.Address, o, &listener{l, c})
}

// resolve begins to look up a name.
func (l *loop) resolve(ctx context.Context, name core.Lookup) {
	l.running.Go(func() {
		resolving, cancel := context.WithTimeout(ctx, name.Within)
		defer cancel()
		addresses, err := l.cfg.Resolve(resolving, name.Host)
		l.inbox.offer(ctx, core.Resolved{Of: name, Addresses: addresses, Err: err})
	})
}
