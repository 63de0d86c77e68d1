package sessions

import (
	"bytes"
	"encoding/binary"
	"slices"

	"holdfast/session"
)

// blockSize is the size of the records of a full block: some 45 sessions that clients opened one after the other. It is
// a size class of Go's allocator. Larger blocks cost more time for each change, and smaller blocks cost more memory for
// each session.
const blockSize = 512

// nearLabels bounds the encoded labels in a record. Larger labels lie outside the records, so that a change of a
// neighbour does not copy them.
const nearLabels = 128

// block holds the records of neighbouring sessions, in the order of their ids.
type block struct {
	// era is the era in which the table made the block. Frozen copies share the blocks of former eras, which never
	// change.
	era uint64
	// base has the values from which the records hold differences. It never changes, and no id of the block is below
	// its id.
	base base
	// records are the encoded sessions.
	records []byte
	// far has the encoded labels that are too large for their records, in the order of the records.
	far []string
}

type base struct {
	id                      session.ID
	attachment, openedIndex uint64
	timeoutMS               uint32
}

func baseOf(r *Row) base {
	return base{id: r.ID, attachment: r.Attachment, openedIndex: r.OpenedIndex, timeoutMS: r.TimeoutMS}
}

// cursor walks over the records of a block. It stops at a damaged record. The sessions from that record on are then
// missing, and a scrub of the state finds the damage (C1 digest comparison).
type cursor struct {
	block *block
	// at is the position of the record, next the position of the following record. far is the position in block.far of
	// the labels of this record, or of the next record that has labels there.
	at, next, far int
	id            session.ID
	parts         byte
	// rest is the part of the record behind the id.
	rest []byte
}

// walk returns a cursor before the first record.
func (b *block) walk() cursor { return cursor{block: b} }

// step moves to the next record. It reports false behind the last record.
func (c *cursor) step() bool {
	if c.parts&hasFar != 0 {
		c.far++
	}
	c.at, c.parts = c.next, 0
	if c.at >= len(c.block.records) {
		return false
	}
	end := c.at + 1 + int(c.block.records[c.at])
	if end < c.at+3 || end > len(c.block.records) {
		return false
	}
	body := c.block.records[c.at+2 : end]
	d, n := binary.Uvarint(body)
	if n <= 0 {
		return false
	}
	c.next, c.parts, c.id, c.rest = end, c.block.records[c.at+1], c.block.base.id+session.ID(d), body[n:]
	return true
}

// find moves to the record of id. It returns false when the block has no such record; the cursor is then before the
// first record with a higher id.
func (c *cursor) find(id session.ID) bool {
	for c.step() {
		if c.id >= id {
			return c.id == id
		}
	}
	return false
}

// row returns a copy of the session of the record.
func (c *cursor) row() *Row {
	r := &Row{}
	c.read(r)
	return r
}

// put replaces the record of the cursor, or inserts a record before it. The block must be of the present era.
func (c *cursor) put(record []byte, far string, replace bool) { //nolint:revive // flag-parameter: what find has found
	b, end := c.block, c.at
	if replace {
		end = c.next
		c.dropFar()
	}
	if far != "" {
		b.far = slices.Insert(b.far, c.far, far)
	}
	b.reserve(len(record) - (end - c.at))
	b.records = slices.Replace(b.records, c.at, end, record...)
}

// cut removes the record of the cursor. The cursor is then before the following record. The block must be of the
// present era, and the caller trims it afterwards.
func (c *cursor) cut() {
	c.dropFar()
	c.block.records = slices.Delete(c.block.records, c.at, c.next)
	c.next, c.parts, c.rest = c.at, 0, nil
}

func (c *cursor) dropFar() {
	if c.parts&hasFar != 0 && c.far < len(c.block.far) {
		c.block.far = slices.Delete(c.block.far, c.far, c.far+1)
	}
}

// reserve allocates space for n more bytes and an eighth in addition: append would double the memory of a block.
func (b *block) reserve(n int) {
	if want := len(b.records) + n; want > cap(b.records) {
		grown := slices.Grow([]byte(nil), want+want/8)
		b.records = append(grown, b.records...)
	}
}

// trim frees the memory that the block no longer needs.
func (b *block) trim() {
	if cap(b.records)-len(b.records) >= blockSize/4 {
		b.records = bytes.Clone(b.records)
	}
	if len(b.far) == 0 {
		b.far = nil
	}
}

// clone returns a copy for the given era.
func (b *block) clone(era uint64) *block {
	return &block{era: era, base: b.base, records: bytes.Clone(b.records), far: slices.Clone(b.far)}
}

// push appends a session. Its id must be above all ids of the block.
func (b *block) push(r *Row) {
	record, far := b.base.appendRecord(nil, r)
	c := cursor{block: b, at: len(b.records), next: len(b.records), far: len(b.far)}
	c.put(record, far, false)
}

// rows returns copies of all sessions of the block.
func (b *block) rows() []*Row {
	var all []*Row
	for c := b.walk(); c.step(); {
		all = append(all, c.row())
	}
	return all
}
