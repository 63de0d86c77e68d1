// Package window keeps the requests of one connection: queued requests, requests in flight, and deferred requests,
// which the node has refused for now. It bounds the requests in flight, does no I/O, and gets the time from its caller.
package window

import (
	"iter"
	"slices"
	"time"
)

const (
	// MaxRequests bounds the opens, resumes, upgrades and closes in flight on one connection: half of a node's limit.
	MaxRequests = 512
	// MaxMany bounds the messages in flight that hold several requests each: a node commits the requests of one message
	// while the next message is on its way.
	MaxMany = 2
	// maxAnswered is how many answered touches are remembered. A touch is confirmed before the second touch after it,
	// unless the node's rounds are slow.
	maxAnswered = 8
	// MaxTouches bounds its touches that wait for answers. When that many are out, the node does not answer, and more
	// would not help.
	MaxTouches = 64
)

// Body is the content of a request.
type Body interface {
	// Wanted reports whether the request should still be sent.
	Wanted() bool
}

// Request is one message to a node that expects an answer.
type Request struct {
	Body Body
	// Seq is the number of its last send.
	Seq uint64
	// Sent is when the stream got it: promises in the answer count from there. Zero before.
	Sent time.Time
	// Suspensions counts those noticed by then: the answer to a request from before a suspension promises nothing (S5
	// suspended machines).
	Suspensions uint64
	// Due is when a deferred request is sent again. Named is the retry time that the refusing node named.
	Due, Named time.Time
	// Refused counts the refusals, without those of requests that came before the moment that the node had named.
	Refused int
	// Members are the requests that this request sends in one message; nil for a plain request. They share its Seq and
	// Sent, and are answered one by one.
	Members []*Request

	touch, direct bool
}

// Window holds the requests of one connection. Not safe for concurrent use.
type Window struct {
	seq      uint64
	received time.Time // when the last message came, or when a request last began to wait
	probed   time.Time // when the node was probed since then; zero for no probe
	inFlight map[uint64]*Request
	touches  int // in flight
	many     int // in flight, with members
	direct   int // in flight, made by Beside
	// unhandled are the members of an answered request that have not been judged yet. They count as in flight.
	unhandled []*Request
	// answered are the newest touches that were answered: more may be promised for them (S3 length of a promise).
	// Oldest first.
	answered []*Request
	queue    []*Request
	later    []*Request // deferred, by due time
	// pausedUntil is when deferred requests without a retry time are due.
	pausedUntil time.Time
	// pauses counts the back-offs in a row.
	pauses int
}

// New returns a window without requests.
func New() *Window { return &Window{inFlight: make(map[uint64]*Request)} }

// Push queues a request for b and returns it.
func (w *Window) Push(b Body) *Request {
	r := &Request{Body: b}
	w.Repeat(r)
	return r
}

// Repeat queues r, at the end.
func (w *Window) Repeat(r *Request) { w.queue = append(w.queue, r) }

// Next removes the first wanted request from the queue. It returns nil when there is none, or when [MaxRequests] are in
// flight.
func (w *Window) Next() *Request {
	if len(w.inFlight)-w.touches-w.many-w.direct >= MaxRequests || w.First() == nil {
		return nil
	}
	return w.pop()
}

// First returns the first request in the queue that is still wanted, and leaves it there; nil when there is none.
func (w *Window) First() *Request {
	for len(w.queue) > 0 {
		if r := w.queue[0]; r.Body.Wanted() {
			return r
		}
		w.pop()
	}
	return nil
}

func (w *Window) pop() *Request {
	r := w.queue[0]
	w.queue[0] = nil
	w.queue = w.queue[1:]
	return r
}

// Together removes the first wanted requests from the queue, as long as each belongs with the others, and at most the
// given number. It returns nil when the first does not belong, or when [MaxMany] messages of several requests are in
// flight.
func (w *Window) Together(limit int, belongs func(Body) bool) (requests []*Request) {
	if w.many >= MaxMany {
		return nil
	}
	for len(requests) < limit {
		r := w.First()
		if r == nil || !belongs(r.Body) {
			break
		}
		requests = append(requests, w.pop())
	}
	return requests
}

// Waiting returns how many requests are in the queue, also such as are not wanted any more.
func (w *Window) Waiting() int { return len(w.queue) }

// Pending reports whether any request waits for an answer.
func (w *Window) Pending() bool { return len(w.inFlight) > 0 }

// Touch returns a request for b that goes out at once. It returns nil while as many as [MaxTouches] are out.
func (w *Window) Touch(b Body) *Request {
	if w.touches == MaxTouches {
		return nil
	}
	w.touches++
	return &Request{Body: b, touch: true}
}

// Direct returns a request for b that goes out at once, before the queue. The caller bounds how many there
// are, see [Window.DirectInFlight].
func (w *Window) Direct(b Body) *Request { return &Request{Body: b, direct: true} }

// DirectInFlight returns how many requests that [Window.Direct] made wait for an answer.
func (w *Window) DirectInFlight() int { return w.direct }

// Send numbers r and records the time of the send. The recorded time is before the sending, so a promise that counts
// from it is never too long (S3).
func (w *Window) Send(r *Request, now time.Time, suspensions uint64) {
	if len(w.inFlight) == 0 {
		w.Received(now)
	}
	w.seq++
	r.Seq, r.Sent, r.Suspensions = w.seq, now, suspensions
	for _, m := range r.Members {
		m.Seq, m.Sent, m.Suspensions = r.Seq, r.Sent, r.Suspensions
	}
	if r.Members != nil {
		w.many++
	}
	if r.direct {
		w.direct++
	}
	w.inFlight[r.Seq] = r
}

