package learner

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"holdfast/session"
)

const (
	// chunk is how many sessions one message of an answer holds: about 5 bytes each as a rule, 13 bytes at most.
	chunk = 32 << 10
	// maxUnconfirmed is how many answers are remembered while no round is good; then the oldest is forgotten. A later
	// confirmation covers a forgotten answer.
	maxUnconfirmed = 1024
)

// answerer answers the heartbeats of one stream. One goroutine uses it.
type answerer struct {
	link  Link
	table *TouchTable
	clock *clock
	view  View
	log   *answerLog
	drain *drainer
	// full reports whether the node's disk is full (O5); nil: it is not.
	full func() bool

	// touches, sorted and packed are kept for their room.
	touches []taken
	sorted  []session.Touch
	packed  []byte
}

// answer answers the heartbeat of a round (R2); all is set for the first answer of a stream, which reports everything
// that the node serves (T3). The order of its steps is T1: it takes the table, then reads h, then leaves out what has
// moved. So every touch in the answer was current at h.
//
// Ages count to the taking of the table, however late the answer is sent (T4): the answer says that there was no touch
// until then. It does not know of later touches, so a longer age would claim a silence that nobody vouches for.
func (w *answerer) answer(beat *session.Heartbeat, all bool) error {
	now := w.clock.look()
	touches, tag := w.table.take(w.touches[:0], all)
	h := w.view.Attachment()
	touches = w.table.keep(touches, h, tag)
	w.touches = touches
	slices.SortFunc(touches, func(a, b taken) int { return cmp.Compare(a.id, b.id) })
	digest := w.digest(beat.Compare)
	w.log.remember(answered{beat.Round, tag, now}, digest)
	for {
		n := min(len(touches), chunk)
		a := w.pack(touches[:n], now)
		touches = touches[n:]
		a.Round, a.Attachment, a.Last = beat.Round, h, len(touches) == 0
		a.Applied, a.Digest, a.Draining = w.view.AppliedIndex(), digest, w.drain.on()
		a.FullDisk = w.full != nil && w.full()
		if err := w.link.Send(session.LearnerMessage{Answer: a}); err != nil {
			return err
		}
		if a.Last {
			clear(w.touches)
			w.touches = roomFor(w.touches)
			return nil
		}
	}
}

// pack makes a chunk whose ages are as of now, the moment at which the table was taken. It looks for a stall since then
// once more, because a node vouches for no time before the end of a stall (E1).
func (w *answerer) pack(touches []taken, now time.Duration) *session.Answer {
	w.clock.look()
	w.sorted = w.sorted[:0]
	for _, t := range touches {
		w.sorted = append(w.sorted, session.Touch{ID: t.id, Age: now - t.at})
	}
	// The link may keep the bytes, so each chunk gets new ones.
	packed := session.AppendTouches(make([]byte, 0, len(w.packed)+len(w.packed)/8), w.sorted)
	w.packed = packed
	a := &session.Answer{Term: w.view.Term(), Touches: packed}
	a.VouchAge, a.ProcessAge, a.Credit = w.clock.stalls.vouches(now)
	return a
}

// digest returns the digest of the state at an index. It returns none when the node has not applied the index, has
// restored a snapshot after it, or has applied so much since that it has forgotten the digest.
func (w *answerer) digest(index uint64) session.StateDigest {
	if index == 0 { // no rounds compare digests now, and the state would let this wait for a heavy entry (D8 of the tree)
		return session.StateDigest{}
	}
	if d, ok := w.view.DigestAt(index); ok {
		return session.StateDigest{Index: index, Digest: d}
	}
	return session.StateDigest{}
}

// answered names an answer of a stream by its round, the tag under which its touches were reported, and when its table
// was taken.
type answered struct {
	round, tag uint64
	at         time.Duration
}

// heardAnswers is what a heartbeat tells of a stream's answers (S1). Zero tags stand for none.
type heardAnswers struct {
	// confirmed is the newest confirmed answer that is remembered.
	confirmed answered
	// processed is the tag of the newest processed answer that is remembered.
	processed uint64
}

// answerLog remembers the answers of one stream. Safe for concurrent use.
type answerLog struct {
	mu sync.Mutex
	// answers are the answers not known to be confirmed, oldest first. guarded by mu
	answers []answered
	// reported is the digest in the newest answer (D1). guarded by mu
	reported session.StateDigest
}

// remember adds an answer with its digest.
func (l *answerLog) remember(a answered, digest session.StateDigest) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.answers) == maxUnconfirmed {
		l.answers = slices.Delete(l.answers, 0, 1)
	}
	l.answers = append(l.answers, a)
	l.reported = digest
}

// digest returns the digest that the newest answer reported.
func (l *answerLog) digest() session.StateDigest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reported
}

// heard returns what a heartbeat tells of the answers, and forgets the confirmed ones.
func (l *answerLog) heard(confirmed, processed uint64) (h heardAnswers) {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for _, a := range l.answers {
		if a.round <= confirmed {
			h.confirmed = a
			n++
		}
		if a.round <= max(confirmed, processed) {
			h.processed = a.tag
		}
	}
	l.answers = slices.Delete(l.answers, 0, n)
	return h
}
