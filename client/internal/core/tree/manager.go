package tree

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"time"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	"holdfast/client/internal/window"
	"holdfast/client/internal/writes"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// Errors of reads and writes. The SDK re-exports them.
var (
	// ErrNoEffect: the write had no effect and will have none.
	ErrNoEffect = errors.New("the write had no effect")
	// ErrResultGone: the write took effect, or was refused for good, and the node has forgotten its result (X9 writes
	// in the certificate).
	ErrResultGone = errors.New("the write took effect, and its result is gone")
)

// maxReads bounds the reads of a connection that are in flight. Others wait for a free slot.
const maxReads = 512

// Config describes how a client uses the tree.
type Config struct {
	// Instance names the client to the cluster (M1 a resume is a move).
	Instance uint64
	// FailInFlight answers callers with [session.ErrOutcomeUnknown] when the answer to their request can no longer
	// arrive.
	FailInFlight bool
}

// Manager holds the reads, writes and watches of a client. Not safe for concurrent use.
type Manager struct {
	// Effects of the present turn.
	Effects Effects

	cfg      Config
	conns    *conn.Manager
	sessions *sessions.Manager
	// calls are the unanswered reads. reads are the queued reads without a session, and abandoned counts the callers in
	// reads that have given up since the last cleaning.
	calls     map[*Call]struct{}
	reads     []*readBody
	abandoned int
	// bySession has an entry for each session that has read, written or resumed writes.
	bySession map[*sessions.Session]*requests
	// busy may have something to send now, and paused at a moment.
	busy   map[*requests]struct{}
	paused map[*requests]time.Time
	// unacked have results that the cluster does not know to have arrived.
	unacked map[*requests]struct{}
	watches watches
}

// requests are a session's reads and writes.
type requests struct {
	h      *sessions.Session
	writes *writes.Queue
	// called counts the writes, including writes without a number. calls are the unanswered writes.
	called uint64
	calls  map[*Call]struct{}
	// reads are queued, in their order. abandoned counts as in Manager.
	reads     []*readBody
	abandoned int
	// acked is the newest acknowledgement that was sent on this attachment.
	acked uint64
	// mustResume: the session must be resumed before it writes.
	mustResume bool
	// upgrade makes a local session global; nil for none.
	upgrade *sessions.Call
	// lost is why the session can write no more.
	lost error
}

// Call is a caller that waits for a read or a write. It gets one answer.
type Call struct {
	// Handle is the caller's.
	Handle any
	// Transaction and Will belong to a write.
	Transaction tree.Transaction
	Will        *tree.Will
	// UntilAnswered has the write sent again, even if the client is configured to give up what is in flight on a lost
	// connection.
	UntilAnswered bool
	// Trace is the caller's place in a trace, nil for none.
	Trace *session.Trace
	// Query belongs to a read, and Watch is the one-shot watch that the read sets; nil for none.
	Query tree.Query
	Watch *Watch

	of    *requests // nil for a read without a session
	write *writes.Write
	// after counts the writes of the session that were called before; of a write, including itself.
	after    uint64
	lagged   int // how often a node was behind
	answered bool
	last     error // the newest obstacle
}

// Effects are the results for the application about the tree, in the order of the fields and of their elements.
type Effects struct {
	// Deliveries are for watches. They come before the answers to reads and writes (G1 order per connection).
	Deliveries []Delivery
	// Done are the answers to reads and writes.
	Done []Done
}

// Done is the answer to a [Call].
type Done struct {
	Call   *Call
	Result tree.Result
	Answer tree.Answer
	Err    error
}

// Reset empties the effects of the last turn and reuses their memory.
func (e *Effects) Reset() {
	clear(e.Deliveries)
	clear(e.Done)
	e.Deliveries, e.Done = e.Deliveries[:0], e.Done[:0]
}

// New returns a manager without requests.
func New(cfg Config, conns *conn.Manager, all *sessions.Manager) *Manager {
	return &Manager{
		cfg: cfg, conns: conns, sessions: all, calls: make(map[*Call]struct{}),
		bySession: make(map[*sessions.Session]*requests), busy: make(map[*requests]struct{}),
		paused: make(map[*requests]time.Time), unacked: make(map[*requests]struct{}),
		watches: watches{all: make(map[tree.WatchSpec]*entry)},
	}
}

// requestsOf returns the requests of a session, which the first call makes.
func (m *Manager) requestsOf(h *sessions.Session) *requests {
	s := m.bySession[h]
	if s == nil {
		s = &requests{h: h, writes: writes.New(), calls: make(map[*Call]struct{})}
		if h.Attached() {
			_, _ = s.writes.Resumed(0, 0) // nothing to lose: the session has not written
		}
		m.bySession[h] = s
	}
	return s
}

// answer answers a call, unless it has its answer.
func (m *Manager) answer(call *Call, d Done) {
	if call.answered {
		return
	}
	call.answered, d.Call = true, call
	delete(m.calls, call)
	if call.of != nil {
		delete(call.of.calls, call)
	}
	m.Effects.Done = append(m.Effects.Done, d)
}

// GiveUp answers a caller that stops waiting because of cause.
func (m *Manager) GiveUp(call *Call, cause error) {
	if call.answered {
		return
	}
	call.last = errors.Join(cause, m.obstacle(cause, call.last))
	if call.write == nil {
		m.answer(call, Done{Err: call.last})
		m.forgetRead(call)
		return
	}
	m.giveUpWrite(call)
	m.markBusy(call.of)
}

