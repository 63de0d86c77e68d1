package simdisk

import (
	"maps"
	"math/rand/v2"
	"slices"
)

// Tear is the way in which writes that were not fsynced outlive a power cut.
type Tear int

// Ways in which writes tear.
const (
	// TearAny draws TearAll, TearPrefix or TearSubset for each file.
	TearAny Tear = iota
	// TearAll loses all writes.
	TearAll
	// TearPrefix keeps the first sectors, in the order of the writes. The write at the border may be torn.
	TearPrefix
	// TearSubset keeps any sectors, as a disk does that reorders them.
	TearSubset
	// TearHalf loses the second half of the sectors, and each sector of the first half with odds of one half. It is for
	// controls: the last write is certainly lost. TearAny never draws it.
	TearHalf
)

// Loss counts what a power cut did.
type Loss struct {
	// Writes counts the writes that were not fsynced, Torn those of which a part was kept, Kept those kept as a whole.
	Writes, Torn, Kept int
	// Bytes counts the bytes in those writes, Lost the lost ones.
	Bytes, Lost int
	// Names counts the changes of names that were not fsynced, NamesLost those that were undone.
	Names, NamesLost int
}

// Add adds up losses.
func (l *Loss) Add(other Loss) {
	l.Writes += other.Writes
	l.Torn += other.Torn
	l.Kept += other.Kept
	l.Bytes += other.Bytes
	l.Lost += other.Lost
	l.Names += other.Names
	l.NamesLost += other.NamesLost
}

// Cut cuts the power. Afterwards programs see what was durable, and the part of the rest that dice and tear keep. All
// nodes are new: a reference to an old node reads content that no longer exists.
func (d *Disk) Cut(dice *rand.Rand, tear Tear) Loss {
	d.mu.Lock()
	defer d.mu.Unlock()
	loss := Loss{Names: len(d.journal)}
	kept := 0
	if tear != TearAll {
		kept = dice.IntN(len(d.journal) + 1)
	}
	loss.NamesLost = len(d.journal) - kept
	for _, c := range d.journal[:kept] {
		for _, e := range c {
			set(e.dir.names, e)
		}
	}
	d.journal = nil
	d.root = d.survivor(d.root, cutter{dice, tear, &loss})
	return loss
}

// survivor returns what is left of a node and all nodes under it. It visits them sorted, so that the same dice give the
// same result.
func (d *Disk) survivor(n *Node, c cutter) *Node {
	left := d.node(n.Dir, n.Mode)
	for _, name := range slices.Sorted(maps.Keys(n.names)) {
		child := d.survivor(n.names[name], c)
		left.entries[name], left.names[name] = child, child
	}
	if !n.Dir {
		left.durable = c.file(n)
		left.live = slices.Clone(left.durable)
	}
	return left
}

// cutter makes the decisions of one power cut.
type cutter struct {
	dice *rand.Rand
	tear Tear
	loss *Loss
}

// file returns what is left of a file.
func (c cutter) file(n *Node) []byte {
	sector, keep := c.rule(n)
	content := slices.Clone(n.durable)
	for _, w := range n.pending {
		kept, parts := 0, w.sectors(sector)
		for _, part := range parts {
			if keep() {
				content = part.apply(content)
				kept++
				continue
			}
			c.loss.Lost += len(part.data)
		}
		c.loss.Writes++
		c.loss.Bytes += len(w.data)
		switch kept {
		case 0:
		case len(parts):
			c.loss.Kept++
		default:
			c.loss.Torn++
		}
	}
	return content
}

// rule draws the size of a sector, and a function that decides for each sector in turn whether it is kept.
func (c cutter) rule(n *Node) (sector int64, keep func() bool) {
	sector = []int64{512, 4096}[c.dice.IntN(2)]
	tear := c.tear
	if tear == TearAny {
		tear = TearAll + Tear(c.dice.IntN(3))
	}
	sectors := 0
	for _, w := range n.pending {
		sectors += len(w.sectors(sector))
	}
	switch tear {
	case TearPrefix:
		left := c.dice.IntN(sectors + 1)
		return sector, func() bool { left--; return left >= 0 }
	case TearHalf:
		left := sectors / 2
		return sector, func() bool { left--; return left >= 0 && c.dice.IntN(2) == 0 }
	case TearSubset:
		odds := c.dice.Float64()
		return sector, func() bool { return c.dice.Float64() < odds }
	case TearAny, TearAll:
	}
	return sector, func() bool { return false }
}

// sectors splits a write at the borders of the disk's sectors. A new size is one part.
func (w write) sectors(size int64) []write {
	if len(w.data) == 0 {
		return []write{w}
	}
	var parts []write
	for off, end := w.off, w.off+int64(len(w.data)); off < end; {
		next := min((off/size+1)*size, end)
		parts = append(parts, write{off, w.data[off-w.off : next-w.off]})
		off = next
	}
	return parts
}
