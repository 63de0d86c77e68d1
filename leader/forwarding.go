package leader

import (
	"errors"
	"fmt"
	"sync"

	"holdfast/session"
	"holdfast/session/fair"
)

// Bounds of one Forward stream. The proposer's queue has a bound for all nodes together (W7 size bounds). One stream
// may use half of it, so that no node fills the queue.
const (
	// maxForwardedBytes bounds the writes in flight, by the bytes of their commands plus forwardedBytes for each: at
	// most 8,192 writes. The bound is a [fair.Nested]: a principal may use at most three times the free part, and a
	// connection three times what is free for its principal.
	maxForwardedBytes = 32 << 20
	forwardedBytes    = 4 << 10
	// maxAcknowledges bounds the acknowledgements in flight. Others are dropped.
	maxAcknowledges = 64
	// maxRefusals is the number of unsent refusals at which the leader stops reading the node's writes. Writes in
	// flight may add one refusal each.
	maxRefusals = 16 << 10
	// maxGaps bounds the sessions whose later writes are refused. When there are more, all gaps are forgotten: the
	// state refuses the writes behind them (X2 writers).
	maxGaps = 64 << 10
)

// forwards has the newest Forward stream of each node in a term. The zero value is empty. Safe for concurrent use.
type forwards struct {
	mu sync.Mutex
	of map[session.Node]*forwarding // guarded by mu
}

// begin makes f the stream of its node, and ends the former stream.
func (s *forwards) begin(node session.Node, f *forwarding) {
	s.mu.Lock()
	if s.of == nil {
		s.of = make(map[session.Node]*forwarding)
	}
	former := s.of[node]
	s.of[node] = f
	s.mu.Unlock()
	if former != nil {
		former.stop(ErrSuperseded)
	}
}

func (s *forwards) end(node session.Node, f *forwarding) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.of[node] == f {
		delete(s.of, node)
	}
}

// forwarding is one Forward stream: its writes in flight, its refusals, and its end. Safe for concurrent use.
type forwarding struct {
	node  session.Node
	stats *counters
	// budget is the memory budget of the writes in flight. The node's principals share it, and their connections.
	budget *fair.Nested[uint64, uint64]
	// refused wakes the writer when there are refusals to send, drained the reader after refusals were sent.
	refused, drained signal
	once             sync.Once
	// reason is why the stream ended. It is set before done is closed, and read only afterwards.
	reason error
	// done is closed when the stream ends.
	done chan struct{}

	mu sync.Mutex
	// acknowledges counts the acknowledgements in flight. Guarded by mu.
	acknowledges int
	// gaps has the highest refused number of each session with a refused write. Guarded by mu.
	gaps map[session.ID]uint64
	// waiting are the refusals to send, in order. Guarded by mu.
	waiting []session.WriteRefusal
}

func newForwarding(node session.Node, stats *counters) *forwarding {
	return &forwarding{
		node: node, stats: stats, budget: fair.NewNested[uint64, uint64](maxForwardedBytes), refused: newSignal(),
		drained: newSignal(), done: make(chan struct{}), gaps: make(map[session.ID]uint64),
	}
}

// forwardedShare is the part of the memory budget that a write in flight uses.
type forwardedShare struct {
	member *fair.Member[uint64, uint64]
	bytes  int
}

func (p forwardedShare) release() {
	p.member.Release(p.bytes)
	p.member.Close()
}

// stop ends the stream. The first reason counts.
func (f *forwarding) stop(reason error) {
	f.once.Do(func() {
		f.reason = reason
		close(f.done)
	})
}

