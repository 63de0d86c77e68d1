package learner

import (
	"errors"
	"sync"
	"time"

	"holdfast/session"
)

// localCertificates is how many local sessions a node remembers after they ended or became global: the newest ones.
const localCertificates = 10_000

// Local holds the sessions that only this node knows (L1): their facts and their deadlines. Nothing of it is on a disk
// or on another node. Its moments are those of the node's clock. Safe for concurrent use.
type Local struct {
	node session.Node
	// suspendedSince reports whether the machine was found to have been suspended since a moment (S5).
	suspendedSince func(moment time.Duration) bool
	// ids are the ids for more sessions. Its lock is taken while mu is held.
	ids *idPool

	mu sync.Mutex
	// serving holds the newest attachment of each session. guarded by mu
	serving map[session.ID]*local
	// queue files the sessions by when they come due, with their timeouts. guarded by mu
	queue *session.ExpiryQueue[time.Duration]
	// order are the ids of serving, and of some sessions that have ended, in the order in which they were given out.
	// That is also the order of their numbers. guarded by mu
	order []session.ID
	// requests are the opens whose repeats are answered: the opens of the sessions in serving and in ring. guarded by
	// mu
	requests map[session.RequestID]session.ID
	// ring holds the newest sessions that ended or became global; oldest is the place that is overwritten next. ended
	// holds the certificates of the ones that ended. guarded by mu
	ended  map[session.ID]session.Certificate
	ring   []past
	oldest int
	// frost is when the cluster was frozen, on the node's clock. guarded by mu
	frost session.Frost
	// usage is what the sessions of serving take, and may take (O4). guarded by mu
	usage session.Usage
	// expired counts the sessions that expired, upgraded the ones that became global. guarded by mu
	expired, upgraded uint64
}

// local is one attachment of a local session.
type local struct {
	// facts, request and attempt (M1) do not change: another attachment is another local.
	facts   session.Session
	request session.RequestID
	attempt uint64

	// All following fields are guarded by Local.mu.

	item *session.Item[time.Duration]
	// last is the newest touch.
	last time.Duration
	// conn is told of the end.
	conn *connection
	// over is the refusal of touches after the end; nil while the attachment is served.
	over error
	// flight is the upgrade under way; nil: there is none.
	flight *flight
}

// past is a session that the node no longer has as a local one, and the open that made it.
type past struct {
	id      session.ID
	request session.RequestID
}

// globalError says that the session of a repeated open has become global.
type globalError struct{ id session.ID }

func (e *globalError) Error() string { return "session " + e.id.String() + " has become global" }

// newLocal returns an empty Local of a node. interval is the width of its buckets, and is raised to the least that an
// ExpiryQueue takes.
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
	// timeout is negotiated.
	timeout time.Duration
	conn    *connection
}

// firstAttachment is the attachment that an open makes (L5).
const firstAttachment = 1

// cost returns the bytes that s takes of the node's capacity (O4). It counts no tracker and no record in the log's
// state, because a local session has neither.
func (s *local) cost() uint64 { return session.SessionBytes + s.facts.Labels.Bytes() }

// room returns an error when there is no room for one more session with labels (O4). Called with mu held.
func (l *Local) room(labels session.Labels) error {
	err := l.usage.Room(session.SessionBytes + labels.Bytes())
	if limit, ok := errors.AsType[*session.LimitError](err); ok {
		limit.Limit += ", for local sessions of this node"
	}
	return err
}

// used returns how much the sessions take, and may take.
func (l *Local) used() session.Usage {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.usage
}

// open makes a session, touched at now, with an id from the pool (L2). It answers a repeat as repeated says. It returns
// nil and no error when there are no ids, and a [session.LimitError] when there is no room.
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
		OpenedAt: session.TimeOfMS(o.MS), Local: true, Instance: o.Instance, // X5 of the tree
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

// repeated answers the repeat of an open with the session that the open made, and serves it through conn from now on. A
// session that was resumed since stays where it is, because the repeat is older than the resume: the error is ErrMoved.
// For a session that is not here any more the error says how it ended, or is a globalError. Called with mu held.
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

// promise returns the promise for a touch at now (L4), negative for none. While an upgrade is under way, the promise
// counts from the upgrade's beginning: the log may know the session already without knowing of the touch (L8). The
// leader's clock may decide by then, so there is no promise after a suspension since that beginning (S5). Called with
// mu held.
func (l *Local) promise(s *local, now time.Duration) time.Duration {
	rests := now
	if s.flight != nil {
		rests = s.flight.begun
		if l.suspendedSince(rests) {
			return -1
		}
	}
	return safeFor(s.facts.Timeout, now-rests)
}

// heard records a touch of s and returns the promise. The error says why s is served no longer.
func (l *Local) heard(s *local, now time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.hear(s, now)
}

// promised returns the promise of s at now, without a touch. The error says why s is served no longer.
func (l *Local) promised(s *local, now time.Duration) (time.Duration, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.over != nil {
		return -1, s.over
	}
	return l.promise(s, now), nil
}

// heardAll records a touch of each session in all, adds the outcomes to out, and deletes ended sessions from all.
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

// named returns the attachment that a token names. It returns nil without an error when the session is not here.
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
		return nil, session.ErrLagging // the session is global, and this node has not applied the upgrade
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

// unknown reports whether a session is not a local one of this node, and was none lately.
func (l *Local) unknown(id session.ID) bool {
	if l.has(id) {
		return false
	}
	_, ended := l.certificate(id)
	return !ended
}

// decides reports whether only this node knows the session's state, and the log knows nothing of it. So it is for a
// local session without an upgrade under way, and for one that ended as a local session.
func (l *Local) decides(id session.ID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if s := l.serving[id]; s != nil {
		return s.flight == nil
	}
	_, ended := l.ended[id]
	return ended
}

// serves reports whether s is still served.
func (l *Local) serves(s *local) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return s.over == nil
}

// resume gives a session a new attachment that conn serves (L5). It returns the attachment, and the connection that
// must be told of the former one's end, nil for none. It answers a repeated attempt like the first one. A client
// process other than the one that resumed the session last must name the present attachment (M1).
//
// resume returns nothing when the session is not here, and while an upgrade is under way. The upgrade's command carries
// the session's instance and attempt, which a resume would change.
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
