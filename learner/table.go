package learner

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// TouchTable holds the attachments that this node serves, and the touches that it has heard since it last answered a
// heartbeat. A touch takes the short lock of one shard and allocates nothing. Safe for concurrent use.
//
// A promise (S3) rests on the newest touch of a session that the leader has confirmed. Each answer to a heartbeat, and
// each attachment, gets the next number of a counter, its tag. Each reported touch remembers the tag of its answer. The
// newest confirmed tag is one number for the whole table, so a confirmation costs nothing per session.
type TouchTable struct {
	shards [shards]shard
	// window says which tags are confirmed. It is replaced as a whole, with mu held.
	window atomic.Pointer[window]

	mu sync.Mutex
	// tag is the newest tag given out. guarded by mu
	tag uint64
}

const shards = 64

type shard struct {
	number int
	mu     sync.Mutex
	// serving holds the newest attachment served of each session. guarded by mu
	serving map[session.ID]*attached
	// touched are the attachments touched since the table was last taken. spare is the list from the taking before,
	// kept for its room. guarded by mu
	touched, spare []*attached
	// _ keeps shards on separate cache lines, so that writers of different shards do not slow each other down.
	_ [64]byte
}

// attached is one attachment that this node serves. The fields that a touch needs come first and fill one cache line.
type attached struct {
	shard   *shard
	timeout time.Duration

	// All following fields are guarded by shard.mu, except id and attachment, which do not change.

	// last is the newest touch, or when the serving began (T4). Moments are those of the node's clock.
	last time.Duration
	// confirmed is the newest confirmed touch. older and newer are reported, but not known to be confirmed. While both
	// are taken, a further report replaces newer, because the leader confirms older first.
	confirmed, older mark
	// listed is set while the shard's touched list holds this attachment, ended once the node serves it no longer.
	listed, ended bool

	newer mark
	// over is the refusal of touches after the end.
	over error
	// conn is told of the end; nil: no connection is.
	conn *connection

	id         session.ID
	attachment uint64
	// local is the attachment that the session had as a local one before this attachment made it global; 0: none.
	local uint64
}

// mark is a touch and the tag of the answer that reported it. Tag 0 means no touch.
type mark struct {
	tag uint64
	at  time.Duration
}

// window is the set of confirmed tags. It holds the tags of this stream's answers up to the newest confirmed answer,
// and the confirmed tags of the stream before, to which nothing is added any more (S1). Marks below floor count for
// nothing (S5).
type window struct {
	first, upTo       uint64
	oldFirst, oldUpTo uint64
	floor             uint64
}

func (w *window) confirms(tag uint64) bool {
	return tag >= w.first && tag <= w.upTo || tag >= w.oldFirst && tag <= w.oldUpTo
}

// dead reports whether no heartbeat will ever confirm tag.
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

// shardOf spreads ids over the shards evenly, whether they come from one millisecond or from one second.
func (t *TouchTable) shardOf(id session.ID) *shard {
	return &t.shards[uint64(id)*0x9e3779b97f4a7c15>>(64-6)]
}

// touch records a touch of a that was received at now, and returns the promise for it (S3), which is negative when
// there is none. The error says why a is served no longer; touch then records nothing (T2).
func (t *TouchTable) touch(a *attached, now time.Duration) (time.Duration, error) {
	w := t.window.Load()
	a.shard.mu.Lock()
	defer a.shard.mu.Unlock()
	return a.touch(w, now)
}

// touchAll touches all and adds each outcome to out. It returns the attachments that are still served, in place. all is
// in the order of the shards, so that touchAll locks each shard about once.
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

// touch is [TouchTable.touch] under the window w. Called with the shard's mu held.
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

// promise returns the promise for a touch at now (S3), negative for none. Called with the shard's mu held.
func (a *attached) promise(w *window, now time.Duration) time.Duration {
	a.settle(w)
	if a.confirmed.tag == 0 || a.confirmed.tag < w.floor {
		return -1
	}
	return safeFor(a.timeout, now-a.confirmed.at)
}

// safeFor returns the promise of a session whose newest confirmed touch is so old (S3), negative for none. A hundredth
// of the timeout and a millisecond are a margin for clocks that run at different rates.
func safeFor(timeout, age time.Duration) time.Duration {
	if safe := timeout - age - timeout/100 - time.Millisecond; safe > 0 {
		return safe
	}
	return -1
}

// settle applies w to the reported touches: it takes over the confirmed ones and drops the dead ones. Called with the
// shard's mu held.
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

// report notes that the newest touch went out with the answer tag. Called with the shard's mu held.
func (a *attached) report(w *window, tag uint64) {
	a.settle(w)
	if a.older.tag == 0 {
		a.older = mark{tag, a.last}
	} else {
		a.newer = mark{tag, a.last}
	}
}

// taken is a touch at the moment when the table was taken.
type taken struct {
	id session.ID // a copy, so that sorting does not load the attachments
	at time.Duration
	a  *attached
}

// take appends the touches since the last call to buf, and empties the table (T1). It goes shard by shard; the swap of
// a shard is atomic with respect to every touch. With all set it appends everything that is served (T3). The touches
// are reported under the returned tag.
//
//nolint:revive // flag-parameter: the first answer of a stream differs in nothing else
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
	clear(s.spare) // else an old list would keep ended attachments alive
	return buf
}

// keep returns the touches whose attachments are still served, in place (T1, last step). It leaves an attachment above
// h for the next answer, because the leader would not take it (T5): an upgrade serves its attachment before h shows it.
// The touches are in the order of the shards, so that keep locks each shard about once.
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

// again takes a report back and lists the touch for the next answer. Called with the shard's mu held.
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

// beginStream begins a new stream. Touches that the former stream reported, but did not see confirmed, stay unconfirmed
// for ever (S1).
func (t *TouchTable) beginStream() {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := *t.window.Load()
	t.window.Store(&window{first: t.tag + 1, oldFirst: w.first, oldUpTo: w.upTo, floor: w.floor})
}

// confirm confirms the touches reported up to tag, except for those of the sessions in notTaken. The leader did not
// take the touches of these that were reported up to the tag last (S1).
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

// dropPromises voids every touch that was confirmed or reported: no promise rests on one any more (S5).
func (t *TouchTable) dropPromises() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tag++
	t.window.Store(&window{first: t.tag, floor: t.tag})
}