func (f *forwarding) stopped() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// admit reserves memory for a write in flight. It refuses a write when the memory is used up, and a write behind a
// refused write of its session: the state would not accept a number behind a gap (X2), and the log would carry the
// write in vain.
//
// The gap ends with a number that is not above the highest refused number, because the node has then gone back. This
// need not be the number that was refused first: an old copy of that write may apply meanwhile, and the node goes back
// to its lowest unanswered number (X7 queue of the node). If that number is new here, it is refused once more and then
// accepted.
func (f *forwarding) admit(w *session.ForwardedWrite) (p forwardedShare, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if highest, gap := f.gaps[w.Session]; gap && w.Number > highest {
		f.refuse(session.WriteRefusal{Session: w.Session, Number: w.Number, Why: session.WriteGap})
		return forwardedShare{}, false
	}
	delete(f.gaps, w.Session)
	p = forwardedShare{f.budget.Member(w.Principal, w.Connection), len(w.Command) + forwardedBytes}
	if !p.member.Acquire(p.bytes) {
		p.member.Close()
		f.refuse(session.WriteRefusal{
			Session: w.Session, Number: w.Number, Why: session.WriteBusy, RetryAfter: session.BusyRetryAfter,
		})
		return forwardedShare{}, false
	}
	f.stats.forwarded.Add(1)
	return p, true
}

// recordOutcome processes the outcome of a write in flight. It refuses a write that was certainly not appended. It ends
// the stream when the outcome is unknown, or when the write was not a valid command (W4 answers from applied entries).
func (f *forwarding) recordOutcome(id session.ID, number uint64, p forwardedShare, err error, in *term) {
	p.release()
	var refusal session.WriteRefusal
	if err != nil {
		var certain bool
		if refusal, certain = refusalOf(err, in); !certain {
			f.stop(fmt.Errorf("write %d of %v: %w", number, id, err))
			return
		}
	}
	if err == nil {
		return
	}
	refusal.Session, refusal.Number = id, number
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refuse(refusal)
}

// refusalOf returns why a write was not appended; certain is false if the write may have been appended, or may be
// appended later.
func refusalOf(err error, in *term) (refusal session.WriteRefusal, certain bool) {
	limit, limited := errors.AsType[*session.LimitError](err)
	switch {
	case errors.Is(err, session.ErrOutcomeUnknown):
		return refusal, false
	case limited:
		refusal.Why, refusal.RetryAfter = session.WriteBusy, limit.RetryAfter
	case errors.Is(err, session.ErrStopping):
		refusal.Why = session.WriteStopping
	case errors.Is(err, session.ErrNotLeader), errors.Is(err, session.ErrNoLeader) && !in.current():
		refusal.Why = session.WriteNotLeader
	case errors.Is(err, session.ErrNoLeader): // the log is blocked, or a transfer of leadership may be near
		refusal.Why, refusal.RetryAfter = session.WriteBusy, session.BusyRetryAfter
	default:
		return refusal, false
	}
	return refusal, true
}

// refuse queues a refusal, and records the gap behind it. The caller holds mu.
func (f *forwarding) refuse(r session.WriteRefusal) {
	if _, gap := f.gaps[r.Session]; !gap && len(f.gaps) >= maxGaps {
		clear(f.gaps)
	}
	f.gaps[r.Session] = max(f.gaps[r.Session], r.Number)
	f.waiting = append(f.waiting, r)
	f.stats.writesRefused.Add(1)
	f.refused.set()
}

// refusals removes and returns refusals for one message.
func (f *forwarding) refusals() []session.WriteRefusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(len(f.waiting), session.MaxPeerBatch)
	some := f.waiting[:n:n]
	if f.waiting = f.waiting[n:]; len(f.waiting) == 0 {
		f.waiting = nil // the message owns the returned slice
	}
	f.drained.set()
	return some
}

// awaitCapacity waits until few enough refusals are unsent; false when the stream has ended.
func (f *forwarding) awaitCapacity() bool {
	for f.crowded() {
		select {
		case <-f.drained:
		case <-f.done:
			return false
		}
	}
	return !f.stopped()
}

func (f *forwarding) crowded() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.waiting) >= maxRefusals
}

// beginAcknowledge counts an acknowledgement in flight; false if too many are.
func (f *forwarding) beginAcknowledge() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.acknowledges >= maxAcknowledges {
		return false
	}
	f.acknowledges++
	return true
}

func (f *forwarding) endAcknowledge() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.acknowledges--
}
