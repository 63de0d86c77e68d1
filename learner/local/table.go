package local

import (
	"errors"
	"sync"
	"time"

	"holdfast/session"
)

// rememberedEnds is the number of local sessions that a node remembers after they ended or became global: the newest
// ones.
const rememberedEnds = 10_000

// Conn is a client's connection that serves local sessions. Values are compared with ==. Safe for concurrent use.
type Conn interface {
	// Gone informs the client that a session has ended.
	Gone(c session.Certificate)
	// Moved informs the client that another client process has resumed a session that had become global.
	Moved(now session.Session)
	// MovedLocally informs the client that a session got a new attachment on this node.
	MovedLocally(id session.ID, attachment, instance uint64)
	// Promote begins to serve a session as the global one that it has become, by [Table.HandOver]. It returns false
	// when another connection serves the session by now.
	Promote(now session.Session) bool
}

// TableConfig configures a [Table].
type TableConfig struct {
	Node session.Node
	// Interval is the width of a bucket of the expiry queue. Smaller values are raised to session.MinExpiryInterval.
	Interval time.Duration
	// Capacity bounds the sessions (O4 state limits).
	Capacity session.Capacity
	// SuspendedSince reports whether the machine was suspended since a moment (S5).
	SuspendedSince func(moment time.Duration) bool
}

// Table holds the local sessions of a node: their facts and their deadlines. Moments are on the node's clock. Safe for
// concurrent use.
type Table struct {
	node           session.Node
	suspendedSince func(moment time.Duration) bool
	// ids are the ids for new sessions. The table locks ids while it holds mu.
	ids *idPool

	mu sync.Mutex
	// serving has the newest attachment of each session. guarded by mu
	serving map[session.ID]*Session
	// queue files the sessions by the time when they come due, with their timeouts. guarded by mu
	queue *session.ExpiryQueue[time.Duration]
	// order has the ids of serving, and of some ended sessions, in the order of the opens. Ids grow in this order too.
	// guarded by mu
	order []session.ID
	// requests are the opens whose repeats can be answered: the opens of the sessions in serving and in ring. guarded
	// by mu
	requests map[session.RequestID]session.ID
	// ring has the newest sessions that ended or became global; oldest is the index to overwrite next. ended has the
	// certificates of the ended sessions. guarded by mu
	ended  map[session.ID]session.Certificate
	ring   []former
	oldest int
	// freezes has the freezes of the cluster, on the node's clock. guarded by mu
	freezes session.FreezeTracker
	// usage is the sessions' use of the capacity. guarded by mu
	usage session.Usage
	// expired counts the sessions that expired, upgraded the sessions that became global. guarded by mu
	expired, upgraded uint64
}

// Session is one attachment of a local session.
type Session struct {
	// facts, request and attempt (M1) are constant: another attachment is another Session.
	facts   session.Session
	request session.RequestID
	attempt uint64

	// All following fields are guarded by Table.mu.

	item *session.Item[time.Duration]
	// last is the newest touch.
	last time.Duration
	// conn is notified of the end.
	conn Conn
	// over is the refusal of touches after the end; nil while the attachment is served.
	over error
	// upgrade is the upgrade in flight; nil for none.
	upgrade *upgrade
}

// Facts returns the constant facts of an attachment.
func (s *Session) Facts() session.Session { return s.facts }

// former is a session that is no longer local to this node, with the open that made it.
type former struct {
	id      session.ID
	request session.RequestID
}

// GlobalError says that the session of a repeated open has become global.
type GlobalError struct{ ID session.ID }

func (e *GlobalError) Error() string { return "session " + e.ID.String() + " has become global" }

// NewTable returns an empty table without ids.
func NewTable(cfg TableConfig) *Table {
	q, err := session.NewExpiryQueue[time.Duration](max(cfg.Interval, session.MinExpiryInterval))
	if err != nil {
		panic(err) // the interval was raised
	}
	return &Table{
		node: cfg.Node, queue: q, suspendedSince: cfg.SuspendedSince, ids: newIDPool(),
		serving: make(map[session.ID]*Session), requests: make(map[session.RequestID]session.ID),
		ended: make(map[session.ID]session.Certificate), usage: session.Usage{Capacity: cfg.Capacity},
	}
}

// firstAttachment is the attachment that an open makes (L5).
const firstAttachment = 1

// cost returns the bytes of s in the node's capacity. A local session has no tracker and no record in the log's state,
// so neither counts.
func (s *Session) cost() uint64 { return session.SessionBytes + s.facts.SpecBytes() }

