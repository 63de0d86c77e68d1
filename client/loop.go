package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client/internal/route"
	"holdfast/session"
)

// lookEvery is how often the loop looks for a suspension while it holds sessions (S5).
const lookEvery = time.Second

// loop owns all that a client's connection is about. Everything below the first group of fields is touched by its one
// goroutine only; others hand it functions.
type loop struct {
	cfg      Config
	clock    *clock
	jitter   *route.Jitter
	logger   hclog.Logger
	cancel   context.CancelFunc // set by start
	done     chan struct{}
	calls    chan func()
	arrivals chan arrival
	conns    sync.WaitGroup // goroutines of connections
	// connect begins to serve a connection: stream, but in tests that have no goroutine for each.
	connect func(context.Context, *conn)

	now         time.Time
	suspensions uint64
	sessions    map[session.ID]*held
	opens       map[*call]struct{} // not answered yet
	// dueAt is at or before the next moment at which a session lapses or its promise is half used up; zero for none.
	dueAt  time.Time
	cur    *conn   // serves the sessions
	next   *conn   // is tried, and becomes cur when it has served something
	racing []*conn // not up yet: the first one that is becomes next
	router route.Router
	stayed bool // a move has ended where it began: see stay
	// attempts numbers the resumes of all sessions (M1): rising for each session, also for one dropped and resumed
	// again.
	attempts uint64
	// trouble is what connections and nodes had against serving since one has served.
	trouble route.Failure

	settled   func(server string) // nil outside pools
	occupancy *occupancy
	seen      *seen // the client's
	// distrusted is the index that every node was behind: while none is higher, resumes go without it. See lag.
	distrusted uint64
	told       position // what Config.OnNode was told last
}

// held is a session the client holds, or is taking hold of while joining is set.
type held struct {
	s       *Session
	token   session.Token // the newest
	timeout time.Duration // 0 before the first grant
	joining *call         // waits for the first attachment
	closing []*call       // wait for the end
	// upgrading wait for the session to be global.
	upgrading []*call
	// upgradeSent: an upgrade was sent whose outcome is not known. The session may be at home at every node.
	upgradeSent bool

	on        *conn  // whose stream serves it, nil while none does
	since     uint64 // the newest seq there when it was attached
	resuming  *request
	unheard   bool // a resume was sent since, whose outcome is not known: see moved
	contested int  // refusals that the resume of a caller who takes the session over has met: see takeOver
	doubted   bool // was resumed because a node said that it had moved, and not who has it: see moved
	closeSent bool

	until    time.Time // the latest promise
	promised time.Time // when the newest promise was asked for
	renewBy  time.Time // a promise not renewed by then is half used up: move
}

// call is a caller that waits: for an open, a resume, an upgrade, or a close. The loop answers each once.
type call struct {
	ctx      context.Context //nolint:containedctx // hands its values to the session, and is the caller's own
	opts     SessionOptions
	request  session.RequestID
	sends    int
	h        *held // the session being joined, upgraded or closed, once there is one
	closes   bool
	upgrades bool         // waits for an upgrade
	answer   chan outcome // has room for the one answer
	settled  bool
	last     error // what stood in the way last
	on       *conn // an open is on: queued, sent or refused for now; nil while it waits for one that may serve it
}

type outcome struct {
	s   *Session
	err error
}

func newCall(ctx context.Context) *call { return &call{ctx: ctx, answer: make(chan outcome, 1)} }

// settle answers the caller.
func (c *call) settle(s *Session, err error) {
	if c != nil && !c.settled {
		c.settled = true
		c.answer <- outcome{s, err}
	}
}

func newLoop(cfg Config, c *clock, d *route.Jitter) *loop {
	l := &loop{
		cfg: cfg, clock: c, jitter: d, logger: cfg.Logger,
		done: make(chan struct{}), calls: make(chan func()), arrivals: make(chan arrival),
		occupancy: new(occupancy), seen: new(seen), sessions: make(map[session.ID]*held),
		opens: make(map[*call]struct{}),
	}
	l.router.Fresh = true
	l.connect = l.stream
	return l
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
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var do func()
		select {
		case do = <-l.calls:
		case a := <-l.arrivals:
			do = func() { l.arrived(a) }
		case <-timer.C:
		case <-ctx.Done():
			l.shut()
			l.occupancy.note(0, false)
			l.occupancy.at(nil)
			return
		}
		if at := l.turn(ctx, do); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(max(at.Sub(l.now), 0))
		}
	}
}

