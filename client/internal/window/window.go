// Package window keeps the requests of one connection: those that wait to be sent, those that wait for an answer, and
// those that the node has refused for now. It bounds how many are out, does no I/O, and is told the time.
package window

import (
	"iter"
	"slices"
	"time"
)

const (
	// MaxRequests bounds the opens, resumes, upgrades and closes of one connection that wait for answers: half of what
	// a node takes.
	MaxRequests = 512
	// MaxMany bounds the messages that are each several requests and wait for an answer: a node commits the requests of
	// one while the next is on its way.
	MaxMany = 2
	// maxAnswered is how many answered touches are remembered. A touch is confirmed before the second one after it, unless
	// the node's rounds are slow.
	maxAnswered = 8
	// MaxTouches bounds its touches that wait for answers. When that many are out, the node does not answer, and more
	// would not help.
	MaxTouches = 64
)

// Body is what a request asks for.
type Body interface {
	// Wanted reports whether it still makes sense to send it.
	Wanted() bool
}

// Request is one message to a node that wants an answer.
type Request struct {
	Body Body
	// Seq is the number it was sent under last.
	Seq uint64
	// Sent is when it was handed to the stream: what the answer promises counts from there. Zero before.
	Sent time.Time
	// Suspensions counts those noticed by then: the answer to a request from before a suspension promises nothing (S5).
	Suspensions uint64
	// Due is when it is sent again, while it waits for that. Named is the moment that the node named when it refused
	// the request.
	Due, Named time.Time
	// Refused counts the refusals, without those of requests that came before the moment that the node had named.
	Refused int
	// Members are the requests that this one sends in one message; nil for a plain request. They have its Seq and Sent,
	// and are judged one by one.
	Members []*Request

	touch, beside bool
}