// checkCapacity returns an error when one more session with spec does not fit. Called with mu held.
func (t *Table) checkCapacity(spec *session.Spec) error {
	err := t.usage.CheckCapacity(session.SessionBytes + spec.SpecBytes())
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		limit.Limit += ", for local sessions of this node"
	}
	return err
}

// Usage returns the sessions' use of the capacity.
func (t *Table) Usage() session.Usage {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.usage
}

// AddIDs adds a claimed block of ids to the stock.
func (t *Table) AddIDs(first session.ID, count uint32) { t.ids.add(first, count) }

// IDs returns the number of ids in stock.
func (t *Table) IDs() uint64 { return t.ids.left() }

// Open makes a session for conn, touched at now, with an id from the stock (L2 local ids). o.Timeout is the negotiated
// timeout. repeated answers a repeated request. Open returns nil and no error when there are no ids, and a
// [session.LimitError] when the capacity is used up.
func (t *Table) Open(o session.OpenRequest, conn Conn, now time.Duration) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if id, ok := t.requests[o.RequestID]; ok {
		return t.repeated(id, conn, now)
	}
	if err := t.checkCapacity(&o.Spec); err != nil {
		return nil, err
	}
	id, ok := t.ids.next()
	if !ok {
		return nil, nil //nolint:nilnil // the caller waits for ids
	}
	s := &Session{request: o.RequestID, conn: conn, last: now, facts: session.Session{
		ID: id, Spec: o.Spec, Owner: t.node, Attachment: firstAttachment,
		OpenedAt: session.TimeOfMS(o.MS), Local: true, Instance: o.Instance, // X5 of the tree: opens bring an instance
	}}
	var err error
	if s.item, err = t.queue.Add(id, now, o.Timeout, o.Timeout); err != nil {
		return nil, err
	}
	s.touch(now)
	t.serving[id], t.requests[o.RequestID] = s, id
	t.usage.Sessions++
	t.usage.Bytes += s.cost()
	t.order = append(t.order, id)
	return s, nil
}

// repeated answers a repeated open with the session of the first one, which conn serves from then on. If the session
// has been resumed since, the repeat is older than the resume, and the error is ErrMoved. For a session that is no
// longer here the error is its end, or a GlobalError. Called with mu held.
func (t *Table) repeated(id session.ID, conn Conn, now time.Duration) (*Session, error) {
	s := t.serving[id]
	if s == nil {
		if c, ok := t.ended[id]; ok {
			return nil, expired(&c)
		}
		return nil, &GlobalError{id}
	}
	if s.facts.Attachment != firstAttachment {
		return nil, session.MovedTo(s.facts)
	}
	s.conn = conn
	s.touch(now)
	return s, nil
}

// touch moves the deadline (L3 local expiry). Called with mu held.
func (s *Session) touch(now time.Duration) {
	s.last = max(s.last, now)
	s.item.Touch(now + s.facts.Timeout)
}

// restsOn returns the moment from which a promise counts (L4 local promises): now, or during an upgrade the beginning
// of the upgrade, because the log may already know the session without knowing of the touch (L8 one upgrade at a time).
// upgrading reports an upgrade in flight. Called with mu held.
func (s *Session) restsOn(now time.Duration) (rests time.Duration, upgrading bool) {
	if s.upgrade != nil {
		return s.upgrade.begun, true
	}
	return now, false
}

// promise returns the promise for a touch at now; negative for none. During an upgrade the leader's clock may decide,
// so there is no promise after a suspension since the upgrade's beginning (S5 suspended machines). Called without mu,
// because suspendedSince calls the clock.
//
//nolint:revive // flag-parameter: restsOn returns both
func (t *Table) promise(timeout, now, rests time.Duration, upgrading bool) time.Duration {
	if upgrading && t.suspendedSince(rests) {
		return -1
	}
	return session.SafeFor(timeout, now-rests)
}

// Touch records a touch of s and returns the promise. The error says why s is no longer served.
func (t *Table) Touch(s *Session, now time.Duration) (time.Duration, error) {
	t.mu.Lock()
	if s.over == nil {
		s.touch(now)
	}
	return t.unlockAndPromise(s, now)
}

// Promised returns the promise of s at now, without a touch. The error says why s is no longer served.
func (t *Table) Promised(s *Session, now time.Duration) (time.Duration, error) {
	t.mu.Lock()
	return t.unlockAndPromise(s, now)
}

