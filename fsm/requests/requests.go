// Package requests remembers the request ids of opens (O2 idempotent opens), some 35 bytes each. It has no locks:
// fsm.State guards the table that it changes.
package requests

import (
	"hash/maphash"
	"math"
	"slices"

	"holdfast/fsm/codec"
	"holdfast/fsm/digest"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
)

// Table is a journal and an index: the journal keeps the request ids in the order of their opens and forgets the oldest
// first, the index finds the position of an id.
//
// A frozen copy shares the pages of the journal. It reads only the positions that were filled before the copy. These
// never change: the table fills positions in order, and each only once.
type Table struct {
	pages []*requestPage
	// first is the position of the oldest request, next the position of the next request. The page of position p is
	// pages[p/pageLen - first/pageLen].
	first, next uint64
	count       int
	// cut counts the pages that were cut off since pages was last copied.
	cut   int
	index *requestIndex // nil in a frozen copy
}

// pageLen is the number of request ids on a page.
const pageLen = 256

// requestPage holds requests of neighbouring opens. The index of a request is base plus its offset.
type requestPage struct {
	base uint64
	// used is the number of filled positions of a page that ends early, 0 on other pages.
	used     int
	ids      [pageLen]session.RequestID
	sessions [pageLen]session.ID
	offsets  [pageLen]uint16
}

// New returns an empty table.
func New() Table { return Table{index: newRequestIndex()} }

// Freeze returns a copy that never changes. The cost does not depend on the number of requests. The copy cannot find
// ids.
func (q *Table) Freeze() Table {
	frozen := *q
	frozen.index = nil
	return frozen
}

// Len returns the number of requests.
func (q *Table) Len() int { return q.count }

func (q *Table) page(position uint64) *requestPage {
	return q.pages[position/pageLen-q.first/pageLen]
}

func (q *Table) at(position uint64) Request {
	p, i := q.page(position), position%pageLen
	return Request{ID: p.ids[i], Session: p.sessions[i], Index: p.base + uint64(p.offsets[i])}
}

// Find returns the request with an id. It reports false when the table has none.
func (q *Table) Find(id session.RequestID) (Request, bool) {
	position, ok := q.index.find(q, id)
	if !ok {
		return Request{}, false
	}
	return q.at(position), true
}

// Add adds the newest request. Its id must be new.
func (q *Table) Add(r *Request) {
	if q.count == 0 {
		q.next = (q.next + pageLen - 1) / pageLen * pageLen
		q.first, q.pages, q.cut = q.next, nil, 0
	}
	if i := q.next % pageLen; i > 0 && r.Index-q.page(q.next).base > math.MaxUint16 {
		q.page(q.next).used = int(i)
		q.next += pageLen - i
	}
	i := q.next % pageLen
	if i == 0 {
		q.pages = append(q.pages, &requestPage{base: r.Index})
	}
	p := q.page(q.next)
	p.ids[i], p.sessions[i], p.offsets[i] = r.ID, r.Session, uint16(r.Index-p.base)
	q.index.put(q, r.ID, q.next)
	q.next++
	q.count++
}

// Oldest returns the oldest request. It reports false when the table is empty.
func (q *Table) Oldest() (Request, bool) {
	if q.count == 0 {
		return Request{}, false
	}
	return q.at(q.first), true
}

// DropOldest forgets the oldest request. The table must not be empty.
func (q *Table) DropOldest() {
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
		// Without this copy, the slice would keep the memory of its longest time for ever.
		q.pages, q.cut = slices.Clone(q.pages), 0
	}
}

// Part returns the index of the request at position most, counted from the oldest, or upTo if fewer requests have an
// index up to upTo.
func (q *Table) Part(upTo uint64, limit int) uint64 {
	for r := range q.All {
		if r.Index > upTo {
			break
		}
		if limit--; limit <= 0 {
			return r.Index
		}
	}
	return upTo
}

// All calls yield for the requests, the oldest first, until it returns false.
func (q *Table) All(yield func(Request) bool) {
	for at, left := q.first, q.count; left > 0; left-- {
		if !yield(q.at(at)) {
			return
		}
		at++
		// The table may end the last page early after this copy was made, so the copy does not read used of that page.
		if i := at % pageLen; i != 0 && at/pageLen != (q.next-1)/pageLen && int(i) == q.page(at).used {
			at += pageLen - i
		}
	}
}

// requestIndex finds the position of a request id. It is a hash table in parts. Each part grows by itself, so no open
// waits while the whole table grows. Clients choose the ids, so the seed is random; the state does not depend on the
// order of the slots.
type requestIndex struct {
	seed  maphash.Seed
	parts [indexParts]indexPart
}

const indexParts = 256

// indexPart is a hash table with open addressing and linear probing. A slot has one byte of the id's hash and the low
// half of the position. The high half follows from the journal, which has fewer than 2^32 positions: that many would
// take 150 GB.
type indexPart struct {
	marks     []uint8 // freeSlot, deadSlot or a byte of the hash
	positions []uint32
	// used counts the slots that are not free, dead the dead slots.
	used, dead int
}

// Marks of slots without an id. A search ends at a free slot and passes a dead slot.
const (
	freeSlot = 0
	deadSlot = 1
	marks    = 2
)

func newRequestIndex() *requestIndex { return &requestIndex{seed: maphash.MakeSeed()} }

// locate returns the part and the hash of an id.
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

// slotted returns the position in a slot of the index, and the id at that position. It reports false when the journal
// has no such position. Only damaged memory has one: a scrub finds the damage (C1 digest comparison), and until then
// the index must neither hang nor panic.
func (q *Table) slotted(low uint32) (position uint64, id session.RequestID, ok bool) {
	position = q.first + uint64(low-uint32(q.first))
	if position >= q.next {
		return 0, id, false
	}
	return position, q.page(position).ids[position%pageLen], true
}

func (x *requestIndex) find(q *Table, id session.RequestID) (position uint64, found bool) {
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

// put adds an id that is not in the index. The journal may fill the position later.
func (x *requestIndex) put(q *Table, id session.RequestID, position uint64) {
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

// grow allocates space for half as many ids again, and drops the dead slots.
func (x *requestIndex) grow(q *Table, p *indexPart) {
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

// drop removes the id with the given position, if the index has it.
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

// Canonical returns the bytes that the digest has of the request. It overwrites b.
func (r *Request) Canonical(b []byte) []byte {
	b = append(append(b[:0], digest.KindRequest), r.ID[:]...)
	return digest.AppendUint64s(b, uint64(r.Session), r.Index)
}

// Request is the request id of an open, the session that the open made, and the index of the entry. A Request never
// changes.
type Request struct {
	ID      session.RequestID
	Session session.ID
	Index   uint64
}

// Encode sets m to the record of the request in a snapshot.
func (r *Request) Encode(m *logv1.OpenRequest) {
	m.RequestId, m.SessionId, m.Index = append(m.RequestId[:0], r.ID[:]...), uint64(r.Session), r.Index
}

// Decode is the inverse of [Request.Encode].
func Decode(m *logv1.OpenRequest) (*Request, error) {
	id, err := codec.RequestIDFrom(m.GetRequestId())
	return &Request{ID: id, Session: session.ID(m.GetSessionId()), Index: m.GetIndex()}, err
}
