package learner

import (
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// TouchTable holds the attachments that this node serves, and the touches since its last answer to a heartbeat. A touch
// takes the short lock of one shard and allocates nothing. Safe for concurrent use.
//
// A promise (S3 length of a promise) rests on the newest touch of a session that the leader has confirmed. Each answer
// to a heartbeat, and each attachment, gets the next number of a counter, its tag. Each reported touch remembers the
// tag of its answer. The newest confirmed tag is one number for the whole table, so a confirmation costs nothing per
// session.
type TouchTable struct {
	shards [shards]shard
	// window has the confirmed tags. It is replaced as a whole, with mu held.
	window atomic.Pointer[window]

	mu sync.Mutex
	// tag is the newest assigned tag. guarded by mu
	tag uint64
}

// shardBits makes 64 shards.
const (
	shardBits = 6
	shards    = 1 << shardBits
)

type shard struct {
	mu sync.Mutex
	// serving holds the newest served attachment of each session. guarded by mu
	serving attachedSet
	// touched are the attachments touched since the last swap of the table. spare is the list before, whose memory the
	// next swap reuses. guarded by mu
	touched, spare []*attached
	// _ keeps shards on separate cache lines, so that writers of different shards do not slow each other down.
	_ [64]byte
}

// attached is one attachment that this node serves. A node may serve a million, so it has 80 bytes, a size class of
// Go's allocator. The fields that a touch needs come first.
type attached struct {
	// All fields are guarded by the shard's mu, except id, attachment and timeoutMS, which do not change.

	// last is the newest touch, or when the serving began (T4 age of a touch). Moments are of the node's clock.
	last time.Duration
	// confirmed is the newest confirmed touch. older, and newer in rare, are reported, but not known to be confirmed.
	// While both are set, a further report replaces newer, because the leader confirms older first.
	confirmed, older mark
	timeoutMS        uint32
	// listed is set while the shard's touched list holds this attachment, ended once the node no longer serves it.
	listed, ended bool

	id         session.ID
	attachment uint64
	// conn is the connection to notify of the end, nil for none.
	conn *connection
	// rare is nil for most attachments.
	rare *rare
}

// rare holds the fields that few attachments need.
type rare struct {
	newer mark
	// over is the refusal of touches after the end.
	over error
	// local is the session's last attachment before this attachment made the session global; 0 for a session that was
	// never local.
	local uint64
}

// newAttached returns an attachment of s, served by conn from now on.
func newAttached(s *session.Session, conn *connection, now time.Duration) *attached {
	return &attached{
		id: s.ID, attachment: s.Attachment, timeoutMS: uint32(s.Timeout.Milliseconds()), conn: conn, last: now,
	}
}

func (a *attached) timeout() time.Duration { return time.Duration(a.timeoutMS) * time.Millisecond }

// more returns the rare part, and allocates it if needed. Called with the shard's mu held.
func (a *attached) more() *rare {
	if a.rare == nil {
		a.rare = &rare{}
	}
	return a.rare
}

// end records that the node no longer serves a, and why. Called with the shard's mu held.
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
// and the confirmed tags of the previous stream, which do not change any more (S1 confirmed touches). Marks below floor
// do not count (S5 suspended machines).
//
// Tags after upTo and up to processed are confirmed in part: their touches count as if received at asOf, the swap of
// the table for the answer upTo, or when they were received if that is earlier.
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

// dead reports whether no heartbeat can confirm tag any more.
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

// touch records a touch of a received at now, and returns the promise for it (S3), negative for none. The error says
// why a is no longer served; nothing is recorded then (T2 stale attachments are refused).
func (t *TouchTable) touch(a *attached, now time.Duration) (time.Duration, error) {
	w := t.window.Load()
	s := t.shardOf(a.id)
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.touch(a, w, now)
}

// promised returns the promise for a keep-alive of a that was received at a moment (S3), negative for none. It is no
// touch. The confirmed touch may be newer than the keep-alive, and the promise then counts from the keep-alive.
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

// promisedAll returns the smallest promise for a keep-alive of all that was received at a moment (S3), negative if one
// has none.
func (t *TouchTable) promisedAll(all *attachedSet, at time.Duration) time.Duration {
	w := t.window.Load()
	smallest := time.Duration(-1)
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
		if smallest < 0 || safe < smallest {
			smallest = safe
		}
		if safe < 0 {
			break
		}
	}
	if locked != nil {
		locked.mu.Unlock()
	}
	return smallest
}

// lock returns the locked shard of a. locked is the shard that the caller has locked, nil for none; lock unlocks it if
// a is in another shard.
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

// touch implements [TouchTable.touch] under the window w. Called with mu held.
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
	a.applyWindow(w)
	if a.confirmed.tag == 0 || a.confirmed.tag < w.floor {
		return -1
	}
	return session.SafeFor(a.timeout(), max(now-a.confirmed.at, 0))
}

// applyWindow applies w to the reported touches: it adopts confirmed touches and drops dead touches. It keeps partly
// confirmed touches, which may be confirmed later. Called with the shard's mu held.
func (a *attached) applyWindow(w *window) {
	for a.older.tag != 0 {
		switch {
		case w.confirms(a.older.tag):
			a.confirm(a.older, w)
		case !w.dead(a.older.tag):
			a.applyPart(a.older, w)
			if a.rare != nil {
				a.applyPart(a.rare.newer, w)
			}
			return
		}
		a.dropOlder()
	}
}