// unlockAndPromise unlocks mu, which the caller has locked, and returns the promise of s at now.
func (t *Table) unlockAndPromise(s *Session, now time.Duration) (time.Duration, error) {
	if err := s.over; err != nil {
		t.mu.Unlock()
		return -1, err
	}
	rests, upgrading := s.restsOn(now)
	t.mu.Unlock()
	return t.promise(s.facts.Timeout, now, rests, upgrading), nil
}

// Touched is the result of touching many sessions.
type Touched struct {
	// Sessions is the number of touched sessions, SafeFor the smallest of their promises.
	Sessions int
	SafeFor  time.Duration
	// Failures name the sessions that are no longer served.
	Failures []session.TouchFailure
}

// TouchAll records a touch of each session in all, and deletes from all the sessions that are no longer served.
func (t *Table) TouchAll(all map[session.ID]*Session, now time.Duration) (out Touched) {
	oldest, upgrading := now, false
	t.mu.Lock()
	for id, s := range all {
		if s.over != nil {
			delete(all, id)
			out.Failures = append(out.Failures, session.TouchFailure{ID: id, Err: s.over})
			continue
		}
		s.touch(now)
		rests, upgraded := s.restsOn(now)
		if upgraded {
			oldest, upgrading = min(oldest, rests), true
		}
		if safe := session.SafeFor(s.facts.Timeout, now-rests); out.Sessions == 0 || safe < out.SafeFor {
			out.SafeFor = safe
		}
		out.Sessions++
	}
	t.mu.Unlock()
	if upgrading && t.suspendedSince(oldest) { // one session without a promise leaves no promise for all
		out.SafeFor = -1
	}
	return out
}

// ByToken returns the attachment for a token; nil without an error when the session is not here.
func (t *Table) ByToken(token session.Token) (*Session, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byToken(token)
}

// byToken is ByToken. Called with mu held.
func (t *Table) byToken(token session.Token) (*Session, error) {
	s := t.serving[token.ID]
	switch {
	case s != nil && !token.Local:
		return nil, session.ErrLagging // the session is global, and this node has not applied the upgrade
	case s != nil && token.Attachment != s.facts.Attachment:
		return nil, session.MovedTo(s.facts)
	}
	return s, nil
}

// Has reports whether a session is here.
func (t *Table) Has(id session.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.serving[id] != nil
}

// Unknown reports whether a session is not local to this node, and was not lately.
func (t *Table) Unknown(id session.ID) bool {
	if t.Has(id) {
		return false
	}
	_, ended := t.Certificate(id)
	return !ended
}

// Decides reports whether only this node knows the session's state: the session is local without an upgrade in flight,
// or has ended as a local session.
func (t *Table) Decides(id session.ID) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if s := t.serving[id]; s != nil {
		return s.upgrade == nil
	}
	_, ended := t.ended[id]
	return ended
}

// Serves reports whether s is still served.
func (t *Table) Serves(s *Session) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return s.over == nil
}

// Resume gives a session a new attachment, which conn serves (L5 local attachments). It returns the attachment, and the
// connection to notify of the former attachment's end; nil for none. A repeated attempt gets the answer of the first
// one. A client process other than the one that resumed the session last must name the present attachment (M1 a resume
// is a move).
//
// Resume returns nothing when the session is not here, and during an upgrade: the upgrade's command carries the
// session's instance and attempt, which a resume would change.
func (t *Table) Resume(r session.ResumeRequest, conn Conn, now time.Duration) (s *Session, left Conn, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.serving[r.Token.ID]
	if old == nil || old.upgrade != nil {
		return nil, nil, nil
	}
	switch same := r.Instance == old.facts.Instance; {
	case same && r.Attempt < old.attempt:
		return nil, nil, session.MovedTo(old.facts)
	case same && r.Attempt == old.attempt:
		old.conn = conn
		old.touch(now)
		return old, nil, nil
	case !same && old.facts.Instance != 0 && (!r.Token.Local || r.Token.Attachment != old.facts.Attachment):
		return nil, nil, session.MovedTo(old.facts)
	}
	next := *old
	next.facts.Attachment++
	next.facts.Instance, next.attempt, next.conn = r.Instance, r.Attempt, conn
	next.touch(now)
	old.over = session.MovedTo(next.facts)
	t.serving[r.Token.ID] = &next
	return &next, old.conn, nil
}

// expired returns the refusal for a session that ended with a certificate.
func expired(c *session.Certificate) error {
	certificate := *c
	return &session.ExpiredError{ID: c.ID, Certificate: &certificate}
}
