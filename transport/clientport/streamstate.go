package clientport

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"holdfast/session"
)

// streamState is the state of one Connect stream: its sessions and its requests in flight. It bounds both.
//
// It also orders events. The node may report a session's end or move before the stream has queued the answer that
// grants the session, because another goroutine queues the answer. Such an event waits until the answer is queued: a
// client that received the end first would believe the session alive for ever. A move to an attachment that this stream
// was granted, or to an older one, is dropped: the client would give up a session that it holds. Safe for concurrent
// use.
type streamState struct {
	limits StreamLimits
	// setBusy is called, with mu held, when the stream begins or stops serving sessions or requests.
	setBusy func(busy bool)

	mu sync.Mutex
	// sessions are the sessions that were opened or resumed through this stream and have not ended or moved, with the
	// rank of the newest attachment that the client was granted (see standing). guarded by mu
	sessions map[session.ID]uint64
	// running counts the requests that have not ended; all requests of the tree count once. opens are the opens among
	// these, in the order of their beginnings. resumes counts the resumes among them, by session. guarded by mu
	running int
	opens   openings
	resumes map[session.ID]int
	// upgrades counts the upgrades in flight, by session. They grant nothing to this stream: the stream that has the
	// session keeps it. guarded by mu
	upgrades map[session.ID]int
	// deferred are events that wait for an answer. guarded by mu
	deferred map[session.ID]event
	// tree has the requests of the tree in flight. guarded by mu
	tree treeRequests
	// busy says that the stream serves a session, a request or watches. guarded by mu
	busy bool
	// draining says that the stream accepts no more requests. idle is closed when it is draining and no request is
	// running. over says that the stream has ended: it gets no more sessions. guarded by mu
	draining, over bool
	idle           chan struct{}

	// requests counts the running requests without an answer.
	requests atomic.Int64
	// waits counts the goroutines of waiting requests. None is added once draining is set.
	waits sync.WaitGroup
}

// attachmentRank returns the rank of an attachment among the attachments of its session: attachments of the log are
// newer than the local ones before them (L5 local attachments).
func attachmentRank(t session.Token) uint64 {
	if t.Local {
		return t.Attachment
	}
	return t.Attachment | 1<<63
}

// event is a Gone, or a Moved when certificate is nil.
type event struct {
	id          session.ID
	certificate *session.Certificate
	// moved is the rank of the session's new attachment, instance the client process that moved the session.
	moved, instance uint64
	// newest is the number of the newest open at the time of the event: no later open can have opened its session.
	newest uint64
}

// openings are the opens in flight, in the order of their beginnings: a list, because opens mostly end in this order
// too.
type openings struct {
	first, last *request
	count       int
	// newest is the highest number of an open.
	newest uint64
}

func (o *openings) add(q *request) {
	q.before = o.last
	if o.last != nil {
		o.last.after = q
	} else {
		o.first = q
	}
	o.last = q
	o.count++
}

func (o *openings) remove(q *request) {
	if q.before != nil {
		q.before.after = q.after
	} else {
		o.first = q.after
	}
	if q.after != nil {
		q.after.before = q.before
	} else {
		o.last = q.before
	}
	q.before, q.after = nil, nil
	o.count--
}

func newStreamState(limits StreamLimits, setBusy func(busy bool)) *streamState {
	return &streamState{
		limits: limits, setBusy: setBusy,
		sessions: map[session.ID]uint64{}, resumes: map[session.ID]int{}, upgrades: map[session.ID]int{},
		deferred: map[session.ID]event{}, idle: make(chan struct{}),
	}
}

// begin counts q in flight, or returns the exceeded limit. The caller then calls release, answered and, if answered
// says so, done; and waits.Done once the request has no goroutine left.
func (r *streamState) begin(q *request) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.admit(); err != nil {
		return err
	}
	if r.more(q.opens(), q.resume) && r.full() {
		return r.tooMany()
	}
	r.count()
	if q.opens() {
		r.opens.newest++
		q.number = r.opens.newest
		r.opens.add(q)
	}
	if q.resume != 0 {
		r.resumes[q.resume]++
	}
	if q.upgrade != 0 {
		r.upgrades[q.upgrade]++
	}
	return nil
}

// admit returns why the stream accepts no request now. Called with mu held.
func (r *streamState) admit() error {
	if r.draining {
		return session.ErrStopping
	}
	if r.requests.Load() >= int64(r.limits.Requests) {
		return &session.LimitError{Name: "max_requests_per_connection", Limit: strconv.Itoa(r.limits.Requests) +
			" in flight", RetryAfter: session.BusyRetryAfter}
	}
	return nil
}

// count counts one more request in flight. Called with mu held.
func (r *streamState) count() {
	r.running++
	r.requests.Add(1)
	r.waits.Add(1)
	r.updateBusy()
}

// more reports whether a request may add a session: an open, or the resume of a session; 0 is none. Called with mu
// held.
func (r *streamState) more(open bool, resume session.ID) bool {
	_, here := r.sessions[resume]
	return open || resume != 0 && !here && r.resumes[resume] == 0
}

