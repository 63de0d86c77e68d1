package learner

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// TouchTable holds what this node serves and what it has heard since it last answered a heartbeat. A touch takes one
// short lock of one of its shards and allocates nothing. Safe for concurrent use.
//
// Promises (S3) need to know which touch of a session the leader has confirmed. Each answer to a heartbeat, and each
// attachment, gets the next number of a counter, its tag, and each reported touch remembers the tag it went out with;
// the newest confirmed tag is one number for the whole table, so a confirmation costs nothing per session.
type TouchTable struct {
	shards [shards]shard
	// window says which tags are confirmed. Replaced whole, under mu.
	window atomic.Pointer[window]

	mu sync.Mutex
	// tag is the newest one given out. guarded by mu
	tag uint64
}

const shards = 64

type shard struct {
	number int
	mu     sync.Mutex
	// serving holds the newest attachment served of each session. guarded by mu
	serving map[session.ID]*attached
	// touched are those touched since the table was last taken; spare is the list of the time before. guarded by mu
	touched, spare []*attached
	// _ keeps neighbours off one cache line: writers of different shards do not meet.
	_ [64]byte
}

// attached is one attachment that this node serves. What a touch needs comes first and fills one cache line.
type attached struct {
	shard   *shard
	timeout time.Duration

	// The rest but id and attachment is guarded by shard.mu.

	// last is the newest touch, or when the serving began (T4). Moments are those of the node's clock.
	last time.Duration
	// confirmed is the newest confirmed touch; older and newer are reported and not known to be confirmed. When both
	// are taken, a further report replaces newer: older is the one that will be confirmed first.
	confirmed, older mark
	// listed is set while the shard's touched list holds this, ended once the attachment is served no longer.
	listed, ended bool

	newer mark
	// over is why it ended.
	over error
	// conn hears of its end; nil when no connection does.
	conn *connection

	id         session.ID
	attachment uint64
	// local is the attachment that the session had as a local one, until it became global by this one; 0: none.
	local uint64
}

// mark is a touch and the tag of the answer that reported it; tag 0 is none.
type mark struct {
	tag uint64
	at  time.Duration
}

// window is the set of confirmed tags: those of this stream's answers up to the newest confirmed one, and those of the
// stream before, which nothing confirms any more (S1). Marks below floor count for nothing (S5).
type window struct {
	first, upTo       uint64
	oldFirst, oldUpTo uint64
	floor             uint64
}

func (w *window) confirms(tag uint64) bool {
	return tag >= w.first && tag <= w.upTo || tag >= w.oldFirst && tag <= w.oldUpTo
}

// dead reports that no heartbeat will ever confirm tag.
func (w *window) dead(tag uint64) bool { return tag < w.first && !w.confirms(tag) }

// NewTouchTable returns an empty table.
func NewTouchTable() *TouchTable {
	t := &TouchTable{}
	t.window.Store(&window{first: 1})
	for i := range t.shards {
		t.shards[i].number = i
		t.shards[i].serving = make(map[session.ID]*attached)
	}
	return t
}

// shardOf spreads the ids of one millisecond, and of one second, over the shards.
func (t *TouchTable) shardOf(id session.ID) *shard {
	return &t.shards[uint64(id)*0x9e3779b97f4a7c15>>(64-6)]
}

// touch records a touch of a received at now, and returns what may be promised for it (S3), negative for nothing. The
// error says why a is served no longer; then nothing is recorded (T2).
func (t *TouchTable) touch(a *attached, now time.Duration) (time.Duration, error) {
	w := t.window.Load()
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	return a.touch(w, now)
}

// touchAll touches all, which stand in the order of their shards so that each shard is locked about once, adds each
// outcome to out, and returns those that are still served, in place.
func (t *TouchTable) touchAll(all []*attached, now time.Duration, out *outcome) []*attached {
	w := t.window.Load()
	kept := all[:0]
	for rest := all; len(rest) > 0; {
		s := rest[0].shard
		s.mu.Lock()
		for len(rest) > 0 && rest[0].shard == s {
			a := rest[0]
			safe, err := a.touch(w, now)
			if err == nil {
				kept = append(kept, a)
			}
			out.add(a.id, safe, err)
			rest = rest[1:]
		}
		s.mu.Unlock()
	}
	clear(all[len(kept):])
	return kept
}

// touch is one touch. Called with the shard's mu held.
func (a *attached) touch(w *window, now time.Duration) (time.Duration, error) {
	if a.ended {
		return -1, a.over
	}
	a.last = max(a.last, now)
	if !a.listed {
		a.listed = true
		a.shard.touched = append(a.shard.touched, a)
	}
	return a.promise(w, now), nil
}

