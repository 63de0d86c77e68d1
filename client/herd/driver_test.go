package herd

import (
	"context"
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/internal/core"
	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	"holdfast/fsm"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

// herdTrip is how long a message takes one way.
const herdTrip = 500 * time.Microsecond

// herd drives the cores of many clients with one goroutine. A core takes a turn when it has an input, and at the time
// that it asked to be woken. Connections are virtual: a message takes herdTrip, and a node passes it to its rate limits
// and then to its learner, as a client port does. A connection to the address of a dead node is never established.
type herd struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // lasts as long as the clients
	start   time.Time
	cluster *herdCluster
	clients []*herdClient
	events  herdEvents

	mu    sync.Mutex
	inbox []func()      // guarded by mu; functions that the driver must run
	told  chan struct{} // has room for one
}

type herdClient struct {
	h         *herd
	core      *core.Core
	endpoints []string
	timeout   time.Duration
	sessions  []*herdSession
	wake      time.Time // the time of the next wake; zero for none
	conns     map[*conn.Conn]*herdConn
	// rude: the client ignores retry times.
	rude bool
}

// herdSession is a session of a client.
type herdSession struct {
	core *sessions.Session
	err  error // the error that ended the session
	// backAt is the time at which a node served the session again; 0 before. deadline is the earliest time at which the
	// session may expire.
	backAt, deadline time.Duration
	// lapsed: the session had no promise for a while.
	lapsed bool
}

// herdConn is a connection of a client, and the session.Events of its node.
type herdConn struct {
	client *herdClient
	conn   *conn.Conn
	// hungUp: the client has closed the connection.
	hungUp bool
	node   *herdNode
	places *ratelimit.Reservations
	serves session.Connection
}

// newHerd returns clients for the sessions, with the given number for each client, at the moment when every connection
// broke. Each client last touched its sessions at a random time within the last touch interval.
//
//nolint:revive // t first, as everywhere in tests
func newHerd(t *testing.T, ctx context.Context, c *herdCluster, all []session.Session, each int,
	seed uint64,
) *herd {
	t.Helper()
	h := &herd{t: t, ctx: ctx, start: time.Now(), cluster: c, told: make(chan struct{}, 1)}
	random := rand.New(rand.NewPCG(seed, 1))
	for held := range slices.Chunk(all, each) {
		s := held[0]
		endpoints := []string{herdAddress(1), herdAddress(2), herdAddress(3)}
		age := time.Duration(random.Int64N(int64(s.Timeout / sessions.TouchPart)))
		hc := &herdClient{
			h: h, endpoints: endpoints, timeout: s.Timeout, conns: map[*conn.Conn]*herdConn{},
			core: core.New(core.Config{
				Instance: random.Uint64() | 1, Servers: endpoints, ConnectTimeout: client.DefaultConnectTimeout,
				HedgeDelay: client.DefaultHedgeDelay,
				Jitter: route.NewJitter(rand.NewPCG(seed, uint64(s.ID)), client.DefaultMinBackoff,
					client.DefaultMaxBackoff),
			}),
		}
		hc.hold(held, s.Timeout-age, s.Timeout-s.Timeout/100-time.Millisecond-age)
		h.clients = append(h.clients, hc)
	}
	return h
}

func credentialIn(state *fsm.State, id session.ID) session.Credential {
	c, _ := state.Credential(id)
	return c
}

// hold resumes sessions at their owner, which is that of the first, and has the client lose the connection.
func (c *herdClient) hold(held []session.Session, deadline, safeFor time.Duration) {
	at := core.Moment{Now: time.Now()}
	tokens := make([]session.Token, len(held))
	for i, s := range held {
		tokens[i] = session.Token{
			ID: s.ID, Credential: credentialIn(c.h.cluster.state, s.ID), Attachment: s.Attachment,
		}
	}
	e := c.core.Turn(at, core.Resume{Call: new(sessions.Call), Token: tokens[0]})
	first := dialled(e)
	for first.Server != herdAddress(held[0].Owner) { // only the owner is up
		e = c.core.Turn(at, core.Down{Conn: first, Err: route.ErrSlow})
		first = dialled(e)
	}
	e = c.core.Turn(at, core.Up{Conn: first})
	for i, s := range held {
		if i > 0 {
			e = c.core.Turn(at, core.Resume{Call: new(sessions.Call), Token: tokens[i]})
		}
		resume := e.Conns.Actions[0].Message.GetResume()
		e = c.core.Turn(at, core.Received{Conn: first, Message: resumedMessage(resume.GetSeq(), session.Grant{
			Session: s, Token: tokens[i], SafeFor: safeFor,
		})})
		c.sessions = append(c.sessions, &herdSession{core: e.Sessions.Granted[0].Session, deadline: deadline})
	}
	c.conns[first] = &herdConn{client: c, conn: first}
	c.turn(core.Down{Conn: first, Err: conn.ErrStalled})
}

