package session

// index finds the place of an id in a slab: open addressing with linear probing. Beside each place it keeps a tag, so
// that a probe that misses looks at no item, and one that hits looks at one. That makes it half the size of a map, and
// lets the processor fetch what several touches need at once, where a map has it wait for each.
type index struct {
	// slots are a power of two, at most three quarters of them used.
	slots []slot
	used  int
	// shift makes a slot's number of a tag.
	shift uint8
}

// slot is empty when its place is none.
type slot struct{ tag, place uint32 }

const minSlotBits = 3

func newIndex(bits uint8) index { return index{slots: make([]slot, 1<<bits), shift: 32 - bits} }

// tag spreads ids, which differ in few bits; the slot comes from its high bits.
func tag(id ID) uint32 {
	h := uint64(id)
	return uint32((h ^ h>>32) * 0x9e3779b97f4a7c15 >> 32)
}

// put adds an id that is not here.
func (x *index) put(id ID, place uint32) {
	if x.used >= len(x.slots)/4*3 {
		x.grow()
	}
	x.insert(slot{tag(id), place})
	x.used++
}

func (x *index) insert(c slot) {
	i := x.home(c.tag)
	for x.slots[i].place != none {
		i = x.after(i)
	}
	x.slots[i] = c
}

func (x *index) grow() {
	old := x.slots
	bits := 32 - x.shift + 1
	*x = index{slots: make([]slot, 1<<bits), shift: 32 - bits, used: x.used}
	for _, c := range old {
		if c.place != none {
			x.insert(c)
		}
	}
}

// drop takes a place out, and closes the gap that it leaves in the way of later probes.
func (x *index) drop(id ID, place uint32) {
	gap := x.home(tag(id))
	for x.slots[gap].place != place {
		gap = x.after(gap)
	}
	for i := x.after(gap); x.slots[i].place != none; i = x.after(i) {
		home := x.home(x.slots[i].tag)
		if (i-home)&x.mask() >= (i-gap)&x.mask() {
			x.slots[gap] = x.slots[i]
			gap = i
		}
	}
	x.slots[gap] = slot{}
	x.used--
}

func (x *index) home(tag uint32) uint32 { return tag >> x.shift }
func (x *index) mask() uint32           { return uint32(len(x.slots) - 1) }
func (x *index) after(i uint32) uint32  { return (i + 1) & x.mask() }