// turn takes in what happened, nil when it is only time that passed, does what can be done now, and returns wakeAt.
func (l *loop) turn(ctx context.Context, do func()) time.Time {
	l.look()
	l.checkSessions()
	if do != nil {
		do()
	}
	l.step(ctx)
	l.occupancy.note(len(l.sessions), l.takesWrites())
	l.occupancy.at(l.cur)
	l.tellPlace()
	return l.wakeAt()
}

// step brings everything forward that can be done now.
func (l *loop) step(ctx context.Context) {
	if l.idle() {
		l.endMove()
		switch {
		case l.cur == nil:
		case l.cur.dismissed():
			l.drop(l.cur, nil)
		default:
			l.cur.failing = nil // whoever comes next has another node looked for anew
		}
	} else {
		if l.stayed && l.cur != nil {
			l.rejoin()
			l.queueOpens()
		}
		l.settleFor(l.cur)
		l.checkConns()
		l.advance(ctx)
	}
	l.stayed = false
	for _, c := range []*conn{l.cur, l.next} {
		if c != nil {
			l.touch(c)
			l.pump(c)
		}
	}
}

// idle reports that nothing needs a connection.
func (l *loop) idle() bool { return len(l.sessions) == 0 && len(l.opens) == 0 }

// wakeAt returns when there is something to do if nothing arrives; zero for never.
func (l *loop) wakeAt() time.Time {
	at := l.dueAt
	if len(l.sessions) > 0 {
		at = route.Earliest(at, l.now.Add(lookEvery))
	}
	if l.next == nil {
		at = route.Earliest(at, l.router.WakesAt(len(l.racing)))
	}
	for _, c := range l.racing {
		at = route.Earliest(at, c.deadline)
	}
	for _, c := range []*conn{l.cur, l.next} {
		if c != nil {
			at = route.Earliest(at, c.deadline)
			at = route.Earliest(at, c.again.dueAt())
			at = route.Earliest(at, c.touchAt)
		}
	}
	if l.cur != nil && !l.idle() { // whoever needs nothing leaves nobody: nothing would be done about it
		at = route.Earliest(at, l.cur.stallsAt())
	}
	return at
}

// post has the loop run f, and reports whether it will.
func (l *loop) post(f func()) bool {
	select {
	case l.calls <- f:
		return true
	case <-l.done:
		return false
	}
}

// wait returns the answer to c. When c's context ends first, it is given up.
func (l *loop) wait(c *call) (*Session, error) {
	select {
	case o := <-c.answer:
		return o.s, o.err
	case <-c.ctx.Done():
	}
	l.post(func() {
		if !c.settled {
			err := context.Cause(c.ctx)
			if last := c.last; last != nil && l.readOnly(l.cur) && !errors.Is(last, session.ErrReadOnly) {
				err = errors.Join(err, last, session.ErrReadOnly)
			} else if last != nil {
				err = errors.Join(err, last)
			} else {
				err = errors.Join(err, l.trouble.Last())
			}
			l.giveUp(c, err)
		}
	})
	o := <-c.answer // the loop answers every call before it ends
	return o.s, o.err
}

// giveUp answers a caller who waits no longer, and lets go of what nobody waits for.
func (l *loop) giveUp(c *call, err error) {
	if c.settled {
		return
	}
	delete(l.opens, c)
	c.settled = true // whoever is told that the session has ended is not told so
	switch h := c.h; {
	case h == nil:
	case c.upgrades:
		h.upgrading = slices.DeleteFunc(h.upgrading, func(other *call) bool { return other == c })
	case c.closes:
		h.closing = slices.DeleteFunc(h.closing, func(other *call) bool { return other == c })
		if len(h.closing) == 0 {
			l.abandon(h, err)
		}
	default:
		l.abandon(h, err)
	}
	c.answer <- outcome{err: err}
}

// look reads the clock; after a suspension all promises are dropped and the sessions touched at once (S5).
func (l *loop) look() {
	now, suspensions := l.clock.look()
	l.now = now
	if suspensions == l.suspensions {
		return
	}
	l.suspensions = suspensions
	l.logger.Warn("machine was suspended: promises are void")
	for _, h := range l.sessions {
		l.lapse(h)
	}
	if l.cur != nil && len(l.sessions) > 0 {
		l.cur.touchAt = now
	}
}

// shut ends everything that waits, the sessions and the connections.
func (l *loop) shut() {
	l.now, _ = l.clock.look()
	for c := range l.opens {
		c.settle(nil, session.ErrClosed)
	}
	for _, h := range l.sessions {
		l.end(h, session.ErrClosed)
	}
	for _, c := range append(l.racing, l.cur, l.next) {
		if c != nil {
			c.cancel()
		}
	}
	l.conns.Wait()
}
