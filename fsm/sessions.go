package fsm

import (
	"slices"

	"github.com/tidwall/btree"

	"holdfast/session"
)

// sessions are the sessions by id: a copy-on-write tree of blocks. A cluster may hold a million sessions on every
// node, so they are packed (see [block]): with its share of block and tree, a session takes some 14 bytes.
type sessions struct {
	// blocks have the lowest id that they may hold as their key. A block holds the sessions from its key to the next
	// one, all of one node number. No block is empty.
	blocks *btree.Map[session.ID, *block]
	// era numbers the copies that were taken: blocks of an earlier era are shared.
	era   uint64
	count int
	// scratch is reused for a record. A frozen copy has none.
	scratch []byte
}

func newSessions() sessions { return sessions{blocks: new(btree.Map[session.ID, *block])} }

// freeze returns a copy that never changes, at a cost that does not depend on the number of sessions. Nothing may be
// written to the copy.
func (s *sessions) freeze() sessions {
	frozen := *s
	frozen.blocks, frozen.scratch = s.blocks.Copy(), nil
	s.era++
	return frozen
}

// size returns the number of sessions.
func (s *sessions) size() int { return s.count }

// covering returns the block that holds the session of id if there is one; nil when there is no such block.
func (s *sessions) covering(id session.ID) *block {
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

// after returns the first block whose key is above id, nil when there is none of the id's node.
func (s *sessions) after(id session.ID) *block {
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

// get returns a session. The caller may keep it; changing it changes nothing in s.
func (s *sessions) get(id session.ID) (*storedSession, bool) {
	if b := s.covering(id); b != nil {
		if c := b.walk(); c.find(id) {
			return c.session(), true
		}
	}
	return nil, false
}

// set adds r, or puts it in the place of the session with its id, which it returns.
func (s *sessions) set(r *storedSession) (old *storedSession, replaced bool) {
	b := s.covering(r.id)
	if b == nil {
		s.count++
		s.merge(s.add(r)) // local sessions become global in any order, also downwards
		return nil, false
	}
	c := b.walk()
	if replaced = c.find(r.id); replaced {
		old = c.session()
	} else {
		s.count++
	}
	record, far := b.base.appendRecord(s.scratch[:0], r)
	s.scratch = record
	if !replaced && c.at == len(b.records) && len(b.records)+len(record) > blockSize {
		// Most sessions come in the order of their ids. So the full block stays full, where a split would leave two
		// blocks half empty. What comes downwards behind it shares a block all the same.
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
func (s *sessions) add(r *storedSession) *block {
	b := &block{era: s.era, base: baseOf(r)}
	b.push(r)
	s.blocks.Set(r.id, b)
	return b
}

// own returns b, or a copy in its place if b is shared.
func (s *sessions) own(b *block) *block {
	if b.era != s.era {
		b = b.clone(s.era)
		s.blocks.Set(b.base.id, b)
	}
	return b
}

// split moves the second half of a block, which is of the present era, into a new block. The new block has a base of
// its own.
func (s *sessions) split(b *block) {
	all := b.sessions()
	if len(all) < 2 {
		return // the labels of one session may fill a block
	}
	half := all[len(all)/2:]
	c := b.walk()
	if !c.find(half[0].id) {
		return
	}
	b.records = b.records[:c.at]
	b.far = slices.Clone(b.far[:c.far]) // the new block has copies of the others, which can then be collected
	b.trim()
	next := s.add(half[0])
	for _, r := range half[1:] {
		next.push(r)
	}
}

// merge adds the sessions of the next block to a block of the present era if both are so small that the result is not
// full soon.
func (s *sessions) merge(b *block) {
	next := s.after(b.base.id)
	if next == nil || len(b.records)+len(next.records) > blockSize*3/4 {
		return
	}
	for _, r := range next.sessions() {
		b.push(r)
	}
	s.blocks.Delete(next.base.id)
}

// ascend calls yield for the sessions with ids from an id on, in the order of their ids, until yield returns false. The
// storedSession is yield's only until it returns; its labels never change.
func (s *sessions) ascend(from session.ID, yield func(*storedSession) bool) {
	first := from
	if b := s.covering(from); b != nil {
		first = b.base.id
	}
	var r storedSession
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
