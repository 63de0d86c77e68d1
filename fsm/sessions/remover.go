package sessions

import "holdfast/session"

// Remover removes the sessions of one command. Sessions that are neighbours share one search and one copy of their
// block: without that, each removed session costs a search and most of a block's bytes. A block may be empty until End
// returns, so nothing else may use the table before.
type Remover struct {
	table *Table
	// at walks over the present block; at.block is nil before the first. removed says that the block has lost sessions.
	at      cursor
	removed bool
	// found says that the cursor is at a record that is still in the block. last is the id of the last search.
	found bool
	last  session.ID
}

// Remover returns a Remover for one command.
func (s *Table) Remover() Remover { return Remover{table: s} }

// Find copies a session into r. It reports false when there is no session with that id. Find is cheapest for ids in
// ascending order.
func (d *Remover) Find(id session.ID, r *Row) bool {
	found, decided := false, false
	if d.at.block != nil && id > d.last {
		found, decided = d.advance(id)
	}
	if !decided {
		d.End()
		b := d.table.covering(id)
		if b == nil {
			return false
		}
		d.at = b.walk()
		found, _ = d.advance(id)
	}
	d.last = id
	if found {
		d.at.read(r)
	}
	return found
}

// advance moves on to the record of id in the present block. decided reports whether the search for id is over: this
// block has a record of id or of a higher id.
func (d *Remover) advance(id session.ID) (found, decided bool) {
	for d.found || d.at.step() {
		if d.at.id >= id {
			d.found = true
			return d.at.id == id, true
		}
		d.found = false
	}
	return false, false
}

// Remove removes the session that Find has just found.
func (d *Remover) Remove() {
	d.at.block = d.table.own(d.at.block)
	d.at.cut()
	d.found, d.removed = false, true
	d.table.count--
}

// End merges or deletes the present block if Remove has left it small or empty. The Remover can then be used again.
func (d *Remover) End() {
	b, removed := d.at.block, d.removed
	*d = Remover{table: d.table}
	switch {
	case !removed:
	case len(b.records) == 0:
		d.table.blocks.Delete(b.base.id)
	default:
		if b.trim(); len(b.records) < blockSize/4 {
			d.table.merge(b)
		}
	}
}
