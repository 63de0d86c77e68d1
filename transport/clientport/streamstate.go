package clientport

import (
	"math"
	"strconv"
	"sync"

	"holdfast/session"
)

// streamState is what one Connect stream knows of its sessions and of the requests under way. It bounds both, and it
// keeps events in order: the node may tell of a session's end or move before the answer that told the client of the
// session has been queued, because the answer goes through the request's goroutine. Such an event is held until the
// answer is queued; a client that heard of an end first would keep the session for alive ever after. A move to an
// attachment that this stream was granted, or to an older one, is not told at all: the client would give up a session
// that it holds. Safe for concurrent use.
type streamState struct {
	limits StreamLimits
	// engage is told, with mu held, when the stream begins or ceases to serve something: a session, or a request under
	// way.
	setBusy func(busy bool)

	mu sync.Mutex
	// sessions were opened or resumed through this stream and have not ended or moved, with the standing of the newest
	// attachment that the client was granted. guarded by mu
	sessions map[session.ID]uint64
	// running are the requests whose goroutines have not ended, requests those of them that have no answer yet: opens
	// of them opens, by number in the order they began, the newest being newest; resumes of them resumes, by session.
	// guarded by mu
	running, requests int
	opens             map[uint64]struct{}
	newest            uint64
	resumes           map[session.ID]int
	// upgrades under way, by session. They grant nothing to this stream: whichever stream has the session keeps it.
	// guarded by mu
	upgrades map[session.ID]int
	// held are events that wait for an answer. guarded by mu
	deferred map[session.ID]event
	// engaged: the stream serves something. guarded by mu
	busy bool
	// draining takes no more requests; idle is closed when draining and none is running. guarded by mu
	draining bool
	idle     chan struct{}
}

// standing orders the attachments of one session: those of the log are newer than the local ones it had before (L5).
func standing(t session.Token) uint64 {
	if t.Local {
		return t.Attachment
	}
	return t.Attachment | 1<<63
}

// event is a Gone, or a move when certificate is nil.
type event struct {
	id          session.ID
	certificate *session.Certificate
	// moved is the standing of the attachment that the session was moved to, instance the client process that moved it.
	moved, instance uint64
	// newest is the number of the newest open when it happened: a session it is about was not opened by a later one.
	newest uint64
}

// request is one request under way.
type request struct {
	open bool
	// resume is the session that is resumed.
	resume session.ID
	// upgrade is the session that is made global.
	upgrade session.ID
	// number is that of an open under way.
	number uint64
	// bytes is about what it costs while it is under way.
	bytes int
}

func newStreamState(limits StreamLimits, setBusy func(busy bool)) *streamState {
	return &streamState{
		limits: limits, setBusy: setBusy,
		sessions: map[session.ID]uint64{}, opens: map[uint64]struct{}{}, resumes: map[session.ID]int{},
		upgrades: map[session.ID]int{},
		deferred: map[session.ID]event{}, idle: make(chan struct{}),
	}
}

// begin takes a place for q, or says which limit is reached. The caller then calls release, answered and done.
func (r *streamState) begin(q request) (request, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.draining {
		return q, session.ErrStopping
	}
	if r.requests >= r.limits.Requests {
		return q, &session.LimitError{Name: "max_requests_per_connection", Limit: strconv.Itoa(r.limits.Requests) +
			" under way", RetryAfter: session.BusyRetryAfter}
	}
	if r.more(q) && len(r.sessions)+len(r.opens)+len(r.resumes) >= r.limits.Sessions {
		return q, &session.LimitError{Name: "max_sessions_per_connection", Limit: strconv.Itoa(r.limits.Sessions)}
	}
	r.running++
	r.requests++
	r.updateBusy()
	if q.open {
		r.newest++
		q.number = r.newest
		r.opens[q.number] = struct{}{}
	}
	if q.resume != 0 {
		r.resumes[q.resume]++
	}
	if q.upgrade != 0 {
		r.upgrades[q.upgrade]++
	}
	return q, nil
}

// more reports whether q may add a session. Called with mu held.
func (r *streamState) more(q request) bool {
	_, here := r.sessions[q.resume]
	return q.open || q.resume != 0 && !here && r.resumes[q.resume] == 0
}

// release gives the place of a request back, before its answer is queued: a client that has seen the answer may send
// another request.
func (r *streamState) release() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests--
}

// answered notes that the answer of q is queued, and what it granted; the zero token is nothing. It returns the events
// that waited for it, and by how much the number of sessions changed.
func (r *streamState) answered(q request, granted session.Token) (waited []event, change int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.opens, q.number)
	oneLess(r.resumes, q.resume)
	oneLess(r.upgrades, q.upgrade)
	change = -len(r.sessions)
	if granted.ID != 0 {
		r.sessions[granted.ID] = max(r.sessions[granted.ID], standing(granted))
	}
	change += len(r.sessions)
	r.updateBusy()
	if len(r.deferred) == 0 {
		return nil, change
	}
	oldest := r.oldest()
	for id, e := range r.deferred {
		if r.holds(e, oldest) {
			continue
		}
		delete(r.deferred, id)
		if !r.overtaken(e) {
			waited = append(waited, e)
		}
	}
	return waited, change
}

// oneLess takes one of a session's requests back; of session 0 there are none.
func oneLess(under map[session.ID]int, id session.ID) {
	if under[id]--; under[id] <= 0 {
		delete(under, id)
	}
}

// done ends a request.
func (r *streamState) done() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.running--
	r.updateBusy()
	r.ifIdle()
}

// oldest returns the number of the oldest open under way. Called with mu held.
func (r *streamState) oldest() uint64 {
	oldest := uint64(math.MaxUint64)
	for n := range r.opens {
		oldest = min(oldest, n)
	}
	return oldest
}

// holds reports whether e must wait: a resume or an upgrade of its session is under way, or an open that may be the one
// that opened it. Called with mu held.
func (r *streamState) holds(e event, oldest uint64) bool {
	_, here := r.sessions[e.id]
	return r.resumes[e.id]+r.upgrades[e.id] > 0 || !here && oldest <= e.newest
}

// overtaken reports whether e is a move that came before what the client was granted since, or is that. Called with mu
// held.
func (r *streamState) overtaken(e event) bool {
	granted, here := r.sessions[e.id]
	return e.certificate == nil && here && e.moved <= granted
}

// happened reports whether e is to be told at once; otherwise it is held, or overtaken. An end is held rather than a
// move before it, and the newest of moves.
func (r *streamState) happened(e event) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	e.newest = r.newest
	if !r.holds(e, r.oldest()) {
		return !r.overtaken(e)
	}
	if r.deferred[e.id].certificate == nil {
		r.deferred[e.id] = e
	}
	return false
}

// forget takes a session off the stream's state and reports whether it was on it.
func (r *streamState) forget(id session.ID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, here := r.sessions[id]
	delete(r.sessions, id)
	r.updateBusy()
	return here
}

// idles reports whether the stream serves nothing.
func (r *streamState) idles() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.busy
}

// updateBusy tells setBusy when the stream begins or ceases to be busy. Called with mu held.
func (r *streamState) updateBusy() {
	if now := len(r.sessions)+r.running > 0; now != r.busy {
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

// ifIdle is called with mu held.
func (r *streamState) ifIdle() {
	if r.draining && r.running == 0 {
		close(r.idle)
	}
}

// clear takes all sessions off the stream's state and returns how many there were.
func (r *streamState) clear() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := len(r.sessions)
	r.sessions = map[session.ID]uint64{} // a map that is cleared keeps its memory
	r.updateBusy()
	return n
}
