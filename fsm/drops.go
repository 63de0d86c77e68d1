package fsm

import "holdfast/session"

// drops drops sessions of a command one by one. Neighbours in the order of their ids cost one search and one copy of
// their block, where dropping each by itself costs a search and most of a block's bytes. While it is under way, until
// end, nothing else may use the sessions: a block may be empty.
type drops struct {
	sessions *sessions
	// at walks over the present block; its block is nil before the first. dropped says that the block has lost
	// sessions.
	at      cursor
	dropped bool
	// here says that the cursor stands at a record that was not dropped, last is the id that was looked for last.
	here bool
	last session.ID
}

// find sets r to the session of an id; false if there is none.
func (d *drops) find(id session.ID, r *storedSession) bool {
	found, decided := false, false
	if d.at.block != nil && id > d.last {
		found, decided = d.ahead(id)
	}
	if !decided {
		d.end()
		b := d.sessions.covering(id)
		if b == nil {
			return false
		}
		d.at = b.walk()
		found, _ = d.ahead(id)
	}
	d.last = id
	if found {
		d.at.read(r)
	}
	return found
}

// ahead moves on to the record of id. It is decided when the block has the record, or one of a higher id: ids between
// two records of a block are in no other block.
func (d *drops) ahead(id session.ID) (found, decided bool) {
	for d.here || d.at.step() {
		if d.at.id >= id {
			d.here = true
			return d.at.id == id, true
		}
		d.here = false
	}
	return false, false
}

// drop drops the session that find has just found.
func (d *drops) drop() {
	d.at.block = d.sessions.own(d.at.block)
	d.at.cut()
	d.here, d.dropped = false, true
	d.sessions.count--
}

// end leaves the present block as [sessions] wants it.
func (d *drops) end() {
	b, dropped := d.at.block, d.dropped
	*d = drops{sessions: d.sessions}
	switch {
	case !dropped:
	case len(b.records) == 0:
		d.sessions.blocks.Delete(b.base.id)
	default:
		if b.trim(); len(b.records) < blockSize/4 {
			d.sessions.merge(b)
		}
	}
}
