package learner

import (
	"errors"
	"sync"
	"time"

	"holdfast/session"
)

// localCertificates is how many local sessions a node remembers that ended or became global, the newest ones.
const localCertificates = 10_000

// Local holds the sessions that are known to this node alone (L1): their facts, their deadlines, and the ids that are
// there for more. Nothing of it is on a disk or on another node. Its moments are durations on one clock, the touch
// table's. Safe for concurrent use.
type Local struct {
	node session.Node
	// suspendedSince reports whether the machine was found suspended since a moment (S5).
	suspendedSince func(moment time.Duration) bool
	// ids are those for more sessions.
	ids *idPool

	mu sync.Mutex
	// serving holds the newest attachment of each session. guarded by mu
	serving map[session.ID]*local
	// queue files them by when they come due; what it keeps is the timeout. guarded by mu
	queue *session.ExpiryQueue[time.Duration]
	// order are the ids of serving as they were given out, which is their order, and some that have ended. guarded by
	// mu
	order []session.ID
	// requests are the opens that a repeat is answered for: those of serving and of ring. guarded by mu
	requests map[session.RequestID]session.ID
	// ring are the newest sessions that ended or became global, by age, with oldest the place of the next one; ended is
	// how those ended that did. guarded by mu
	ended  map[session.ID]session.Certificate
	ring   []past
	oldest int
	// usage is what serving takes, and may take (O4). guarded by mu
	usage session.Usage
	// expired counts ends by expiry, upgraded sessions that became global. guarded by mu
	expired, upgraded uint64
}

// local is one attachment of a local session.
type local struct {
	// facts, request and attempt (M1) do not change.
	facts   session.Session
	request session.RequestID
	attempt uint64

	// The rest is guarded by Local.mu.

	item *session.Item[time.Duration]
	// last is the newest touch.
	last time.Duration
	// conn hears of its end.
	conn *connection
	// over is why it is served no longer; nil while it is.
	over error
	// flight is its upgrade, nil while none is under way.
	flight *flight
}

// past is a session that is here no longer, and the open that made it.
type past struct {
	id      session.ID
	request session.RequestID
}

// globalError answers the repeat of an open whose session has become global.
type globalError struct{ id session.ID }

func (e *globalError) Error() string { return "session " + e.id.String() + " has become global" }

// newLocal returns an empty Local of a node whose buckets are as wide as interval, which is raised to what an
// ExpiryQueue takes, on a machine of which suspendedSince tells.
func newLocal(node session.Node, interval time.Duration, suspendedSince func(time.Duration) bool,
	ids *idPool,
) *Local {
	q, err := session.NewExpiryQueue[time.Duration](max(interval, session.MinExpiryInterval))
	if err != nil {
		panic(err) // the interval was raised
	}
	return &Local{
		node: node, queue: q, suspendedSince: suspendedSince, ids: ids,
		serving: make(map[session.ID]*local), requests: make(map[session.RequestID]session.ID),
		ended: make(map[session.ID]session.Certificate),
	}
}

// opening is an open of a local session.
type opening struct {
	session.OpenRequest
	// timeout is the negotiated one.
	timeout time.Duration
	conn    *connection
}

// firstAttachment is the one that an open makes (L5).
const firstAttachment = 1

// cost is what s takes of the node's capacity: a local session has no tracker and no record in the log's state, and a
// request id that is remembered as long as it is.
func (s *local) cost() uint64 { return session.SessionBytes + s.facts.Labels.Bytes() }

// room returns why there is none for one more session with labels (O4). Called with mu held.
func (l *Local) room(labels session.Labels) error {
	err := l.usage.Room(session.SessionBytes + labels.Bytes())
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		limit.Limit += ", for local sessions of this node"
	}
	return err
}

// used returns what the sessions take, and may take.
func (l *Local) used() session.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usage
}

// open makes a session with an id that was claimed for it (L2), touched at now. A repeat is answered as repeated says.
// Without ids it returns nil and no error. Without room the error is a [session.LimitError].
func (l *Local) open(o opening, now time.Duration) (*local, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if id, ok := l.requests[o.RequestID]; ok {
		return l.repeated(id, o.conn, now)
	}
	if err := l.room(o.Labels); err != nil {
		return nil, err
	}
	id, ok := l.ids.take()
	if !ok {
		return nil, nil //nolint:nilnil // the caller waits for ids
	}
	s := &local{request: o.RequestID, conn: o.conn, last: now, facts: session.Session{
		ID: id, Timeout: o.timeout, Owner: l.node, Attachment: firstAttachment, Labels: o.Labels,
		OpenedAt: session.TimeOfMS(o.MS), Local: true,
	}}
	var err error
	if s.item, err = l.queue.Add(id, now, o.timeout, o.timeout); err != nil {
		return nil, err
	}
	s.touch(now)
	l.serving[id], l.requests[o.RequestID] = s, id
	l.usage.Sessions++
	l.usage.Bytes += s.cost()
	l.order = append(l.order, id)
	return s, nil
}

