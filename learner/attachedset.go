package learner

import "holdfast/session"

// attachedSet is a set of attachments, keyed by the ids of their sessions: a hash table with open addressing and linear
// probing. It needs some 12 bytes for each attachment, where a map needs 20 to 40. Not safe for concurrent use. The
// zero value is empty.
//
// The slots are in the order of the hashes, apart from collisions, and so in the order of the table's shards.
type attachedSet struct {
	// slots hold the attachments; a nil slot is free or dead. marks has a byte for each slot: freeSlot, deadSlot or a
	// part of the hash, so that a search loads few of the wrong attachments.
	slots []*attached
	marks []uint8
	// used is the number of slots that are not free, dead the number of dead ones.
	used, dead int
	// skip is the number of the hash's leading bits that all ids of the set share.
	skip uint8
}

// Marks of slots without an attachment. A search continues behind a dead slot.
const (
	freeSlot = 0
	deadSlot = 1
	marks    = 2
)

// hashOf spreads ids evenly over the leading bits of the hash, both ids of one millisecond and ids of one second.
func hashOf(id session.ID) uint64 { return uint64(id) * 0x9e3779b97f4a7c15 }

func markOf(hash uint64) uint8 { return max(uint8(hash>>24), marks) }

func (s *attachedSet) home(hash uint64) int {
	return int(hash << s.skip >> 32 * uint64(len(s.slots)) >> 32)
}

func (s *attachedSet) after(i int) int {
	if i++; i < len(s.slots) {
		return i
	}
	return 0
}

// size returns the number of attachments.
func (s *attachedSet) size() int { return s.used - s.dead }

// slot returns the slot of id, -1 when the set does not hold it.
func (s *attachedSet) slot(id session.ID) int {
	if len(s.slots) == 0 {
		return -1
	}
	hash := hashOf(id)
	mark := markOf(hash)
	for i := s.home(hash); s.marks[i] != freeSlot; i = s.after(i) {
		if s.marks[i] == mark && s.slots[i].id == id {
			return i
		}
	}
	return -1
}

// find returns the attachment of a session, nil when the set holds none.
func (s *attachedSet) find(id session.ID) *attached {
	if i := s.slot(id); i >= 0 {
		return s.slots[i]
	}
	return nil
}

// put adds a, or replaces another attachment of its session by a.
func (s *attachedSet) put(a *attached) {
	if i := s.slot(a.id); i >= 0 {
		s.slots[i] = a
		return
	}
	if s.used >= len(s.slots)*7/8 {
		s.resize()
	}
	s.insert(a)
}

func (s *attachedSet) insert(a *attached) {
	hash := hashOf(a.id)
	i := s.home(hash)
	for s.marks[i] != freeSlot {
		i = s.after(i)
	}
	s.slots[i], s.marks[i] = a, markOf(hash)
	s.used++
}

// resize allocates slots for half again as many attachments, and drops the dead slots.
func (s *attachedSet) resize() {
	old := s.slots
	size := s.size()*3/2 + 4 // always leaves a free slot, at which a search ends
	*s = attachedSet{slots: make([]*attached, size), marks: make([]uint8, size), skip: s.skip}
	for _, a := range old {
		if a != nil {
			s.insert(a)
		}
	}
}

// drop removes the attachment of a session, if there is one.
func (s *attachedSet) drop(id session.ID) {
	i := s.slot(id)
	if i < 0 {
		return
	}
	s.slots[i], s.marks[i] = nil, deadSlot
	s.dead++
	if len(s.slots) > 64 && s.size() < len(s.slots)/4 {
		s.resize()
	}
}
