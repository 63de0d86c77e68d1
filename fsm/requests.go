package fsm

import (
	"hash/maphash"
	"math"
	"slices"

	"holdfast/session"
)

// requests are the remembered request ids (O2): a journal, which keeps them in the order of their opens and forgets the
// oldest first, and an index by id. With both, a request id takes some 35 bytes.
//
// A frozen copy shares the journal's pages. It reads only positions that were filled before the copy, and these never
// change: positions are filled once, in order, and a page is never filled again.
type requests struct {
	pages []*requestPage
	// first and next are the positions of the oldest request id and of the next one. Position p is in
	// pages[p/pageLen - first/pageLen].
	first, next uint64
	count       int
	// cut is the number of pages that were cut off since pages was last copied.
	cut   int
	index *requestIndex // nil in a frozen copy
}

// pageLen is the number of request ids on a page.
const pageLen = 256

// requestPage holds request ids of neighbouring opens. An index is the base, and an offset.
type requestPage struct {
	base uint64
	// used is the number of positions that are filled on a page that ends early, 0 on other pages.
	used     int
	ids      [pageLen]session.RequestID
	sessions [pageLen]session.ID
	offsets  [pageLen]uint16
}

func newRequests() requests { return requests{index: newRequestIndex()} }

// freeze returns a copy that never changes, at a cost that does not depend on the number of ids. It cannot find ids.
func (q *requests) freeze() requests {
	frozen := *q
	frozen.index = nil
	return frozen
}

// size returns the number of request ids.
func (q *requests) size() int { return q.count }

func (q *requests) page(position uint64) *requestPage {
	return q.pages[position/pageLen-q.first/pageLen]
}

func (q *requests) at(position uint64) request {
	p, i := q.page(position), position%pageLen
	return request{id: p.ids[i], session: p.sessions[i], index: p.base + uint64(p.offsets[i])}
}

// find returns the request with an id.
func (q *requests) find(id session.RequestID) (request, bool) {
	position, ok := q.index.find(q, id)
	if !ok {
		return request{}, false
	}
	return q.at(position), true
}

// add adds the newest request. Its id must be new.
func (q *requests) add(r *request) {
	if q.count == 0 {
		q.next = (q.next + pageLen - 1) / pageLen * pageLen
		q.first, q.pages, q.cut = q.next, nil, 0
	}
	if i := q.next % pageLen; i > 0 && r.index-q.page(q.next).base > math.MaxUint16 {
		q.page(q.next).used = int(i)
		q.next += pageLen - i
	}
	i := q.next % pageLen
	if i == 0 {
		q.pages = append(q.pages, &requestPage{base: r.index})
	}
	p := q.page(q.next)
	p.ids[i], p.sessions[i], p.offsets[i] = r.id, r.session, uint16(r.index-p.base)
	q.index.put(q, r.id, q.next)
	q.next++
	q.count++
}

// oldest returns the oldest request, false when there is none.
func (q *requests) oldest() (request, bool) {
	if q.count == 0 {
		return request{}, false
	}
	return q.at(q.first), true
}

// dropOldest forgets the oldest request, which must be there.
func (q *requests) dropOldest() {
	p := q.page(q.first)
	q.index.drop(p.ids[q.first%pageLen], q.first)
	q.count--
	q.first++
	if int(q.first%pageLen) == p.used && p.used > 0 {
		q.first += pageLen - q.first%pageLen
	}
	if q.first%pageLen != 0 {
		return
	}
	q.pages = q.pages[1:]
	if q.cut++; q.cut > len(q.pages) {
		// Without this copy, requests that were many once would keep the memory of all dropped pages' references.
		q.pages, q.cut = slices.Clone(q.pages), 0
	}
}

// part returns the index of the most-th request from the oldest on, or upTo if there are fewer requests up to upTo.
func (q *requests) part(upTo uint64, most int) uint64 {
	for r := range q.all {
		if r.index > upTo {
			break
		}
		if most--; most <= 0 {
			return r.index
		}
	}
	return upTo
}

// all calls yield for the requests, the oldest first, until it returns false.
func (q *requests) all(yield func(request) bool) {
	for at, left := q.first, q.count; left > 0; left-- {
		if !yield(q.at(at)) {
			return
		}
		at++
		// The last page may end early after this copy was made, so its used is not read.
		if i := at % pageLen; i != 0 && at/pageLen != (q.next-1)/pageLen && int(i) == q.page(at).used {
			at += pageLen - i
		}
	}
}

