package fsm

import (
	"bytes"
	"encoding/binary"
	"slices"

	"holdfast/session"
)

// blockSize is the size of a block's records at which the block is full: some 45 sessions that were opened one after
// the other. It is a size class of Go's allocator. Larger blocks cost more time for each change, and smaller ones more
// memory for each session.
const blockSize = 512

// nearLabels bounds the encoded labels that stand in a record. Larger ones stand beside the records, so that a change
// of a neighbour does not copy them.
const nearLabels = 128

// block holds the records of neighbouring sessions, in the order of their ids. A record has the differences from the
// block's base, which are small, because neighbours were mostly opened one after the other. A session without labels
// that nobody has moved takes some 11 bytes, where a struct of its fields takes 64.
//
//	byte       length of the rest, at most 255
//	byte       which of the parts below there are
//	uvarint    id - base.id
//	varint     attachment - base.attachment
//	varint     openedIndex - base.openedIndex
//	varint     openedMS - the milliseconds in the id, unless 0 (hasMS)
//	uvarint    timeoutMS, unless it is the base's (hasTimeout)
//	byte       owner, unless it is the id's node (hasOwner)
//	8 bytes    instance, little-endian, and a uvarint, attempt, unless both are 0 (hasMove)
//	the rest   labels, unless there are none (hasLabels) or they are in far (hasFar)
//
// Differences are modulo 2^64, so any value of a field can be kept.
type block struct {
	// era is the table's when the block was made: blocks of a former era are shared with views and never change.
	era uint64
	// base has the values that the records refer to. It never changes, and its id is not above any id in the block.
	base base
	// records are the encoded sessions.
	records []byte
	// far are encoded labels that are too large for their records, in the order of the records.
	far []string
}

type base struct {
	id                      session.ID
	attachment, openedIndex uint64
	timeoutMS               uint32
}

// Parts of a record.
const (
	hasMS = 1 << iota
	hasTimeout
	hasOwner
	hasMove
	hasLabels
	hasFar
)

func baseOf(r *storedSession) base {
	return base{id: r.id, attachment: r.attachment, openedIndex: r.openedIndex, timeoutMS: r.timeoutMS}
}

// appendRecord appends the record of a session. far is set when the labels are too large for the record: then they
// are left out.
func (b *base) appendRecord(to []byte, r *storedSession) (record []byte, far string) {
	start := len(to)
	to = append(to, 0, 0)
	parts := byte(0)
	to = binary.AppendUvarint(to, uint64(r.id-b.id))
	to = binary.AppendVarint(to, int64(r.attachment-b.attachment))
	to = binary.AppendVarint(to, int64(r.openedIndex-b.openedIndex))
	if d := r.openedMS - r.id.MS(); d != 0 {
		parts |= hasMS
		to = binary.AppendVarint(to, int64(d))
	}
	if r.timeoutMS != b.timeoutMS {
		parts |= hasTimeout
		to = binary.AppendUvarint(to, uint64(r.timeoutMS))
	}
	if r.owner != r.id.Node() {
		parts |= hasOwner
		to = append(to, byte(r.owner))
	}
	if r.instance != 0 || r.attempt != 0 {
		parts |= hasMove
		to = binary.LittleEndian.AppendUint64(to, r.instance)
		to = binary.AppendUvarint(to, r.attempt)
	}
	if r.labels != nil {
		body := len(to)
		to = appendLabels(to, *r.labels)
		if len(to)-body > nearLabels {
			parts |= hasFar
			far = string(to[body:])
			to = to[:body]
		} else {
			parts |= hasLabels
		}
	}
	to[start], to[start+1] = byte(len(to)-start-1), parts
	return to, far
}

// appendLabels appends the labels, each as the length and the bytes of its key, and the same of its value.
func appendLabels(to []byte, labels session.Labels) []byte {
	for _, l := range labels {
		to = append(binary.AppendUvarint(to, uint64(len(l.Key))), l.Key...)
		to = append(binary.AppendUvarint(to, uint64(len(l.Value))), l.Value...)
	}
	return to
}

// readLabels returns the labels that appendLabels has encoded, nil when the bytes are damaged. The texts share one
// allocation.
func readLabels(encoded string) *session.Labels {
	var labels session.Labels
	for rest := encoded; rest != ""; {
		var l session.Label
		var ok bool
		if l.Key, rest, ok = readText(rest); ok {
			l.Value, rest, ok = readText(rest)
		}
		if !ok {
			return nil
		}
		labels = append(labels, l)
	}
	return &labels
}