// applyPart adopts a reported touch as far as it is confirmed in part. Called with the shard's mu held.
func (a *attached) applyPart(m mark, w *window) {
	if w.partly(m.tag) {
		a.confirm(mark{m.tag, min(m.at, w.asOf)}, w)
	}
}

// confirm adopts a confirmed touch, unless there is a newer one. Called with the shard's mu held.
func (a *attached) confirm(m mark, w *window) {
	if m.at >= a.confirmed.at || a.confirmed.tag < w.floor {
		a.confirmed = m
	}
}

// dropOlder replaces older by newer. Called with the shard's mu held.
func (a *attached) dropOlder() {
	a.older = mark{}
	if a.rare != nil {
		a.older, a.rare.newer = a.rare.newer, mark{}
	}
}

// report records that the newest touch was sent in the answer tag. Called with the shard's mu held.
func (a *attached) report(w *window, tag uint64) {
	a.applyWindow(w)
	if a.older.tag == 0 {
		a.older = mark{tag, a.last}
	} else {
		a.more().newer = mark{tag, a.last}
	}
}

// sweptTouch is a touch at the swap of the table.
type sweptTouch struct {
	id session.ID // a copy, so that sorting does not load the attachments
	at time.Duration
	a  *attached
}

// swap appends the touches since the last call to buf, and empties the table (T1 atomic swap). It works shard by shard;
// the swap of a shard is atomic with respect to every touch. With all set it appends every served attachment (T3
// ordered streams). The touches are reported under the returned tag.
//
//nolint:revive // flag-parameter: the first answer of a stream differs in nothing else
func (t *TouchTable) swap(buf []sweptTouch, all bool) ([]sweptTouch, uint64) {
	tag := t.nextTag()
	w := t.window.Load()
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		if all {
			s.listAll()
		}
		buf = s.swap(buf, w, tag)
		s.mu.Unlock()
	}
	return buf, tag
}

// nextTag assigns a tag.
func (t *TouchTable) nextTag() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tag++
	return t.tag
}

// listAll puts every served attachment on the touched list. Called with mu held.
func (s *shard) listAll() {
	for _, a := range s.serving.slots {
		if a != nil {
			s.list(a)
		}
	}
}

// swap moves the touched list into buf. Called with mu held.
func (s *shard) swap(buf []sweptTouch, w *window, tag uint64) []sweptTouch {
	list := s.touched
	s.touched, s.spare = s.spare[:0], reuse(list)
	for _, a := range list {
		a.listed = false
		if !a.ended {
			a.report(w, tag)
			buf = append(buf, sweptTouch{a.id, a.last, a})
		}
	}
	clear(list) // otherwise an old list would keep ended attachments alive
	return buf
}

// reuse returns an emptied list that reuses list's memory, or nil if that has become far too large: the list of all
// attachments, for the first answer of a stream, need not stay.
func reuse[T any](list []T) []T {
	if cap(list) > 256 && len(list) < cap(list)/4 {
		return nil
	}
	return list[:0]
}

// keep returns the touches whose attachments are still served, in place (T1). It postpones an attachment above h to the
// next answer, because the leader would ignore it (T5 a touch moves the deadline): an upgrade serves its attachment
// before h shows it. The touches are in the order of the shards, so that keep locks each shard about once.
func (t *TouchTable) keep(touches []sweptTouch, h, tag uint64) []sweptTouch {
	kept := touches[:0]
	var locked *shard
	for _, touch := range touches {
		locked = t.lock(touch.a, locked)
		switch {
		case touch.a.ended:
		case touch.a.attachment > h:
			touch.a.undoReport(tag)
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

// undoReport undoes a report. Called with the shard's mu held.
func (a *attached) undoReport(tag uint64) {
	switch {
	case a.rare != nil && a.rare.newer.tag == tag:
		a.rare.newer = mark{}
	case a.older.tag == tag:
		a.dropOlder()
	}
}

// beginStream begins a new stream. Touches that the former stream reported, but did not see confirmed, remain
// unconfirmed (S1).
func (t *TouchTable) beginStream() {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := *t.window.Load()
	t.window.Store(&window{first: t.tag + 1, oldFirst: w.first, oldUpTo: w.upTo, floor: w.floor})
}

// confirm confirms touches according to a heartbeat, except those of the sessions in rejected (S1).
func (t *TouchTable) confirm(reported confirmedAnswers, rejected []session.ID) {
	for _, id := range rejected {
		t.shardOf(id).discard(id)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	w := *t.window.Load()
	if c := reported.confirmed; c.tag >= w.first && c.tag > w.upTo { // dates from before a suspension do not count (S5)
		w.upTo, w.asOf = c.tag, c.at
	}
	w.processed = max(w.processed, reported.processed)
	t.window.Store(&w)
}

// decided reports whether touches that were reported under tag are confirmed, at least in part, or can no longer be.
func (t *TouchTable) decided(tag uint64) bool {
	w := t.window.Load()
	return w.confirms(tag) || w.partly(tag) || w.dead(tag)
}

// newestTag returns the newest assigned tag.
func (t *TouchTable) newestTag() uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.tag
}

// discard drops the reports of a session. The leader names a rejected touch in the first heartbeat after the answer
// that reported the touch (R1 rounds), so no later answer has reported another touch.
func (s *shard) discard(id session.ID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if a := s.serving.find(id); a != nil {
		a.dropOlder()
		a.dropOlder()
	}
}

// dropPromises voids every confirmed or reported touch: no promise rests on them any more (S5).
func (t *TouchTable) dropPromises() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.tag++
	t.window.Store(&window{first: t.tag, floor: t.tag})
}