// promise is S3.
func (a *attached) promise(w *window, now time.Duration) time.Duration {
	a.settle(w)
	if a.confirmed.tag == 0 || a.confirmed.tag < w.floor {
		return -1
	}
	if safe := a.timeout - (now - a.confirmed.at) - a.timeout/100 - time.Millisecond; safe > 0 {
		return safe
	}
	return -1
}

// settle moves reported touches to where w puts them.
func (a *attached) settle(w *window) {
	for a.older.tag != 0 {
		switch {
		case w.confirms(a.older.tag):
			if a.older.at >= a.confirmed.at || a.confirmed.tag < w.floor {
				a.confirmed = a.older
			}
		case !w.dead(a.older.tag):
			return
		}
		a.older, a.newer = a.newer, mark{}
	}
}

// report notes that the newest touch went out with the answer tag.
func (a *attached) report(w *window, tag uint64) {
	a.settle(w)
	if a.older.tag == 0 {
		a.older = mark{tag, a.last}
	} else {
		a.newer = mark{tag, a.last}
	}
}

// taken is a touch as it was when the table was taken.
type taken struct {
	id session.ID // here, so that sorting does not touch the attachments
	at time.Duration
	a  *attached
}

// take swaps what was touched for an empty table, shard by shard, each swap atomic against every touch (T1), and
// appends it to buf; with all set it appends everything that is served (T3). The touches are reported under the
// returned tag.
//
//nolint:revive // flag-parameter: a first answer differs in nothing else
func (t *TouchTable) take(buf []taken, all bool) ([]taken, uint64) {
	tag := t.nextTag()
	w := t.window.Load()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if all {
			s.list()
		}
		buf = s.take(buf, w, tag)
		s.mu.Unlock()
	}
	return buf, tag
}

// nextTag gives out a tag.
func (t *TouchTable) nextTag() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tag++
	return t.tag
}

// list puts everything that is served on the touched list. Called with mu held.
func (s *shard) list() {
	for _, a := range s.serving {
		if !a.listed {
			a.listed = true
			s.touched = append(s.touched, a)
		}
	}
}

// take empties the touched list into buf. Called with mu held.
func (s *shard) take(buf []taken, w *window, tag uint64) []taken {
	list := s.touched
	s.touched, s.spare = s.spare[:0], list
	for _, a := range list {
		a.listed = false
		if !a.ended {
			a.report(w, tag)
			buf = append(buf, taken{a.id, a.last, a})
		}
	}
	clear(s.spare) // what has ended is not kept alive by an old list
	return buf
}

// keep leaves out what is served no longer, and returns the rest, in place (T1, last step). An attachment above h,
// which an upgrade serves from the entry on that makes it, is left for the next answer: the leader would not take it
// (T5). Touches stand in the order of their shards, so each shard is locked about once.
func (t *TouchTable) keep(touches []taken, h, tag uint64) []taken {
	kept := touches[:0]
	var locked *shard
	for _, touch := range touches {
		if touch.a.shard != locked {
			if locked != nil {
				locked.mu.Unlock()
			}
			locked = touch.a.shard
			locked.mu.Lock()
		}
		switch {
		case touch.a.ended:
		case touch.a.attachment > h:
			touch.a.again(tag)
		default:
			kept = append(kept, touch)
		}
	}
	if locked != nil {
		locked.mu.Unlock()
	}
	return kept
}

// again takes a report back, and lists the touch for the next answer. Called with the shard's mu held.
func (a *attached) again(tag uint64) {
	switch tag {
	case a.newer.tag:
		a.newer = mark{}
	case a.older.tag:
		a.older, a.newer = a.newer, mark{}
	}
	if !a.listed {
		a.listed = true
		a.shard.touched = append(a.shard.touched, a)
	}
}

// beginStream makes what the stream before reported and was not told to be confirmed unconfirmed for ever (S1).
func (t *TouchTable) beginStream() {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := *t.window.Load()
	t.window.Store(&window{first: t.tag + 1, oldFirst: w.first, oldUpTo: w.upTo, floor: w.floor})
}

// confirm makes the touches reported up to tag confirmed, less those of notTaken, which were reported up to the tag
// last (S1).
func (t *TouchTable) confirm(tag, last uint64, notTaken []session.ID) {
	for _, id := range notTaken {
		t.shardOf(id).discard(id, last)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := *t.window.Load()
	w.upTo = max(w.upTo, tag)
	t.window.Store(&w)
}

// discard forgets the reports of a session up to tag.
func (s *shard) discard(id session.ID, tag uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.serving[id]
	if a == nil {
		return
	}
	if a.newer.tag <= tag {
		a.newer = mark{}
	}
	if a.older.tag <= tag {
		a.older, a.newer = a.newer, mark{}
	}
}

// dropPromises makes everything that was ever confirmed or reported count for nothing (S5).
func (t *TouchTable) dropPromises() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tag++
	t.window.Store(&window{first: t.tag, floor: t.tag})
}
