package leader

import (
	"errors"
	"fmt"
	"sync"

	"holdfast/session"
	"holdfast/session/fair"
)

// Bounds of one Forward stream. The proposer's queue has a bound for all nodes together (W7). One stream may use half
// of it, so that no node takes all places.
const (
	// maxForwardedBytes bounds the writes under way, by the bytes of their commands with forwardedBytes for each: they
	// are at most 8,192. It is a [fair.Nested]: a principal has at most three times what is free, and a connection three
	// times what that leaves its principal.
	maxForwardedBytes = 32 << 20
	forwardedBytes    = 4 << 10
	// maxAcknowledges bounds the acknowledgements under way. Further ones are dropped.
	maxAcknowledges = 64
	// maxRefusals is the number of refusals that wait for the node before its writes are read no further. Writes under
	// way may add one each.
	maxRefusals = 16 << 10
	// maxGaps bounds the sessions whose later writes are refused. When there are more, all are forgotten: the state
	// refuses what they would have (X2).
	maxGaps = 64 << 10
)

// forwards are the Forward streams of a term: the newest of each node. The zero value is empty. Safe for concurrent
// use.
type forwards struct {
	mu sync.Mutex
	of map[session.Node]*forwarding // guarded by mu
}

// begin makes f the stream of its node, and ends the former one.
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

// forwarding is one Forward stream: what is under way, what was refused, and its end. Safe for concurrent use.
type forwarding struct {
	node  session.Node
	stats *counters
	// room is for the writes under way in the log. The principals of the node share it, and their connections.
	room *fair.Nested[uint64, uint64]
	// refused wakes the writer when refusals wait, drained the reader when some were taken.
	refused, drained signal
	once             sync.Once
	// reason is why the stream ended. It is set before done is closed, and read only after that.
	reason error
	// done is closed when the stream ends.
	done chan struct{}

	mu sync.Mutex
	// acknowledges are under way in the log. Guarded by mu.
	acknowledges int
	// gaps holds, for each session of which a write was refused, the highest number refused since. Guarded by mu.
	gaps map[session.ID]uint64
	// waiting are the refusals to send, in their order. Guarded by mu.
	waiting []session.WriteRefusal
}

func newForwarding(node session.Node, stats *counters) *forwarding {
	return &forwarding{
		node: node, stats: stats, room: fair.NewNested[uint64, uint64](maxForwardedBytes), refused: newSignal(),
		drained: newSignal(), done: make(chan struct{}), gaps: make(map[session.ID]uint64),
	}
}

// forwardedPlace is what a write under way takes of the room.
type forwardedPlace struct {
	member *fair.Member[uint64, uint64]
	bytes  int
}

func (p forwardedPlace) giveBack() {
	p.member.Give(p.bytes)
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

// admit gives a write a place among those under way. It refuses one without room, and one behind a refused write of its
// session: the state would take no number behind a gap (X2), and the log would carry it in vain.
//
// The gap ends with a number that is not above the highest refused one, which is the sign that the node has gone back.
// It need not be the number that was refused first: an old copy of that may apply meanwhile, and the node goes back to
// the lowest number without an answer (X7). If that one is new here, it is refused once more and then taken.
func (f *forwarding) admit(w *session.ForwardedWrite) (p forwardedPlace, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if highest, gap := f.gaps[w.Session]; gap && w.Number > highest {
		f.refuse(session.WriteRefusal{Session: w.Session, Number: w.Number, Why: session.WriteGap})
		return forwardedPlace{}, false
	}
	delete(f.gaps, w.Session)
	p = forwardedPlace{f.room.Member(w.Principal, w.Connection), len(w.Command) + forwardedBytes}
	if !p.member.Take(p.bytes) {
		p.member.Close()
		f.refuse(session.WriteRefusal{
			Session: w.Session, Number: w.Number, Why: session.WriteBusy, RetryAfter: session.BusyRetryAfter,
		})
		return forwardedPlace{}, false
	}
	f.stats.forwarded.Add(1)
	return p, true
}

// settle notes what became of a write that had a place. It refuses what was certainly not appended, and ends the stream
// when that is not known, or when the write was no command (W4).
func (f *forwarding) settle(id session.ID, number uint64, p forwardedPlace, err error, in *term) {
	p.giveBack()
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

// refusalOf returns why a write was not appended; certain is false if it may have been, or may yet be.
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
	case errors.Is(err, session.ErrNoLeader): // the log stands, or leadership may be about to be handed over
		refusal.Why, refusal.RetryAfter = session.WriteBusy, session.BusyRetryAfter
	default:
		return refusal, false
	}
	return refusal, true
}

// refuse queues a refusal, and notes the gap behind it. The caller holds mu.
func (f *forwarding) refuse(r session.WriteRefusal) {
	if _, gap := f.gaps[r.Session]; !gap && len(f.gaps) >= maxGaps {
		clear(f.gaps)
	}
	f.gaps[r.Session] = max(f.gaps[r.Session], r.Number)
	f.waiting = append(f.waiting, r)
	f.stats.writesRefused.Add(1)
	f.refused.set()
}

// refusals takes refusals to send in one message.
func (f *forwarding) refusals() []session.WriteRefusal {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := min(len(f.waiting), session.MaxPeerBatch)
	some := f.waiting[:n:n]
	if f.waiting = f.waiting[n:]; len(f.waiting) == 0 {
		f.waiting = nil // what was taken belongs to its message
	}
	f.drained.set()
	return some
}

// awaitRoom returns once few enough refusals wait; false when the stream has ended.
func (f *forwarding) awaitRoom() bool {
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

// beginAcknowledge counts an acknowledgement as under way; false if too many are.
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