// Window holds the requests of one connection. Not safe for concurrent use.
type Window struct {
	seq      uint64
	heard    time.Time // when the last message came, or when requests last began to wait for one
	asked    time.Time // when the node was asked for a sign of life since then; zero when it was not
	inFlight map[uint64]*Request
	touches  int // of those in flight
	many     int // of those in flight, with members
	beside   int // of those in flight, made by Beside
	// settling are the members of an answered request that have not been judged yet. They count as in flight.
	settling []*Request
	// answered are the newest touches that were answered: more may be promised for them (S3). Oldest first.
	answered []*Request
	queue    []*Request
	later    []*Request // refused for now, by when they are due
	// pausedUntil is when those are due of which the node did not say when to send them again.
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

// Next takes the first request in the queue that is still wanted. It returns nil when there is none, or as many as
// [MaxRequests] are out.
func (w *Window) Next() *Request {
	if len(w.inFlight)-w.touches-w.many-w.beside >= MaxRequests || w.First() == nil {
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

// Together takes the first requests in the queue that are still wanted, as long as each belongs with the others, and at
// most so many. It returns nil when the first does not, or as many as [MaxMany] messages of several requests are out.
func (w *Window) Together(most int, belongs func(Body) bool) (taken []*Request) {
	if w.many >= MaxMany {
		return nil
	}
	for len(taken) < most {
		r := w.First()
		if r == nil || !belongs(r.Body) {
			break
		}
		taken = append(taken, w.pop())
	}
	return taken
}

// Waiting returns how many requests are in the queue, also such as are not wanted any more.
func (w *Window) Waiting() int { return len(w.queue) }

// Asked reports whether any request waits for an answer.
func (w *Window) Asked() bool { return len(w.inFlight) > 0 }

// Touch returns a request for b that goes out at once. It returns nil while as many as [MaxTouches] are out.
func (w *Window) Touch(b Body) *Request {
	if w.touches == MaxTouches {
		return nil
	}
	w.touches++
	return &Request{Body: b, touch: true}
}

// Beside returns a request for b that goes out at once, beside those in the queue. The caller bounds how many there
// are, see [Window.OutBeside].
func (w *Window) Beside(b Body) *Request { return &Request{Body: b, beside: true} }

// OutBeside returns how many requests that [Window.Beside] made wait for an answer.
func (w *Window) OutBeside() int { return w.beside }

// Send numbers r and notes that it goes out now. The moment noted is before the sending, so a promise that counts from
// it is never too long (S3).
func (w *Window) Send(r *Request, now time.Time, suspensions uint64) {
	if len(w.inFlight) == 0 {
		w.Heard(now)
	}
	w.seq++
	r.Seq, r.Sent, r.Suspensions = w.seq, now, suspensions
	for _, m := range r.Members {
		m.Seq, m.Sent, m.Suspensions = r.Seq, r.Sent, r.Suspensions
	}
	if r.Members != nil {
		w.many++
	}
	if r.beside {
		w.beside++
	}
	w.inFlight[r.Seq] = r
}

// Settle hands each member of a request that was answered to judge, in their order. Those that are left count as in
// flight. It stops when judge reports false.
func (w *Window) Settle(members []*Request, judge func(i int, m *Request) bool) {
	defer func() { w.settling = nil }()
	for i, m := range members {
		if w.settling = members[i+1:]; !judge(i, m) {
			return
		}
	}
}

// Take returns the request that an answer to seq answers, and forgets it.
func (w *Window) Take(seq uint64) (*Request, bool) {
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
	if r.beside {
		w.beside--
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

// TakeAnswered returns the answered touch that was sent as seq, and forgets it and those before it.
func (w *Window) TakeAnswered(seq uint64) (*Request, bool) {
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

// Heard notes that a message came.
func (w *Window) Heard(now time.Time) { w.heard, w.asked = now, time.Time{} }

// AsksAt returns when the node should be asked for a sign of life: when it has said nothing for so long and owes an
// answer that is still wanted, other than to a touch. Zero when it owes none, or was asked since it said something.
func (w *Window) AsksAt(silence time.Duration) time.Time {
	if !w.asked.IsZero() {
		return time.Time{}
	}
	for _, r := range w.inFlight {
		if !r.touch && r.Body.Wanted() {
			return w.heard.Add(silence)
		}
	}
	return time.Time{}
}

// QuietAt returns when the node has said nothing for so long; zero if it was asked for a sign of life since.
func (w *Window) QuietAt(silence time.Duration) time.Time {
	if !w.asked.IsZero() {
		return time.Time{}
	}
	return w.heard.Add(silence)
}

// AskedAlive notes that the node is asked for a sign of life.
func (w *Window) AskedAlive(now time.Time) { w.asked = now }

// StallsAt returns when the node that owes an answer has been silent for too long: for so long, or, once it was asked,
// without a sign of life for so long. Zero when it owes none.
func (w *Window) StallsAt(silence, noSign time.Duration) time.Time {
	switch {
	case len(w.inFlight) == 0:
		return time.Time{}
	case !w.asked.IsZero():
		return w.asked.Add(noSign)
	default:
		return w.heard.Add(silence)
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
	return slices.Values(append(all, w.settling...))
}

// Queued returns the requests that wait to be sent, those that were refused for now after the others.
func (w *Window) Queued() iter.Seq[*Request] {
	return func(yield func(*Request) bool) {
		for _, r := range slices.Concat(w.queue, w.later) {
			if !yield(r) {
				return
			}
		}
	}
}

// Served notes that the node has done something: its next refusal begins a new row.
func (w *Window) Served() { w.pauses = 0 }

// Backoff returns how many back-offs there have been in a row, when a request is refused for now: one more if no other
// one waits, and at least this one.
func (w *Window) Backoff() int {
	if len(w.later) == 0 || w.pauses == 0 {
		w.pauses++
	}
	return w.pauses
}

// Pause returns when requests are due again whose refusals named no moment: one back-off serves all of them that are
// refused meanwhile. It begins with what wait returns.
func (w *Window) Pause(now time.Time, wait func() time.Duration) time.Time {
	if !now.Before(w.pausedUntil) {
		w.pausedUntil = now.Add(wait())
	}
	return w.pausedUntil
}

// PutOff has r queued again when it is due. Most are due after all others: a node that refuses many names one moment
// after the other.
func (w *Window) PutOff(r *Request, due time.Time) {
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

// Later returns the requests that were refused for now, by when they are due.
func (w *Window) Later() []*Request { return w.later }

// PutsOff reports that the node has refused for now all that it was asked for.
func (w *Window) PutsOff() bool {
	return len(w.later) > 0 && len(w.inFlight) == 0 && len(w.settling) == 0 && len(w.queue) == 0
}
