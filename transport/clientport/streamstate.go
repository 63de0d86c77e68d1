package clientport

import (
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"holdfast/session"
)

// streamState is the state of one Connect stream: its sessions and its requests under way. It bounds both.
//
// It also keeps events in order. The node may tell of a session's end or move before the answer that told the client of
// the session is queued, because another goroutine queues the answer. Such an event is deferred until the answer
// is queued: a client that heard of an end first would believe the session alive for ever. A move to an attachment that
// this stream was granted, or to an older one, is not told at all: the client would give up a session that it holds.
// Safe for concurrent use.
type streamState struct {
	limits StreamLimits
	// setBusy is called, with mu held, when the stream begins or ceases to serve a session or a request.
	setBusy func(busy bool)

	mu sync.Mutex
	// sessions are those that were opened or resumed through this stream and have not ended or moved, with the standing
	// of the newest attachment that the client was granted. guarded by mu
	sessions map[session.ID]uint64
	// running counts the requests that have not ended; all of the tree count once. opens are the opens among these, in
	// the order they began. resumes counts the resumes among them, by session. guarded by mu
	running int
	opens   openings
	resumes map[session.ID]int
	// upgrades counts the upgrades under way, by session. They grant nothing to this stream: the stream that has the
	// session keeps it. guarded by mu
	upgrades map[session.ID]int
	// deferred are events that wait for an answer. guarded by mu
	deferred map[session.ID]event
	// tree are the requests of the tree under way. guarded by mu
	tree treeRequests
	// busy says that the stream serves a session, a request or watches. guarded by mu
	busy bool
	// draining says that the stream takes no more requests. idle is closed when it is draining and none is running. over
	// says that the stream has ended: what is granted from then on is nothing of its. guarded by mu
	draining, over bool
	idle           chan struct{}

	// requests counts the running requests that have no answer yet.
	requests atomic.Int64
	// waits counts the goroutines of requests that have to wait. None is added once draining is set.
	waits sync.WaitGroup
}

// standing orders the attachments of one session: the attachments of the log are newer than the local ones before them
// (L5).
func standing(t session.Token) uint64 {
	if t.Local {
		return t.Attachment
	}
	return t.Attachment | 1<<63
}

// event is a Gone, or a Moved when certificate is nil.
type event struct {
	id          session.ID
	certificate *session.Certificate
	// moved is the standing of the session's new attachment, instance the client process that moved the session.
	moved, instance uint64
	// newest is the number of the newest open when the event happened: no later open can have opened its session.
	newest uint64
}

// openings are the opens under way, in the order they began: a list, because they mostly end in that order too.
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

// begin counts q as under way, or says which limit is reached. The caller then calls release, answered and, if answered
// says so, done; and waits.Done once no goroutine of the request is left.
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

// admit returns why no request is taken now. Called with mu held.
func (r *streamState) admit() error {
	if r.draining {
		return session.ErrStopping
	}
	if r.requests.Load() >= int64(r.limits.Requests) {
		return &session.LimitError{Name: "max_requests_per_connection", Limit: strconv.Itoa(r.limits.Requests) +
			" under way", RetryAfter: session.BusyRetryAfter}
	}
	return nil
}

// count counts one more request as under way. Called with mu held.
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

// tooMany is the refusal of a request that may add a session while the stream is full.
func (r *streamState) tooMany() error {
	return &session.LimitError{Name: "max_sessions_per_connection", Limit: strconv.Itoa(r.limits.Sessions)}
}

// owed returns how many answers are still to be queued, or a few more: those of the requests that have not ended.
func (r *streamState) owed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.running
}

// release takes a request off the limit before its answer is queued: a client that has seen the answer may send another
// request.
func (r *streamState) release() { r.requests.Add(-1) }

// answered notes that the answer of q is queued, and what it granted; the zero token is nothing. It returns the events
// that waited for the answer, and by how much the number of sessions changed. If there are such events the caller tells
// them and calls done; otherwise the request has ended.
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

// grant notes sessions that the client was granted, and returns by how much their number changed. The zero token is
// nothing. Called with mu held.
func (r *streamState) grant(tokens ...session.Token) (change int) {
	before := len(r.sessions)
	for _, t := range tokens {
		if t.ID != 0 && !r.over {
			r.sessions[t.ID] = max(r.sessions[t.ID], standing(t))
		}
	}
	return len(r.sessions) - before
}

// freed removes the deferred events that wait for no answer any more, and returns those that are to be told. Called
// with mu held.
func (r *streamState) freed() (told []event) {
	oldest := r.oldest()
	for id, e := range r.deferred {
		if r.mustWait(e, oldest) {
			continue
		}
		delete(r.deferred, id)
		if !r.overtaken(e) {
			told = append(told, e)
		}
	}
	return told
}

// oneLess takes one request of a session off its count; session 0 has none.
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

// oldest returns the number of the oldest open under way. Called with mu held.
func (r *streamState) oldest() uint64 {
	if r.opens.first == nil {
		return math.MaxUint64
	}
	return r.opens.first.number
}

// mustWait reports whether e must wait: a resume or an upgrade of its session is under way, or an open that may have
// opened it. Called with mu held.
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

// happened reports whether e is to be told at once; otherwise e is deferred or overtaken. Of the deferred events of a
// session it keeps the end, or else the newest move.
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

// some returns so many of the stream's sessions: all if there are no more. It walks no further, because requests wait.
func (r *streamState) some(most int) (ids []session.ID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.sessions {
		if len(ids) == most {
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

// updateBusy tells setBusy when the stream begins or ceases to be busy. Called with mu held.
func (r *streamState) updateBusy() {
	if now := r.tree.watching || len(r.sessions)+r.running > 0; now != r.busy {
		r.busy = now
		r.setBusy(now)
	}
}

// drain refuses requests from now on. The channel is closed when none is running.
func (r *streamState) drain() <-chan struct{} {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.draining {
		r.draining = true
		r.ifIdle()
	}
	return r.idle
}

// ifIdle closes idle when its time has come. Called with mu held.
func (r *streamState) ifIdle() {
	if r.draining && r.running == 0 {
		close(r.idle)
	}
}

// clear removes all sessions from the stream's state, for good, and returns how many there were.
func (r *streamState) clear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.sessions)
	r.over = true
	r.sessions = map[session.ID]uint64{} // a cleared map would keep its memory
	r.updateBusy()
	return n
}
