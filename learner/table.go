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

// shardBits makes 64 shards.
const (
	shardBits = 6
	shards    = 1 << shardBits
)

type shard struct {
	mu sync.Mutex
	// serving holds the newest attachment served of each session. guarded by mu
	serving attachedSet
	// touched are the attachments touched since the table was last taken. spare is the list from the taking before,
	// kept for its room. guarded by mu
	touched, spare []*attached
	// _ keeps shards on separate cache lines, so that writers of different shards do not slow each other down.
	_ [64]byte
}

// attached is one attachment that this node serves. A node may serve a million, so it takes 80 bytes, a size class of
// Go's allocator. The fields that a touch needs come first.
type attached struct {
	// All fields are guarded by the shard's mu, except id, attachment and timeoutMS, which do not change.

	// last is the newest touch, or when the serving began (T4). Moments are those of the node's clock.
	last time.Duration
	// confirmed is the newest confirmed touch. older, and newer in rare, are reported, but not known to be confirmed.
	// While both are taken, a further report replaces newer, because the leader confirms older first.
	confirmed, older mark
	timeoutMS        uint32
	// listed is set while the shard's touched list holds this attachment, ended once the node serves it no longer.
	listed, ended bool

	id         session.ID
	attachment uint64
	// conn is told of the end; nil: no connection is.
	conn *connection
	// rare is nil for most attachments.
	rare *rare
}

// rare is what few attachments need.
type rare struct {
	newer mark
	// over is the refusal of touches after the end.
	over error
	// local is the attachment that the session had as a local one before this attachment made it global; 0: none.
	local uint64
}

// newAttached returns an attachment of s that conn serves from now on.
func newAttached(s *session.Session, conn *connection, now time.Duration) *attached {
	return &attached{
		id: s.ID, attachment: s.Attachment, timeoutMS: uint32(s.Timeout.Milliseconds()), conn: conn, last: now,
	}
}

func (a *attached) timeout() time.Duration { return time.Duration(a.timeoutMS) * time.Millisecond }

// more returns the rare part, which can be written to. Called with the shard's mu held.
func (a *attached) more() *rare {
	if a.rare == nil {
		a.rare = &rare{}
	}
	return a.rare
}

// end notes that the node serves a no longer, and why. Called with the shard's mu held.
func (a *attached) end(why error) {
	a.ended = true
	a.more().over = why
}

// mark is a touch and the tag of the answer that reported it. Tag 0 means no touch.
type mark struct {
	tag uint64
	at  time.Duration
}

// window is the set of confirmed tags. It holds the tags of this stream's answers up to the newest confirmed answer,
// and the confirmed tags of the stream before, to which nothing is added any more (S1). Marks below floor count for
// nothing (S5).
//
// Tags after upTo and up to processed are confirmed in part: their touches count as if received at asOf, when the table
// of the answer upTo was taken, or when they were received if that is earlier.
type window struct {
	first, upTo       uint64
	processed         uint64
	asOf              time.Duration
	oldFirst, oldUpTo uint64
	floor             uint64
}

func (w *window) confirms(tag uint64) bool {
	return tag >= w.first && tag <= w.upTo || tag >= w.oldFirst && tag <= w.oldUpTo
}

// partly reports whether tag is confirmed in part.
func (w *window) partly(tag uint64) bool { return w.upTo > 0 && tag > w.upTo && tag <= w.processed }

// dead reports whether no heartbeat will ever confirm tag.
func (w *window) dead(tag uint64) bool { return tag < w.first && !w.confirms(tag) }

// NewTouchTable returns an empty table.
func NewTouchTable() *TouchTable {
	t := &TouchTable{}
	t.window.Store(&window{first: 1})
	for i := range t.shards {
		t.shards[i].serving.skip = shardBits
	}
	return t
}

func (t *TouchTable) shardOf(id session.ID) *shard { return &t.shards[hashOf(id)>>(64-shardBits)] }

