// Package certificates keeps the certificates of ended sessions: why, when and how late each session ended, and what it
// left in the tree. It has no locks: fsm.State guards the table that it changes.
package certificates

import (
	"slices"

	"holdfast/session"
)

// Table keeps certificates in the order in which they were issued, drops the oldest first, and finds a certificate by
// the id of its session.
type Table struct {
	// Items are the kept certificates, the oldest first. Callers must not modify Items. A copy of the slice never
	// changes: the table appends behind the end of a copy and cuts off before its beginning.
	Items []*Certificate
	// Bytes is the cost of all Items. A scrub of the state corrects a damaged count.
	Bytes uint64
	byID  map[session.ID]*Certificate // nil in a frozen copy
	cut   int                         // number of items cut off since Items was last copied
	// spare is memory for the next certificates, allocated in pages: a storm ends thousands of sessions.
	spare []Certificate
}

// certificatePage is the number of certificates in an allocation.
const certificatePage = 128

// New returns an empty table.
func New() Table {
	return Table{byID: make(map[session.ID]*Certificate)}
}

// Freeze returns a copy of the items. The copy finds a certificate by a search through all items.
func (j *Table) Freeze() Table { return Table{Items: j.Items, Bytes: j.Bytes} }

// Add adds a copy of c.
func (j *Table) Add(c *Certificate) {
	if len(j.spare) == 0 {
		j.spare = make([]Certificate, certificatePage)
	}
	item := &j.spare[0]
	j.spare = j.spare[1:]
	*item = *c
	j.Bytes += item.Cost()
	j.Items = append(j.Items, item)
	j.byID[item.ID] = item
}

// DropOldest removes the oldest item. There must be one.
func (j *Table) DropOldest() {
	delete(j.byID, j.Items[0].ID)
	j.Bytes -= j.Items[0].Cost()
	j.Items = j.Items[1:]
	if j.cut++; j.cut > len(j.Items) {
		// Without this copy, the slice would keep the memory of its longest time for ever.
		j.Items, j.cut = slices.Clone(j.Items), 0
	}
}

// Find returns the certificate of a session. It reports false when the table has none.
func (j *Table) Find(id session.ID) (*Certificate, bool) {
	if j.byID == nil {
		for _, c := range slices.Backward(j.Items) {
			if c.ID == id {
				return c, true
			}
		}
		return nil, false
	}
	c, ok := j.byID[id]
	return c, ok
}