// dialled returns the connection that a turn dials.
func dialled(e *core.Effects) *conn.Conn {
	i := slices.IndexFunc(e.Conns.Actions, func(a conn.Action) bool { return a.Do == conn.Dial })
	return e.Conns.Actions[i].Conn
}

func resumedMessage(seq uint64, g session.Grant) *holdfastv1.ServerMessage {
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
		Seq: seq, Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token),
		SafeFor: wire.PromiseProto(g.SafeFor),
	}}}
}

// turn takes a turn of the client's core, performs its actions, and files its next wake.
func (c *herdClient) turn(in core.Input) {
	e := c.core.Turn(core.Moment{Now: time.Now()}, in)
	for _, a := range e.Conns.Actions {
		switch a.Do {
		case conn.Dial:
			c.dial(a.Conn)
		case conn.Send:
			if hc := c.conns[a.Conn]; hc.serves != nil {
				c.h.at(herdTrip, func() { hc.receive(a.Message) })
			}
		case conn.HangUp:
			c.conns[a.Conn].hangUp()
		case conn.AskMembers: // the clients know all nodes
		}
	}
	for _, s := range c.sessions {
		for _, ended := range e.Sessions.Ended {
			if ended.Session == s.core {
				s.err = ended.Err
			}
		}
		s.lapsed = s.lapsed || s.core.Until().IsZero()
		if s.backAt == 0 && s.core.Attached() {
			s.backAt = max(time.Since(c.h.start), 1)
		}
	}
	c.file(e.WakeAt)
}

// file has the client woken at a time, unless it is woken before.
func (c *herdClient) file(wake time.Time) {
	if !wake.IsZero() && (c.wake.IsZero() || wake.Before(c.wake)) {
		c.wake = wake
		c.h.at(time.Until(wake), func() {
			if c.wake.Equal(wake) { // otherwise an earlier wake has replaced this one
				c.wake = time.Time{}
				c.turn(nil)
			}
		})
	}
}

// dial establishes a connection.
func (c *herdClient) dial(to *conn.Conn) {
	hc := &herdConn{client: c, conn: to}
	c.conns[to] = hc
	if hc.node = c.h.cluster.nodes[session.Node(slices.Index(c.endpoints, to.Server)+1)]; hc.node == nil {
		return // a dead node never answers
	}
	c.h.at(3*herdTrip, func() { // the handshakes of TCP and of the stream
		if hc.hungUp {
			return
		}
		hc.places = hc.node.limiter.Reservations(herdVisitor(), 1024)
		serves, err := hc.node.server.Connect(hc)
		if err != nil {
			c.turn(core.Down{Conn: to, Err: err})
			return
		}
		hc.serves = serves
		c.turn(core.Up{Conn: to})
	})
}

// hangUp closes a connection at both ends.
func (hc *herdConn) hangUp() {
	hc.hungUp = true
	delete(hc.client.conns, hc.conn)
	if hc.serves != nil {
		go func() {
			hc.serves.Disconnect()
			hc.places.Leave()
		}()
	}
}

// answer delivers m to the client after a trip.
func (hc *herdConn) answer(m *holdfastv1.ServerMessage) {
	m.State = &holdfastv1.NodeState{
		Node: uint32(hc.node.number), Mode: holdfastv1.Mode_MODE_READ_WRITE, MaxBatch: session.MaxBatch,
	}
	hc.client.h.at(herdTrip, func() {
		if !hc.hungUp {
			hc.client.turn(core.Received{Conn: hc.conn, Message: m})
		}
	})
}

func (hc *herdConn) failed(seq uint64, err error) {
	if limit, ok := errors.AsType[*session.LimitError](err); ok && hc.client.rude {
		unheard := *limit
		unheard.RetryAfter = 0
		err = &unheard
	}
	hc.answer(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)}})
}

// receive handles a message as the client port does.
func (hc *herdConn) receive(m *holdfastv1.ClientMessage) {
	h, now := hc.client.h, time.Now()
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Touch:
		if err := hc.places.Admit(now, ratelimit.Arrival{Kind: ratelimit.Touches}); err != nil {
			hc.failed(m.Touch.GetSeq(), err)
			return
		}
		hc.answer(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{
			Seq: m.Touch.GetSeq(), SafeFor: wire.PromiseProto(hc.serves.Touch(nil).SafeFor),
		}}})
	case *holdfastv1.ClientMessage_Resume:
		seq := m.Resume.GetSeq()
		hc.node.asked++
		token, err := wire.TokenFrom(m.Resume.GetToken())
		if err != nil {
			h.t.Error(err)
			return
		}
		if err := hc.places.Admit(now, ratelimit.Arrival{Kind: ratelimit.Resumes, Session: token.ID}); err != nil {
			hc.failed(seq, err)
			return
		}
		hc.node.admitted = append(hc.node.admitted, now.Sub(h.start))
		go func() {
			g, err := hc.serves.Resume(h.ctx,
				session.ResumeRequest{Token: token, Instance: m.Resume.GetInstance(), Attempt: m.Resume.GetAttempt()})
			h.tell(func() {
				if err != nil {
					hc.failed(seq, err)
					return
				}
				hc.answer(resumedMessage(seq, g))
			})
		}()
	case *holdfastv1.ClientMessage_ResumeSessions:
		hc.resumeMany(m.ResumeSessions)
	default:
		h.t.Errorf("the herd sends %T", m)
	}
}