// requestIndex finds the position of a request id: a hash table in parts, each of which grows by itself, so that no
// single open pays for all. The seed is random, because clients choose the ids; nothing depends on the order in the
// table.
type requestIndex struct {
	seed  maphash.Seed
	parts [indexParts]indexPart
}

// indexParts is the number of parts.
const indexParts = 256

// indexPart is a hash table with open addressing and linear probing. Of each id it has one byte of the hash, and the
// low half of the position. The high half follows from the journal, which has fewer than 2^32 positions: they would
// take 150 GB.
type indexPart struct {
	marks     []uint8 // freeSlot, deadSlot or a byte of the hash
	positions []uint32
	// used is the number of slots that are not free, dead the number of dead ones.
	used, dead int
}

// Marks of slots without an id. A search goes on behind a dead slot.
const (
	freeSlot = 0
	deadSlot = 1
	marks    = 2
)

func newRequestIndex() *requestIndex { return &requestIndex{seed: maphash.MakeSeed()} }

// locate returns the part of an id, and where in the part its search begins.
func (x *requestIndex) locate(id session.RequestID) (p *indexPart, hash uint64) {
	hash = maphash.Bytes(x.seed, id[:])
	return &x.parts[hash%indexParts], hash
}

// slotMark returns the mark of a hash.
func slotMark(hash uint64) uint8 { return uint8(max(hash>>8&0xff, marks)) }

// home returns the first slot of a hash.
func (p *indexPart) home(hash uint64) int { return int(hash >> 32 * uint64(len(p.marks)) >> 32) }

// after returns the slot behind i.
func (p *indexPart) after(i int) int {
	if i++; i < len(p.marks) {
		return i
	}
	return 0
}

// slotted returns the position that a slot of the index names, and the id there; false if there is none. Only damaged
// memory names such a position: a scrub finds the damage (D1), and nothing here may hang or panic before that.
func (q *requests) slotted(low uint32) (position uint64, id session.RequestID, ok bool) {
	position = q.first + uint64(low-uint32(q.first))
	if position >= q.next {
		return 0, id, false
	}
	return position, q.page(position).ids[position%pageLen], true
}

func (x *requestIndex) find(q *requests, id session.RequestID) (position uint64, found bool) {
	p, hash := x.locate(id)
	if len(p.marks) == 0 {
		return 0, false
	}
	mark := slotMark(hash)
	for i := p.home(hash); p.marks[i] != freeSlot; i = p.after(i) {
		if p.marks[i] != mark {
			continue
		}
		if at, has, ok := q.slotted(p.positions[i]); ok && has == id {
			return at, true
		}
	}
	return 0, false
}

// put adds an id that is not in the index. Its position need not be filled yet.
func (x *requestIndex) put(q *requests, id session.RequestID, position uint64) {
	p, hash := x.locate(id)
	if p.used >= len(p.marks)*7/8 {
		x.grow(q, p)
	}
	p.insert(hash, uint32(position))
}

func (p *indexPart) insert(hash uint64, low uint32) {
	i := p.home(hash)
	for p.marks[i] != freeSlot {
		i = p.after(i)
	}
	p.marks[i], p.positions[i] = slotMark(hash), low
	p.used++
}

// grow makes room for a half more ids than there are, and drops the dead slots.
func (x *requestIndex) grow(q *requests, p *indexPart) {
	old := *p
	size := max((old.used-old.dead)*3/2, 8)
	*p = indexPart{marks: make([]uint8, size), positions: make([]uint32, size)}
	for i, mark := range old.marks {
		if mark < marks {
			continue
		}
		if _, id, ok := q.slotted(old.positions[i]); ok {
			p.insert(maphash.Bytes(x.seed, id[:]), old.positions[i])
		}
	}
}

// drop removes the id at a position, if the index has it.
func (x *requestIndex) drop(id session.RequestID, position uint64) {
	p, hash := x.locate(id)
	if len(p.marks) == 0 {
		return
	}
	for i := p.home(hash); p.marks[i] != freeSlot; i = p.after(i) {
		if p.marks[i] < marks || p.positions[i] != uint32(position) {
			continue
		}
		p.marks[i] = deadSlot
		if p.dead++; p.dead == p.used {
			*p = indexPart{}
		}
		return
	}
}
