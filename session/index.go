package session

// index finds the place of an id in a slab: open addressing with linear probing. Each slot holds a place and a tag of
// its id, so a failed probe reads no item and a successful probe reads one. An index is half the size of a map, and the
// processor can fetch the slots of several touches at once, where a map makes it wait for each touch.
type index struct {
	// slots are a power of two in number, and at most three quarters of them are used.
	slots []slot
	used  int
	// shift turns a tag into the number of its first slot.
	shift uint8
}

// slot is empty when its place is [none].
type slot struct{ tag, place uint32 }

const minSlotBits = 3

func newIndex(bits uint8) index { return index{slots: make([]slot, 1<<bits), shift: 32 - bits} }

// tag returns a hash of id: ids differ in few bits, and a tag's high bits choose the slot.
func tag(id ID) uint32 {
	h := uint64(id)
	return uint32((h ^ h>>32) * 0x9e3779b97f4a7c15 >> 32)
}

// put adds an id that the index does not hold.
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

// drop removes a place, and moves later slots into the gap, because probes end at an empty slot.
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