// touch records a touch of a that was received at now, and returns the promise for it (S3), which is negative when
// there is none. The error says why a is served no longer; touch then records nothing (T2).
func (t *TouchTable) touch(a *attached, now time.Duration) (time.Duration, error) {
	w := t.window.Load()
	s := t.shardOf(a.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touch(a, w, now)
}

// promised returns the promise for a keep-alive of a that was received at (S3), negative for none. It is no touch. The
// confirmed touch may be newer than the keep-alive, which the promise then counts from.
func (t *TouchTable) promised(a *attached, at time.Duration) time.Duration {
	w := t.window.Load()
	s := t.shardOf(a.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.ended {
		return -1
	}
	return a.promise(w, at)
}

// touchAll touches all and adds each outcome to out. all is in the order of the shards, apart from a few, so touchAll
// locks each shard about once.
func (t *TouchTable) touchAll(all *attachedSet, now time.Duration, out *outcome) {
	w := t.window.Load()
	var locked *shard
	for _, a := range all.slots {
		if a == nil {
			continue
		}
		locked = t.lock(a, locked)
		safe, err := locked.touch(a, w, now)
		out.add(a.id, safe, err)
	}
	if locked != nil {
		locked.mu.Unlock()
	}
}

// promisedAll returns the smallest promise for a keep-alive of all that was received at (S3), negative if one has none.
func (t *TouchTable) promisedAll(all *attachedSet, at time.Duration) time.Duration {
	w := t.window.Load()
	least := time.Duration(-1)
	var locked *shard
	for _, a := range all.slots {
		if a == nil {
			continue
		}
		locked = t.lock(a, locked)
		safe := time.Duration(-1)
		if !a.ended {
			safe = a.promise(w, at)
		}
		if least < 0 || safe < least {
			least = safe
		}
		if safe < 0 {
			break
		}
	}
	if locked != nil {
		locked.mu.Unlock()
	}
	return least
}

// lock returns the shard of a, and locks it, unless it is the one that is locked already. It unlocks the other one.
func (t *TouchTable) lock(a *attached, locked *shard) *shard {
	s := t.shardOf(a.id)
	if s != locked {
		if locked != nil {
			locked.mu.Unlock()
		}
		s.mu.Lock()
	}
	return s
}

// touch is [TouchTable.touch] under the window w. Called with mu held.
func (s *shard) touch(a *attached, w *window, now time.Duration) (time.Duration, error) {
	if a.ended {
		return -1, a.rare.over
	}
	a.last = max(a.last, now)
	s.list(a)
	return a.promise(w, now), nil
}

// list puts a on the touched list. Called with mu held.
func (s *shard) list(a *attached) {
	if !a.listed {
		a.listed = true
		s.touched = append(s.touched, a)
	}
}

// promise returns the promise for a touch at now (S3), negative for none. Called with the shard's mu held.
func (a *attached) promise(w *window, now time.Duration) time.Duration {
	a.settle(w)
	if a.confirmed.tag == 0 || a.confirmed.tag < w.floor {
		return -1
	}
	return safeFor(a.timeout(), max(now-a.confirmed.at, 0))
}

// safeFor returns the promise of a session whose newest confirmed touch is so old (S3), negative for none. A hundredth
// of the timeout and a millisecond are a margin for clocks that run at different rates.
func safeFor(timeout, age time.Duration) time.Duration {
	if safe := timeout - age - timeout/100 - time.Millisecond; safe > 0 {
		return safe
	}
	return -1
}

// settle applies w to the reported touches: it takes over the confirmed ones and drops the dead ones. It keeps those that
// are confirmed in part, because more of them may be confirmed later. Called with the shard's mu held.
func (a *attached) settle(w *window) {
	for a.older.tag != 0 {
		switch {
		case w.confirms(a.older.tag):
			a.confirm(a.older, w)
		case !w.dead(a.older.tag):
			a.settlePart(a.older, w)
			if a.rare != nil {
				a.settlePart(a.rare.newer, w)
			}
			return
		}
		a.dropOlder()
	}
}

// settlePart takes over as much of a reported touch as is confirmed in part. Called with the shard's mu held.
func (a *attached) settlePart(m mark, w *window) {
	if w.partly(m.tag) {
		a.confirm(mark{m.tag, min(m.at, w.asOf)}, w)
	}
}

// confirm takes over a confirmed touch, unless a newer one is. Called with the shard's mu held.
func (a *attached) confirm(m mark, w *window) {
	if m.at >= a.confirmed.at || a.confirmed.tag < w.floor {
		a.confirmed = m
	}
}

// dropOlder puts newer in the place of older. Called with the shard's mu held.
func (a *attached) dropOlder() {
	a.older = mark{}
	if a.rare != nil {
		a.older, a.rare.newer = a.rare.newer, mark{}
	}
}

// report notes that the newest touch went out with the answer tag. Called with the shard's mu held.
func (a *attached) report(w *window, tag uint64) {
	a.settle(w)
	if a.older.tag == 0 {
		a.older = mark{tag, a.last}
	} else {
		a.more().newer = mark{tag, a.last}
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
			s.listAll()
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

// listAll puts everything that is served on the touched list. Called with mu held.
func (s *shard) listAll() {
	for _, a := range s.serving.slots {
		if a != nil {
			s.list(a)
		}
	}
}

// take empties the touched list into buf. Called with mu held.
func (s *shard) take(buf []taken, w *window, tag uint64) []taken {
	list := s.touched
	s.touched, s.spare = s.spare[:0], roomFor(list)
	for _, a := range list {
		a.listed = false
		if !a.ended {
			a.report(w, tag)
			buf = append(buf, taken{a.id, a.last, a})
		}
	}
	clear(list) // else an old list would keep ended attachments alive
	return buf
}

// roomFor returns an emptied list for its room. It gives room back that has become far too large: the list of all
// attachments, for the first answer of a stream, need not stay.
func roomFor[T any](list []T) []T {
	if cap(list) > 256 && len(list) < cap(list)/4 {
		return nil
	}
	return list[:0]
}

// keep returns the touches whose attachments are still served, in place (T1, last step). It leaves an attachment above
// h for the next answer, because the leader would not take it (T5): an upgrade serves its attachment before h shows it.
// The touches are in the order of the shards, so that keep locks each shard about once.
func (t *TouchTable) keep(touches []taken, h, tag uint64) []taken {
	kept := touches[:0]
	var locked *shard
	for _, touch := range touches {
		locked = t.lock(touch.a, locked)
		switch {
		case touch.a.ended:
		case touch.a.attachment > h:
			touch.a.takeBack(tag)
			locked.list(touch.a)
		default:
			kept = append(kept, touch)
		}
	}
	if locked != nil {
		locked.mu.Unlock()
	}
	return kept
}

// takeBack takes a report back. Called with the shard's mu held.
func (a *attached) takeBack(tag uint64) {
	switch {
	case a.rare != nil && a.rare.newer.tag == tag:
		a.rare.newer = mark{}
	case a.older.tag == tag:
		a.dropOlder()
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

// confirm confirms touches as a heartbeat tells, except for those of the sessions in notTaken (S1).
func (t *TouchTable) confirm(told heardAnswers, notTaken []session.ID) {
	for _, id := range notTaken {
		t.shardOf(id).discard(id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := *t.window.Load()
	if c := told.confirmed; c.tag >= w.first && c.tag > w.upTo { // an answer from before a suspension dates nothing (S5)
		w.upTo, w.asOf = c.tag, c.at
	}
	w.processed = max(w.processed, told.processed)
	t.window.Store(&w)
}

// settles reports whether touches that were reported under tag are confirmed, at least in part, or never will be.
func (t *TouchTable) settles(tag uint64) bool {
	w := t.window.Load()
	return w.confirms(tag) || w.partly(tag) || w.dead(tag)
}

// newestTag returns the newest tag that was given out.
func (t *TouchTable) newestTag() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tag
}

// discard forgets the reports of a session. The heartbeat that names a touch which was not taken is the first one after
// the answer that reported it (R1), so no later answer has reported another.
func (s *shard) discard(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.serving.find(id); a != nil {
		a.dropOlder()
		a.dropOlder()
	}
}

// dropPromises voids every touch that was confirmed or reported: no promise rests on one any more (S5).
func (t *TouchTable) dropPromises() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tag++
	t.window.Store(&window{first: t.tag, floor: t.tag})
}