// Gone implements session.Events.
func (hc *herdConn) Gone(c session.Certificate) {
	hc.client.h.tell(func() {
		hc.answer(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{Gone: &holdfastv1.Gone{
			Ids: []uint64{uint64(c.ID)}, Cause: holdfastv1.Cause_CAUSE_EXPIRED,
			Certificate: []*holdfastv1.Certificate{wire.CertificateProto(c)},
		}}})
	})
}

// Moved implements session.Events. A client has one session, so only its own resume moves it, and the client is at the
// new connection by then.
func (*herdConn) Moved(session.ID, uint64, uint64) {}

// MovedLocally implements session.Events. The herd has no local sessions.
func (*herdConn) MovedLocally(session.ID, uint64, uint64) {}

// Jeopardy implements session.Events.
func (hc *herdConn) Jeopardy(time.Time, []string) {
	hc.client.h.tell(func() {
		hc.answer(
			&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: &holdfastv1.Jeopardy{}}},
		)
	})
}

// Draining implements session.Events. No node of a herd is drained.
func (*herdConn) Draining(*session.DrainingError) {}

// DrainingEnded implements session.Events.
func (*herdConn) DrainingEnded() {}

// DrainTimeout implements session.Events.
func (*herdConn) DrainTimeout() {}

// JeopardyEnded implements session.Events.
func (hc *herdConn) JeopardyEnded() {
	hc.client.h.tell(func() {
		hc.answer(
			&holdfastv1.ServerMessage{
				Message: &holdfastv1.ServerMessage_JeopardyEnded{JeopardyEnded: &holdfastv1.JeopardyEnded{}},
			},
		)
	})
}

// breakAll breaks every connection.
func (h *herd) breakAll() {
	for _, c := range h.clients {
		c.breakAll()
	}
}

// breakAll breaks the client's connections: the client has to return once more.
func (c *herdClient) breakAll() {
	for _, s := range c.sessions {
		if s.backAt > 0 {
			s.deadline, s.backAt = max(s.deadline, s.backAt+c.timeout), 0
		}
	}
	for _, hc := range slices.Collect(maps.Values(c.conns)) {
		if hc.serves != nil {
			c.turn(core.Down{Conn: hc.conn, Err: conn.ErrStalled})
		}
	}
}

// tell makes the driver run f, without waiting for it.
func (h *herd) tell(f func()) {
	h.mu.Lock()
	h.inbox = append(h.inbox, f)
	h.mu.Unlock()
	select {
	case h.told <- struct{}{}:
	default:
	}
}

// at has the driver run f after d.
func (h *herd) at(d time.Duration, f func()) {
	h.events.push(herdEvent{at: max(time.Since(h.start)+d, 0), number: h.events.pushed, do: f})
}

// run drives the herd until a time since its start.
func (h *herd) run(until time.Duration) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		h.mu.Lock()
		inbox := h.inbox
		h.inbox = nil
		h.mu.Unlock()
		for _, f := range inbox {
			f()
		}
		now := time.Since(h.start)
		if now >= until {
			return
		}
		for len(h.events.heap) > 0 && h.events.heap[0].at <= now {
			h.events.pop().do()
		}
		next := until
		if len(h.events.heap) > 0 {
			next = min(next, h.events.heap[0].at)
		}
		timer.Reset(max(next-now, 0))
		select {
		case <-timer.C:
		case <-h.told:
		}
	}
}

// herdEvents is a heap of events, the earliest at the front.
type herdEvents struct {
	heap   []herdEvent
	pushed uint64
}

type herdEvent struct {
	at     time.Duration
	number uint64 // of events at the same time, the lowest number comes first
	do     func()
}

func (a herdEvent) before(b herdEvent) bool {
	return a.at < b.at || a.at == b.at && a.number < b.number
}

func (e *herdEvents) push(event herdEvent) {
	e.pushed++
	e.heap = append(e.heap, event)
	for i := len(e.heap) - 1; i > 0; {
		parent := (i - 1) / 2
		if !e.heap[i].before(e.heap[parent]) {
			return
		}
		e.heap[i], e.heap[parent] = e.heap[parent], e.heap[i]
		i = parent
	}
}

func (e *herdEvents) pop() herdEvent {
	first, last := e.heap[0], len(e.heap)-1
	e.heap[0] = e.heap[last]
	e.heap[last] = herdEvent{}
	e.heap = e.heap[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if e.heap[child].before(e.heap[least]) {
				least = child
			}
		}
		if least == i {
			return first
		}
		e.heap[i], e.heap[least] = e.heap[least], e.heap[i]
		i = least
	}
}
