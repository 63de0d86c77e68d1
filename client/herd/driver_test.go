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
	"holdfast/client/internal/route"
	"holdfast/fsm"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/gate"
	"holdfast/transport/wire"
)

// herdTrip is how long a message takes one way.
const herdTrip = 500 * time.Microsecond

// herd drives the cores of many clients: each is the SDK's own, turned by one goroutine when something happens to it or
// the moment comes that it asked to be woken at. What a connection is, is the herd's: messages take herdTrip, and a
// node does with them what its client port would: the gate, then the learner. An address that is no living node's is
// never connected.
type herd struct {
	t       *testing.T
	ctx     context.Context //nolint:containedctx // the clients' life
	start   time.Time
	cluster *herdCluster
	clients []*herdClient
	events  herdEvents

	mu    sync.Mutex
	inbox []func()      // guarded by mu; what other goroutines have to tell
	told  chan struct{} // has room for one
}

type herdClient struct {
	h         *herd
	core      *core.Core
	endpoints []string
	timeout   time.Duration
	session   *core.Session
	wake      time.Time // the wake that is filed; zero for none
	conns     map[*core.Conn]*herdConn
	err       error // why the session has ended
	// backAt is when a node served the session again; 0 until then. deadline is when the session may have expired.
	backAt, deadline time.Duration
	// lapsed: the session was without a promise for a while.
	lapsed bool
	// rude: it takes no notice of when it is to come back.
	rude bool
}

// herdConn is what a node has of a connection. It is the session.Events behind it.
type herdConn struct {
	client *herdClient
	conn   *core.Conn
	// hungUp: the client has no use for the connection any more.
	hungUp bool
	node   *herdNode
	places *gate.Reservations
	serves session.Connection
}

// newHerd returns clients that held the sessions, each touched some time in the last quarter of its timeout, when every
// connection broke.
//
//nolint:revive // t first, as everywhere in tests
func newHerd(t *testing.T, ctx context.Context, c *herdCluster, sessions []session.Session,
	seed uint64,
) *herd {
	t.Helper()
	h := &herd{t: t, ctx: ctx, start: time.Now(), cluster: c, told: make(chan struct{}, 1)}
	random := rand.New(rand.NewPCG(seed, 1))
	for _, s := range sessions {
		endpoints := []string{herdAddress(1), herdAddress(2), herdAddress(3)}
		age := time.Duration(random.Int64N(int64(s.Timeout / core.TouchPart)))
		hc := &herdClient{
			h: h, endpoints: endpoints, timeout: s.Timeout, conns: map[*core.Conn]*herdConn{}, deadline: s.Timeout - age,
			core: core.New(core.Config{
				Instance: random.Uint64() | 1, Servers: endpoints, ConnectTimeout: client.DefaultConnectTimeout,
				HedgeDelay: client.DefaultHedgeDelay,
				Jitter: route.NewJitter(rand.NewPCG(seed, uint64(s.ID)), client.DefaultMinBackoff,
					client.DefaultMaxBackoff),
			}),
		}
		hc.hold(s, credentialIn(c.state, s.ID), s.Timeout-s.Timeout/100-time.Millisecond-age)
		h.clients = append(h.clients, hc)
	}
	return h
}

func credentialIn(state *fsm.State, id session.ID) session.Credential {
	c, _ := state.Credential(id)
	return c
}

// hold has the client take hold of s at its owner, and lose the connection.
func (c *herdClient) hold(s session.Session, credential session.Credential, safeFor time.Duration) {
	at := core.Moment{Now: time.Now()}
	token := session.Token{ID: s.ID, Credential: credential, Attachment: s.Attachment}
	e := c.core.Turn(at, core.Resume{Call: new(core.Call), Token: token})
	conn := dialled(e)
	for conn.Server != herdAddress(s.Owner) { // only the owner is there
		e = c.core.Turn(at, core.Down{Conn: conn, Err: route.ErrSlow})
		conn = dialled(e)
	}
	resume := c.core.Turn(at, core.Up{Conn: conn}).Actions[0].Message.GetResume()
	e = c.core.Turn(at, core.Received{Conn: conn, Message: resumedMessage(resume.GetSeq(), session.Grant{
		Session: s, Token: token, SafeFor: safeFor,
	})})
	c.session = e.Granted[0].Session
	c.conns[conn] = &herdConn{client: c, conn: conn}
	c.turn(core.Down{Conn: conn, Err: core.ErrStalled})
}

// dialled returns the connection that a client begins.
func dialled(e *core.Effects) *core.Conn {
	i := slices.IndexFunc(e.Actions, func(a core.Action) bool { return a.Do == core.Dial })
	return e.Actions[i].Conn
}