// repeated answers the repeat of an open with the session that it made, which conn serves from now on. One that was
// resumed since stays where it is: ErrMoved, the repeat is older than that. Of one that is here no longer the error is
// how it ended, or a globalError. Called with mu held.
func (l *Local) repeated(id session.ID, conn *connection, now time.Duration) (*local, error) {
	s := l.serving[id]
	if s == nil {
		if c, ok := l.ended[id]; ok {
			return nil, expired(&c)
		}
		return nil, &globalError{id}
	}
	if s.facts.Attachment != firstAttachment {
		return nil, session.MovedTo(s.facts)
	}
	s.conn = conn
	s.touch(now)
	return s, nil
}

// touch moves the deadline (L3). Called with mu held.
func (s *local) touch(now time.Duration) {
	s.last = max(s.last, now)
	s.item.Touch(now + s.facts.Timeout)
}

// promise is what a touch at now is answered with (L4); negative is none. While an upgrade is under way it rests on the
// begin of that: the log may know of the session already, and not of the touch (L8). Then the clock that decides is not
// this machine's alone: after a suspension since the begin there is no promise (S5). Called with mu held.
func (l *Local) promise(s *local, now time.Duration) time.Duration {
	rests := now
	if s.flight != nil {
		rests = s.flight.begun
		if l.suspendedSince(rests) {
			return -1
		}
	}
	if safe := s.facts.Timeout - (now - rests) - s.facts.Timeout/100 - time.Millisecond; safe > 0 {
		return safe
	}
	return -1
}

// heard records a touch of s and returns the promise; the error says why s is served no longer.
func (l *Local) heard(s *local, now time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hear(s, now)
}

// promised returns the promise of s at now, without a touch; the error says why s is served no longer.
func (l *Local) promised(s *local, now time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.over != nil {
		return -1, s.over
	}
	return l.promise(s, now), nil
}

// heardAll records a touch of each of all, adds the outcomes to out, and takes those out of all that have ended.
func (l *Local) heardAll(all map[session.ID]*local, now time.Duration, out *outcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for id, s := range all {
		safe, err := l.hear(s, now)
		if err != nil {
			delete(all, id)
		}
		out.add(id, safe, err)
	}
}

// hear is heard. Called with mu held.
func (l *Local) hear(s *local, now time.Duration) (time.Duration, error) {
	if s.over != nil {
		return -1, s.over
	}
	s.touch(now)
	return l.promise(s, now), nil
}

// named returns the attachment that a token speaks for; nil without an error when the session is not here.
func (l *Local) named(t session.Token) (*local, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.namedBy(t)
}

// namedBy is named. Called with mu held.
func (l *Local) namedBy(t session.Token) (*local, error) {
	s := l.serving[t.ID]
	switch {
	case s != nil && !t.Local:
		return nil, session.ErrLagging // it is global, and this node has not heard of that
	case s != nil && t.Attachment != s.facts.Attachment:
		return nil, session.MovedTo(s.facts)
	}
	return s, nil
}

// has reports whether a session is here.
func (l *Local) has(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.serving[id] != nil
}

// decides reports whether this node alone knows what is to be known of a session: it is here and no upgrade of it is
// under way, or was and ended. The log has nothing of it.
func (l *Local) decides(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.serving[id]; s != nil {
		return s.flight == nil
	}
	_, ended := l.ended[id]
	return ended
}

// serves reports whether s is served still.
func (l *Local) serves(s *local) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.over == nil
}

// resume gives a session a new attachment that is served through conn, and returns it and the connection that is to
// hear of the former one's end, nil for none (L5). The same attempt again is answered as the first time, and another
// process than the one that resumed it last must name its attachment (M1). Nothing is returned when the session is
// not here, or while it is upgraded: the attachment that the log gives it then is not to lose the instance and
// attempt that go with it.
func (l *Local) resume(r session.ResumeRequest, conn *connection,
	now time.Duration,
) (s *local, left *connection, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.serving[r.Token.ID]
	if old == nil || old.flight != nil {
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
	l.serving[r.Token.ID] = &next
	return &next, old.conn, nil
}
