package learner

import (
	"math"
	"slices"
	"sync"
	"time"

	"holdfast/session"
)

const (
	// chunk is the number of sessions in one message of an answer: about 5 bytes each as a rule, 13 bytes at most.
	chunk = 32 << 10
	// maxUnconfirmed is the number of answers to remember while no round is good; beyond it the oldest is forgotten. A
	// later confirmation covers a forgotten answer.
	maxUnconfirmed = 1024
)

// answerer answers the heartbeats of one stream. Only one goroutine uses it.
type answerer struct {
	link  Link
	table *TouchTable
	clock *clock
	view  View
	log   *answerLog
	drain *drainer
	// full reports whether the node's disk is full (O5 full disks). It may be nil: the disk is never full then.
	full func() bool

	// swept, touches, spare and packed are reused buffers.
	swept          []sweptTouch
	touches, spare []session.Touch
	packed         []byte
}

// answer answers the heartbeat of a round (R2 heartbeat answers). all is set for the first answer of a stream, which
// reports every session that the node serves (T3 ordered streams). The order of the steps is rule T1: swap the table,
// then read h, then drop the touches of moved sessions. So every touch in the answer was current at h.
//
// Ages count up to the swap of the table, however late the answer is sent (T4 age of a touch): the answer says that
// there was no touch until then. Later touches are not in the answer, so a longer age would claim a silence that the
// node does not know of.
func (w *answerer) answer(beat *session.Heartbeat, all bool) error {
	now := w.clock.checkedNow()
	swept, tag := w.table.swap(w.swept[:0], all)
	h := w.view.Attachment()
	touches := w.touches[:0]
	for _, t := range w.table.keep(swept, h, tag) {
		touches = append(touches, session.Touch{ID: t.id, Age: now - t.at})
	}
	clear(swept) // the table may drop these attachments
	w.swept = reuse(swept)
	touches, spare := sortTouches(touches, w.spare)
	w.touches, w.spare = reuse(touches), reuse(spare)
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
			return nil
		}
	}
}

// pack makes a chunk. Its ages are as of now, the moment of the table's swap. pack checks once more for a stall since
// then, because a node reports only the time after a stall as observed (E1 full timeout after a change of leader).
func (w *answerer) pack(touches []session.Touch, now time.Duration) *session.Answer {
	w.clock.checkedNow()
	// The link may keep the bytes, so each chunk is a new slice.
	packed := session.AppendTouches(make([]byte, 0, len(w.packed)+len(w.packed)/8), touches)
	w.packed = packed
	a := &session.Answer{Term: w.view.Term(), Touches: packed}
	a.StallAge, a.ProcessAge, a.Credit = w.clock.stalls.ages(now)
	return a
}

// sortTouches sorts touches by id, with the memory of spare if that is enough. It returns the sorted touches and the
// other slice. It is a radix sort: a node with a million sessions sorts a hundred thousand touches in each round, and ids
// differ in few of their bytes.
func sortTouches(touches, spare []session.Touch) (sorted, other []session.Touch) {
	var common, some session.ID = math.MaxUint64, 0
	for _, t := range touches {
		common, some = common&t.ID, some|t.ID
	}
	spare = slices.Grow(spare[:0], len(touches))[:len(touches)]
	for shift := 0; shift < 64; shift += 8 {
		if (common^some)>>shift&0xff == 0 {
			continue // all ids have the same byte here
		}
		var next [256]int
		for _, t := range touches {
			next[byte(t.ID>>shift)]++
		}
		begin := 0
		for i, n := range next {
			next[i], begin = begin, begin+n
		}
		for _, t := range touches {
			at := &next[byte(t.ID>>shift)]
			spare[*at] = t
			*at++
		}
		touches, spare = spare, touches
	}
	return touches, spare
}

// digest returns the digest of the state at an index. It returns none when the node has not applied the index, has
// restored a snapshot since, or has applied so many entries since that the digest is forgotten.
func (w *answerer) digest(index uint64) session.StateDigest {
	if index == 0 { // no rounds compare digests now, and reading one would wait for a heavy entry (D8)
		return session.StateDigest{}
	}
	if d, ok := w.view.DigestAt(index); ok {
		return session.StateDigest{Index: index, Digest: d}
	}
	return session.StateDigest{}
}

// answered identifies an answer of a stream by its round, the tag of its touches, and the moment of the table's swap.
type answered struct {
	round, tag uint64
	at         time.Duration
}

// confirmedAnswers is the part of a heartbeat about a stream's answers (S1 confirmed touches). Zero tags mean none.
type confirmedAnswers struct {
	// confirmed is the newest confirmed answer in the log.
	confirmed answered
	// processed is the tag of the newest processed answer in the log.
	processed uint64
}

// answerLog remembers the answers of one stream. Safe for concurrent use.
type answerLog struct {
	mu sync.Mutex
	// answers are the unconfirmed answers, oldest first. guarded by mu
	answers []answered
	// reported is the digest in the newest answer (C1 digest comparison). guarded by mu
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

// digest returns the digest in the newest answer.
func (l *answerLog) digest() session.StateDigest {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reported
}

// confirm returns what a heartbeat confirms of the stream's answers, and forgets the confirmed ones.
func (l *answerLog) confirm(confirmed, processed uint64) (h confirmedAnswers) {
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
