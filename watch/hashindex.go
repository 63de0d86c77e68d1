package watch

// indexParts is the number of tables of a [hashIndex]. Each table grows alone, so no insertion among a million copies
// more than a few thousand slots.
const indexParts = 256

// hashIndex finds the numbers of items by the hashes of the items. It is a hash table with open addressing; the owner
// keeps the items and compares them. A number costs 5 to 11 bytes, compared with about 30 in a Go map.
type hashIndex struct{ parts [indexParts]hashPart }

type hashPart struct {
	slots []uint32 // 0 is an empty slot
	used  int
}

// smallestPart is the number of slots of the smallest part that is not empty.
const smallestPart = 4

func (x *hashIndex) part(hash uint32) *hashPart { return &x.parts[hash>>24] }

// find returns the number with the hash for which wanted returns true; 0 if there is none.
func (x *hashIndex) find(hash uint32, wanted func(n uint32) bool) uint32 {
	p := x.part(hash)
	if p.used == 0 {
		return 0
	}
	mask := uint32(len(p.slots) - 1)
	for i := hash & mask; ; i = (i + 1) & mask {
		if n := p.slots[i]; n == 0 || wanted(n) {
			return n
		}
	}
}

// add adds a number that is not in the index. hashOf returns the hash of any number in the index.
func (x *hashIndex) add(n uint32, hashOf func(n uint32) uint32) {
	p := x.part(hashOf(n))
	if 4*(p.used+1) > 3*len(p.slots) {
		p.resize(max(smallestPart, 2*len(p.slots)), hashOf)
	}
	p.put(n, hashOf(n))
	p.used++
}

func (p *hashPart) put(n, hash uint32) {
	mask := uint32(len(p.slots) - 1)
	i := hash & mask
	for p.slots[i] != 0 {
		i = (i + 1) & mask
	}
	p.slots[i] = n
}

func (p *hashPart) resize(size int, hashOf func(n uint32) uint32) {
	old := p.slots
	p.slots = make([]uint32, size)
	for _, n := range old {
		if n != 0 {
			p.put(n, hashOf(n))
		}
	}
}

// remove removes a number from the index. It moves the following numbers forward where their hashes allow, so that no
// search ends early.
func (x *hashIndex) remove(n uint32, hashOf func(n uint32) uint32) {
	hash := hashOf(n)
	p := x.part(hash)
	mask := uint32(len(p.slots) - 1)
	hole := hash & mask
	for p.slots[hole] != n {
		hole = (hole + 1) & mask
	}
	for i := (hole + 1) & mask; p.slots[i] != 0; i = (i + 1) & mask {
		home := hashOf(p.slots[i]) & mask
		if (i-home)&mask >= (i-hole)&mask { // home is not behind the hole
			p.slots[hole] = p.slots[i]
			hole = i
		}
	}
	p.slots[hole] = 0
	p.used--
	switch {
	case p.used == 0:
		p.slots = nil
	case len(p.slots) > smallestPart && 8*p.used < len(p.slots):
		p.resize(len(p.slots)/2, hashOf)
	}
}