// EachMember passes each member of an answered request to handle, in their order. It stops when handle reports false;
// the remaining members count as in flight.
func (w *Window) EachMember(members []*Request, handle func(i int, m *Request) bool) {
	defer func() { w.unhandled = nil }()
	for i, m := range members {
		if w.unhandled = members[i+1:]; !handle(i, m) {
			return
		}
	}
}

// Remove removes and returns the request that an answer to seq answers.
func (w *Window) Remove(seq uint64) (*Request, bool) {
	r, ok := w.inFlight[seq]
	if !ok {
		return nil, false
	}
	delete(w.inFlight, seq)
	if r.touch {
		w.touches--
	}
	if r.Members != nil {
		w.many--
	}
	if r.direct {
		w.direct--
	}
	return r, true
}

// Answered remembers a touch that was answered.
func (w *Window) Answered(r *Request) {
	if len(w.answered) == maxAnswered {
		w.answered = slices.Delete(w.answered, 0, 1)
	}
	w.answered = append(w.answered, r)
}

// RemoveAnswered returns the answered touch that was sent as seq, and forgets it and earlier touches.
func (w *Window) RemoveAnswered(seq uint64) (*Request, bool) {
	for i, r := range w.answered {
		if r.Seq == seq {
			w.answered = slices.Delete(w.answered, 0, i+1)
			return r, true
		}
	}
	return nil, false
}

// Seq returns the number of the newest request that was sent.
func (w *Window) Seq() uint64 { return w.seq }

// Received records that a message came.
func (w *Window) Received(now time.Time) { w.received, w.probed = now, time.Time{} }

// ProbeAt returns when the client should ask the node for a sign of life: when the node has been silent for the given
// time with a wanted answer pending, other than to a touch. Zero when no answer is pending, or the node was asked since
// its last message.
func (w *Window) ProbeAt(silence time.Duration) time.Time {
	if !w.probed.IsZero() {
		return time.Time{}
	}
	for _, r := range w.inFlight {
		if !r.touch && r.Body.Wanted() {
			return w.received.Add(silence)
		}
	}
	return time.Time{}
}

// QuietAt returns when the node has been silent for the given time; zero if the client has sent a probe
// since.
func (w *Window) QuietAt(silence time.Duration) time.Time {
	if !w.probed.IsZero() {
		return time.Time{}
	}
	return w.received.Add(silence)
}

// Probed records a probe of the node.
func (w *Window) Probed(now time.Time) { w.probed = now }

// StallAt returns when the node has been silent for too long with an answer pending: for silence or, after a question,
// for noSign. Zero when no answer is pending.
func (w *Window) StallAt(silence, noSign time.Duration) time.Time {
	switch {
	case len(w.inFlight) == 0:
		return time.Time{}
	case !w.probed.IsZero():
		return w.probed.Add(noSign)
	default:
		return w.received.Add(silence)
	}
}

// InFlight returns the requests that wait for an answer, and the members in the place of a request that has some.
func (w *Window) InFlight() iter.Seq[*Request] {
	var all []*Request
	for _, r := range w.inFlight {
		if r.Members != nil {
			all = append(all, r.Members...)
		} else {
			all = append(all, r)
		}
	}
	return slices.Values(append(all, w.unhandled...))
}

// Queued returns the queued requests, then the deferred requests.
func (w *Window) Queued() iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for _, r := range slices.Concat(w.queue, w.later) {
			if !yield(r) {
				return
			}
		}
	}
}

// Served records that the node has served a request: the next refusal is the first of a new row.
func (w *Window) Served() { w.pauses = 0 }

// Backoff returns the number of back-offs in a row, when a request is deferred: one more than before if no other
// request is deferred, and at least one.
func (w *Window) Backoff() int {
	if len(w.later) == 0 || w.pauses == 0 {
		w.pauses++
	}
	return w.pauses
}

// Pause returns when requests are due again whose refusals named no retry time: one back-off covers all such refusals
// meanwhile. It starts with the wait that wait returns.
func (w *Window) Pause(now time.Time, wait func() time.Duration) time.Time {
	if !now.Before(w.pausedUntil) {
		w.pausedUntil = now.Add(wait())
	}
	return w.pausedUntil
}

// Defer defers r until due. Most are due after all others: a node that refuses many requests names increasing times.
func (w *Window) Defer(r *Request, due time.Time) {
	r.Due = due
	i, _ := slices.BinarySearchFunc(w.later, due, func(other *Request, due time.Time) int {
		if other.Due.After(due) {
			return 1
		}
		return -1
	})
	w.later = slices.Insert(w.later, i, r)
}

// Resume queues the requests that are due.
func (w *Window) Resume(now time.Time) {
	n := 0
	for n < len(w.later) && !now.Before(w.later[n].Due) {
		n++
	}
	w.queue = append(w.queue, w.later[:n]...)
	if w.later = w.later[n:]; len(w.later) == 0 {
		w.later = nil
	}
}

// DueAt returns when the first request that was refused for now is due; zero for never.
func (w *Window) DueAt() time.Time {
	if len(w.later) == 0 {
		return time.Time{}
	}
	return w.later[0].Due
}

// Later returns the deferred requests, by due time.
func (w *Window) Later() []*Request { return w.later }

// Defers reports whether the node has deferred all requests.
func (w *Window) Defers() bool {
	return len(w.later) > 0 && len(w.inFlight) == 0 && len(w.unhandled) == 0 && len(w.queue) == 0
}
