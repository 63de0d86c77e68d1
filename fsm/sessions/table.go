// Package sessions keeps the sessions of the replicated state: a copy-on-write table, packed so that a node can hold a
// million sessions. It has no locks: fsm.State guards the table that it changes, and a frozen copy has any number of
// concurrent readers.
package sessions

import (
	"slices"

	"github.com/tidwall/btree"

	"holdfast/session"
)

// Table holds the sessions by id: a copy-on-write tree of blocks. With its share of block and tree, a session takes
// some 14 bytes.
type Table struct {
	// The key of a block is the lowest id that it may hold. A block holds the sessions from its key to the key of the
	// next block, all of one node number. No block is empty.
	blocks *btree.Map[session.ID, *block]
	// era counts the frozen copies. The table shares its blocks of earlier eras with frozen copies.
	era   uint64
	count int
	// scratch is reused for records. A frozen copy has none.
	scratch []byte
}

// New returns an empty table.
func New() Table { return Table{blocks: new(btree.Map[session.ID, *block])} }

// Freeze returns a copy that never changes. The cost does not depend on the number of sessions. Callers must not write
// to the copy.
func (s *Table) Freeze() Table {
	frozen := *s
	frozen.blocks, frozen.scratch = s.blocks.Copy(), nil
	s.era++
	return frozen
}

// Len returns the number of sessions.
func (s *Table) Len() int { return s.count }

// covering returns the block in which id belongs, or nil when no block covers id.
func (s *Table) covering(id session.ID) *block {
	var found *block
	s.blocks.Descend(id, func(_ session.ID, b *block) bool {
		found = b
		return false
	})
	if found != nil && found.base.id.Node() != id.Node() {
		return nil
	}
	return found
}

// after returns the first block of the id's node whose key is above id, or nil when there is none.
func (s *Table) after(id session.ID) *block {
	var found *block
	if id != ^session.ID(0) {
		s.blocks.Ascend(id+1, func(_ session.ID, b *block) bool {
			found = b
			return false
		})
	}
	if found != nil && found.base.id.Node() != id.Node() {
		return nil
	}
	return found
}

// Get returns a copy of a session. It reports false when there is no session with that id.
func (s *Table) Get(id session.ID) (*Row, bool) {
	if b := s.covering(id); b != nil {
		if c := b.walk(); c.find(id) {
			return c.row(), true
		}
	}
	return nil, false
}

// Set adds r. If the table has a session with the same id, r replaces it, and Set returns the former session.
func (s *Table) Set(r *Row) (old *Row, replaced bool) {
	b := s.covering(r.ID)
	if b == nil {
		s.count++
		s.merge(s.add(r)) // local sessions become global in any order, also downwards
		return nil, false
	}
	c := b.walk()
	if replaced = c.find(r.ID); replaced {
		old = c.row()
	} else {
		s.count++
	}
	record, far := b.base.appendRecord(s.scratch[:0], r)
	s.scratch = record
	if !replaced && c.at == len(b.records) && len(b.records)+len(record) > blockSize {
		// Most sessions come in the order of their ids, so the full block stays full: a split would leave two blocks
		// half empty. Sessions that come downwards behind the full block share a block all the same.
		s.merge(s.add(r))
		return nil, false
	}
	c.block = s.own(b)
	c.put(record, far, replaced)
	if len(c.block.records) > blockSize {
		s.split(c.block)
	}
	return old, replaced
}

// add adds a block with one session.
func (s *Table) add(r *Row) *block {
	b := &block{era: s.era, base: baseOf(r)}
	b.push(r)
	s.blocks.Set(r.ID, b)
	return b
}

// own returns a block that the table may change: b itself, or the copy that takes b's place when b is shared.
func (s *Table) own(b *block) *block {
	if b.era != s.era {
		b = b.clone(s.era)
		s.blocks.Set(b.base.id, b)
	}
	return b
}

// split moves the second half of a block of the present era into a new block with a base of its own.
func (s *Table) split(b *block) {
	all := b.rows()
	if len(all) < 2 {
		return // the labels of one session may fill a block
	}
	half := all[len(all)/2:]
	c := b.walk()
	if !c.find(half[0].ID) {
		return
	}
	b.records = b.records[:c.at]
	b.far = slices.Clone(b.far[:c.far]) // a clone: the texts of the sessions that move can then be collected
	b.trim()
	next := s.add(half[0])
	for _, r := range half[1:] {
		next.push(r)
	}
}

// merge adds the sessions of the next block to a block of the present era, if the result leaves a quarter of the block
// free.
func (s *Table) merge(b *block) {
	next := s.after(b.base.id)
	if next == nil || len(b.records)+len(next.records) > blockSize*3/4 {
		return
	}
	for _, r := range next.rows() {
		b.push(r)
	}
	s.blocks.Delete(next.base.id)
}

// Ascend calls yield for the sessions with ids from an id on, in the order of their ids, until yield returns false. The
// next call of yield overwrites the Row, but never its labels.
func (s *Table) Ascend(from session.ID, yield func(*Row) bool) {
	first := from
	if b := s.covering(from); b != nil {
		first = b.base.id
	}
	var r Row
	s.blocks.Ascend(first, func(_ session.ID, b *block) bool {
		for c := b.walk(); c.step(); {
			if c.id < from {
				continue
			}
			if c.read(&r); !yield(&r) {
				return false
			}
		}
		return true
	})
}