// full reports whether no request may add a session. Called with mu held.
func (r *streamState) full() bool {
	return len(r.sessions)+r.opens.count+len(r.resumes) >= r.limits.Sessions
}

// tooMany is the refusal of a request that may add a session to a full stream.
func (r *streamState) tooMany() error {
	return &session.LimitError{Name: "max_sessions_per_connection", Limit: strconv.Itoa(r.limits.Sessions)}
}

// unanswered returns an upper bound on the answers that are still to be queued: the number of requests that have not
// ended.
func (r *streamState) unanswered() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// release frees a request's place under the limit before its answer is queued: a client that has seen the answer may
// send another request.
func (r *streamState) release() { r.requests.Add(-1) }

// answered records that the answer of q is queued and which session it grants; the zero token is none. It returns the
// events that waited for the answer, and the change in the number of sessions. If there are such events, the caller
// delivers them and calls done; otherwise the request has ended.
func (r *streamState) answered(q *request, granted session.Token) (waited []event, change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if q.number != 0 {
		r.opens.remove(q)
	}
	oneLess(r.resumes, q.resume)
	oneLess(r.upgrades, q.upgrade)
	change = r.grant(granted)
	waited = r.freed()
	if len(waited) == 0 {
		r.ended()
	}
	return waited, change
}

// grant records granted sessions, and returns the change in their number. The zero token is none. Called with mu held.
func (r *streamState) grant(tokens ...session.Token) (change int) {
	before := len(r.sessions)
	for _, t := range tokens {
		if t.ID != 0 && !r.over {
			r.sessions[t.ID] = max(r.sessions[t.ID], attachmentRank(t))
		}
	}
	return len(r.sessions) - before
}

// freed removes the deferred events that no longer wait for an answer, and returns those to deliver. Called with mu
// held.
func (r *streamState) freed() (released []event) {
	oldest := r.oldest()
	for id, e := range r.deferred {
		if r.mustWait(e, oldest) {
			continue
		}
		delete(r.deferred, id)
		if !r.overtaken(e) {
			released = append(released, e)
		}
	}
	return released
}

// oneLess decrements the count of a session's requests; session 0 has none.
func oneLess(under map[session.ID]int, id session.ID) {
	if id == 0 {
		return
	}
	if under[id]--; under[id] <= 0 {
		delete(under, id)
	}
}

// done ends a request.
func (r *streamState) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended()
}

// ended counts a request that has ended. Called with mu held.
func (r *streamState) ended() {
	r.running--
	r.updateBusy()
	r.ifIdle()
}

// oldest returns the number of the oldest open in flight. Called with mu held.
func (r *streamState) oldest() uint64 {
	if r.opens.first == nil {
		return math.MaxUint64
	}
	return r.opens.first.number
}

// mustWait reports whether e must wait: a resume or an upgrade of its session is in flight, or an open that may have
// opened the session. Called with mu held.
func (r *streamState) mustWait(e event, oldest uint64) bool {
	_, here := r.sessions[e.id]
	return r.resumes[e.id]+r.upgrades[e.id] > 0 || !here && oldest <= e.newest
}

// overtaken reports whether e is a move to the attachment that the client was granted, or to an older one. Called with
// mu held.
func (r *streamState) overtaken(e event) bool {
	granted, here := r.sessions[e.id]
	return e.certificate == nil && here && e.moved <= granted
}

// happened reports whether to deliver e at once; otherwise e is deferred or overtaken. Of a session's deferred events
// it keeps the end, or else the newest move.
func (r *streamState) happened(e event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.newest = r.opens.newest
	if !r.mustWait(e, r.oldest()) {
		return !r.overtaken(e)
	}
	if r.deferred[e.id].certificate == nil {
		r.deferred[e.id] = e
	}
	return false
}

// forget removes a session from the stream's state, and reports whether it was there.
func (r *streamState) forget(id session.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, here := r.sessions[id]
	delete(r.sessions, id)
	r.updateBusy()
	return here
}

// serves reports whether the stream serves a session.
func (r *streamState) serves(id session.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, here := r.sessions[id]
	return here
}

// some returns up to limit of the stream's sessions. It stops there, because requests wait for the lock.
func (r *streamState) some(limit int) (ids []session.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.sessions {
		if len(ids) == limit {
			break
		}
		ids = append(ids, id)
	}
	return ids
}

// idles reports whether the stream serves nothing.
func (r *streamState) idles() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.busy
}

// updateBusy calls setBusy when the stream becomes busy or idle. Called with mu held.
func (r *streamState) updateBusy() {
	if now := r.tree.watching || len(r.sessions)+r.running > 0; now != r.busy {
		r.busy = now
		r.setBusy(now)
	}
}

// drain refuses further requests. The channel is closed when no request is running.
func (r *streamState) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		r.ifIdle()
	}
	return r.idle
}

// ifIdle closes idle if the stream is draining and idle. Called with mu held.
func (r *streamState) ifIdle() {
	if r.draining && r.running == 0 {
		close(r.idle)
	}
}

// clear removes all sessions from the stream's state, for good, and returns their number.
func (r *streamState) clear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.sessions)
	r.over = true
	r.sessions = map[session.ID]uint64{} // a cleared map would keep its memory
	r.updateBusy()
	return n
}