// obstacle returns the obstacle of a caller that gives up because of cause: the last one that a node has named, or
// else the client's.
func (m *Manager) obstacle(cause, last error) error {
	if last != nil {
		return last
	}
	return m.conns.Obstacle(cause)
}

// markBusy has the next Send consider a session.
func (m *Manager) markBusy(s *requests) {
	if m.sessions.Holds(s.h) {
		m.busy[s] = struct{}{}
	}
}

// Idle reports whether the tree needs no connection beyond those of sessions.
func (m *Manager) Idle() bool { return len(m.calls) == 0 && len(m.watches.all) == 0 }

// NeedsLeader reports whether anything waits that a read-only node refuses.
func (m *Manager) NeedsLeader() bool {
	for call := range m.calls {
		if !call.Query.Options.AllowStale {
			return true
		}
	}
	return len(m.watches.all) > 0 || len(m.busy) > 0 || len(m.paused) > 0
}

// WakeAt returns when the manager has something to do if no input comes; zero for never.
func (m *Manager) WakeAt() (at time.Time) {
	for _, one := range m.paused {
		at = route.Earliest(at, one)
	}
	return at
}

// Send sends all requests that may go out now.
func (m *Manager) Send() {
	m.sendWatches() // first: reads wait for the events that watches catch up with
	now := m.conns.Now()
	for s, at := range m.paused {
		if !now.Before(at) {
			delete(m.paused, s)
			m.markBusy(s)
		}
	}
	if len(m.busy) > 0 {
		for _, s := range slices.SortedFunc(maps.Keys(m.busy), bySessionID) {
			if m.sendRequests(s) {
				delete(m.busy, s)
			}
		}
	}
	m.sendReads()
}

func bySessionID(x, y *requests) int { return cmp.Compare(x.h.ID(), y.h.ID()) }

// knowsState reports whether the node of c has reported its state. Otherwise it asks the node: the client may move to a
// better node, before it sends any request of the tree.
func (m *Manager) knowsState(c *conn.Conn) bool {
	m.conns.ProbeState(c)
	return c.Responded()
}

// Receive handles an answer or the events of a node, and reports whether the message was any.
func (m *Manager) Receive(c *conn.Conn, msg *holdfastv1.ServerMessage) bool {
	switch a := msg.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Written:
		if _, b, ok := conn.Answered[*writeBody](c, a.Written.GetSeq()); ok {
			m.written(c, b, a.Written)
		}
	case *holdfastv1.ServerMessage_Read:
		if _, b, ok := conn.Answered[*readBody](c, a.Read.GetSeq()); ok {
			m.readAnswered(c, b, a.Read)
		}
	case *holdfastv1.ServerMessage_WatchesAdded:
		if _, b, ok := conn.Answered[*watchBody](c, a.WatchesAdded.GetSeq()); ok {
			m.watchesAdded(c, b, a.WatchesAdded)
		}
	case *holdfastv1.ServerMessage_WatchesRemoved:
		c.Window.Remove(a.WatchesRemoved.GetSeq())
	case *holdfastv1.ServerMessage_Events:
		m.receiveEvents(c, a.Events)
	case *holdfastv1.ServerMessage_Lost:
		m.eventsLost(c, tree.Stamp(a.Lost.GetStamp()))
	case *holdfastv1.ServerMessage_Progress:
		m.DeliveredUpTo(c, tree.Stamp(a.Progress.GetStamp()))
	default:
		return false
	}
	return true
}

// Refused handles the refusal of a request, and reports whether the request was about the tree.
func (m *Manager) Refused(c *conn.Conn, r *window.Request, err error) bool {
	switch b := r.Body.(type) {
	case *writeBody:
		m.writeRefused(c, r, b, err)
	case *readBody:
		m.readRefused(c, r, b, err)
	case *watchBody:
		m.watchRefused(c, r, b, err)
	case *unwatchBody: // the node may keep watching; its events have no receiver
	default:
		return false
	}
	return true
}

// Dropped queues the reads that were in flight on a closed connection. Unanswered writes are sent again with the next
// attachment of their session, unless their callers chose to fail on an unknown outcome.
func (m *Manager) Dropped(c *conn.Conn) {
	var back []*window.Request
	for _, all := range []func(func(*window.Request) bool){c.Window.InFlight(), c.Window.Queued()} {
		for r := range all {
			switch b := r.Body.(type) {
			case *readBody:
				back = append(back, r)
			case *writeBody:
				m.outcomeUnknown(b)
			}
		}
	}
	slices.SortFunc(back, func(x, y *window.Request) int { return int(int64(y.Seq) - int64(x.Seq)) })
	for _, r := range back {
		if b, ok := r.Body.(*readBody); ok {
			m.queueAgain(b)
		}
	}
}

// Denied answers the reads without a session, and ends the watches that no node has begun. A watch that was in place
// continues.
func (m *Manager) Denied(err error) {
	for call := range m.calls {
		if call.of == nil {
			m.answer(call, Done{Err: err})
		}
	}
	m.reads, m.abandoned = nil, 0
	for _, e := range m.watches.sorted() {
		m.endStarting(e, err)
		if !e.wanted() {
			m.watches.forget(e)
		}
	}
}

// Shut answers all callers and ends all watches.
func (m *Manager) Shut() {
	for call := range m.calls {
		m.answer(call, Done{Err: session.ErrClosed})
	}
	for _, e := range m.watches.sorted() {
		m.endWatches(e, session.ErrClosed)
	}
}