func resumedMessage(seq uint64, g session.Grant) *holdfastv1.ServerMessage {
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
		Seq: seq, Session: wire.SessionProto(g.Session), Token: wire.TokenProto(g.Token),
		SafeFor: wire.PromiseProto(g.SafeFor),
	}}}
}

// turn has the client's core take in what happened, brings about what it wants done, and files its next wake.
func (c *herdClient) turn(in core.Input) {
	e := c.core.Turn(core.Moment{Now: time.Now()}, in)
	for _, a := range e.Actions {
		switch a.Do {
		case core.Dial:
			c.dial(a.Conn)
		case core.Send:
			if hc := c.conns[a.Conn]; hc.serves != nil {
				c.h.at(herdTrip, func() { hc.receive(a.Message) })
			}
		case core.HangUp:
			c.conns[a.Conn].hangUp()
		}
	}
	for _, ended := range e.Ended {
		c.err = ended.Err
	}
	c.lapsed = c.lapsed || c.session.Until().IsZero()
	if c.backAt == 0 && c.session.Attached() {
		c.backAt = max(time.Since(c.h.start), 1)
	}
	c.file(e.WakeAt)
}

// file has the client woken.
func (c *herdClient) file(wake time.Time) {
	if !wake.IsZero() && (c.wake.IsZero() || wake.Before(c.wake)) {
		c.wake = wake
		c.h.at(time.Until(wake), func() {
			if c.wake.Equal(wake) { // else a later filing is the one that counts
				c.wake = time.Time{}
				c.turn(nil)
			}
		})
	}
}

// dial begins a connection.
func (c *herdClient) dial(conn *core.Conn) {
	hc := &herdConn{client: c, conn: conn}
	c.conns[conn] = hc
	if hc.node = c.h.cluster.nodes[session.Node(slices.Index(c.endpoints, conn.Server)+1)]; hc.node == nil {
		return // it never answers
	}
	c.h.at(3*herdTrip, func() { // TCP, and the begin of the stream
		if hc.hungUp {
			return
		}
		hc.places = hc.node.gate.Reservations(herdVisitor(), 1024)
		serves, err := hc.node.server.Connect(hc)
		if err != nil {
			c.turn(core.Down{Conn: conn, Err: err})
			return
		}
		hc.serves = serves
		c.turn(core.Up{Conn: conn})
	})
}

// hangUp ends a connection for the node as well.
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

// answer has the client hear m after a trip.
func (hc *herdConn) answer(m *holdfastv1.ServerMessage) {
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

// receive is what the client port does with a message.
func (hc *herdConn) receive(m *holdfastv1.ClientMessage) {
	h, now := hc.client.h, time.Now()
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Touch:
		if err := hc.places.Admit(now, gate.Arrival{Kind: gate.Touches}); err != nil {
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
		if err := hc.places.Admit(now, gate.Arrival{Kind: gate.Resumes, Session: token.ID}); err != nil {
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
	default:
		h.t.Errorf("the herd sends %T", m)
	}
}

// Gone is told by the node.
func (hc *herdConn) Gone(c session.Certificate) {
	hc.client.h.tell(func() {
		hc.answer(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Gone{Gone: &holdfastv1.Gone{
			Ids: []uint64{uint64(c.ID)}, Cause: holdfastv1.Cause_CAUSE_EXPIRED,
			Certificate: []*holdfastv1.Certificate{wire.CertificateProto(c)},
		}}})
	})
}

// Moved is told by the node: to an attachment that this connection was granted, unless the client is at another one
// already, which has nothing to hear of it.
func (*herdConn) Moved(session.ID, uint64, uint64) {}

// MovedLocally is told of local sessions.
func (*herdConn) MovedLocally(session.ID, uint64, uint64) {}

// Jeopardy is told by the node.
func (hc *herdConn) Jeopardy(time.Time, []string) {
	hc.client.h.tell(func() {
		hc.answer(
			&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Jeopardy{Jeopardy: &holdfastv1.Jeopardy{}}},
		)
	})
}

// JeopardyEnded is told by the node.
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

// breakAll breaks the client's connections: it has to come back once more.
func (c *herdClient) breakAll() {
	if c.backAt > 0 {
		c.deadline, c.backAt = max(c.deadline, c.backAt+c.timeout), 0
	}
	for _, hc := range slices.Collect(maps.Values(c.conns)) {
		if hc.serves != nil {
			c.turn(core.Down{Conn: hc.conn, Err: core.ErrStalled})
		}
	}
}

// tell has the driver run f; it does not block.
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

// run drives until so long after the start.
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

// herdEvents are things to come, the first at the front: a heap.
type herdEvents struct {
	heap   []herdEvent
	pushed uint64
}

type herdEvent struct {
	at     time.Duration
	number uint64 // of the same moment, the one that was filed first comes first
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