func readText(s string) (text, rest string, ok bool) {
	var length, shift uint64
	for i := range min(len(s), 3) { // a text has less than 2^21 bytes
		length |= uint64(s[i]&0x7f) << shift
		if s[i] < 0x80 {
			s = s[i+1:]
			if uint64(len(s)) < length {
				return "", "", false
			}
			return s[:length], s[length:], true
		}
		shift += 7
	}
	return "", "", false
}

// cursor walks over the records of a block. It stops at a record whose bytes are damaged: the sessions from there on
// are missing, and [State.Scrub] finds out.
type cursor struct {
	block *block
	// at is the position of the record, next that of the record after it. far is the number of the record's far labels,
	// or of the next ones.
	at, next, far int
	id            session.ID
	parts         byte
	// rest is the record behind its id.
	rest []byte
}

// walk returns a cursor before the first record.
func (b *block) walk() cursor { return cursor{block: b} }

// step moves to the next record; false after the last.
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

// find moves to the record of id; false if there is none. The cursor is then before the first record with a higher id.
func (c *cursor) find(id session.ID) bool {
	for c.step() {
		if c.id >= id {
			return c.id == id
		}
	}
	return false
}

// session returns the session of the record.
func (c *cursor) session() *storedSession {
	r := &storedSession{}
	c.read(r)
	return r
}

// read sets r to the session of the record.
func (c *cursor) read(r *storedSession) {
	f := fields{c.rest}
	*r = storedSession{
		id: c.id, timeoutMS: c.block.base.timeoutMS, owner: c.id.Node(), openedMS: c.id.MS(),
		attachment: c.block.base.attachment + uint64(f.varint()), openedIndex: c.block.base.openedIndex + uint64(f.varint()),
	}
	if c.parts&hasMS != 0 {
		r.openedMS += uint64(f.varint())
	}
	if c.parts&hasTimeout != 0 {
		r.timeoutMS = uint32(f.uvarint())
	}
	if c.parts&hasOwner != 0 && len(f.rest) > 0 {
		r.owner, f.rest = session.Node(f.rest[0]), f.rest[1:]
	}
	if c.parts&hasMove != 0 && len(f.rest) >= 8 {
		r.instance, f.rest = binary.LittleEndian.Uint64(f.rest), f.rest[8:]
		r.attempt = f.uvarint()
	}
	switch {
	case c.parts&hasLabels != 0:
		r.labels = readLabels(string(f.rest))
	case c.parts&hasFar != 0 && c.far < len(c.block.far):
		r.labels = readLabels(c.block.far[c.far])
	}
}

// fields reads numbers; what is damaged is 0.
type fields struct{ rest []byte }

func (f *fields) uvarint() uint64 {
	v, n := binary.Uvarint(f.rest)
	f.rest = f.rest[max(n, 0):]
	return v
}

func (f *fields) varint() int64 {
	v, n := binary.Varint(f.rest)
	f.rest = f.rest[max(n, 0):]
	return v
}

// put replaces the record of the cursor, or inserts one before it. The block must be of the present era.
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

// cut removes the record of the cursor, which is then before the next one. The block must be of the present era, and
// needs to be trimmed.
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

// reserve makes room for n more bytes, and for not much more than that.
func (b *block) reserve(n int) {
	if want := len(b.records) + n; want > cap(b.records) {
		grown := slices.Grow([]byte(nil), want+want/8)
		b.records = append(grown, b.records...)
	}
}

// trim gives memory back that the block does not need any more.
func (b *block) trim() {
	if cap(b.records)-len(b.records) >= blockSize/4 {
		b.records = bytes.Clone(b.records)
	}
	if len(b.far) == 0 {
		b.far = nil
	}
}

// clone returns a copy that can be changed in an era.
func (b *block) clone(era uint64) *block {
	return &block{era: era, base: b.base, records: bytes.Clone(b.records), far: slices.Clone(b.far)}
}

// push appends a session with a higher id than all in the block.
func (b *block) push(r *storedSession) {
	record, far := b.base.appendRecord(nil, r)
	c := cursor{block: b, at: len(b.records), next: len(b.records), far: len(b.far)}
	c.put(record, far, false)
}

// sessions returns all sessions of the block.
func (b *block) sessions() []*storedSession {
	var all []*storedSession
	for c := b.walk(); c.step(); {
		all = append(all, c.session())
	}
	return all
}
