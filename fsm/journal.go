package fsm

import (
	"slices"

	"holdfast/session"
)

// certificates keep certificates in the order in which they were issued, drop the oldest first, and find each by the
// id of its session. A copy of the items never changes: items are only appended behind its end and cut off before its
// beginning.
type certificates struct {
	items []*certificate // oldest first
	byID  map[session.ID]*certificate
	bytes uint64 // the items' cost
	cut   int    // number of items cut off since items was last copied
	// spare is room for the next certificates. They are made many at a time: a storm ends thousands of sessions.
	spare []certificate
}

// certificatePage is the number of certificates that are made at a time.
const certificatePage = 128

func newCertificates() certificates {
	return certificates{byID: make(map[session.ID]*certificate)}
}

// freeze returns a copy of the items, which finds an item by looking at all of them.
func (j *certificates) freeze() certificates { return certificates{items: j.items, bytes: j.bytes} }

// add keeps a copy of c.
func (j *certificates) add(c *certificate) {
	if len(j.spare) == 0 {
		j.spare = make([]certificate, certificatePage)
	}
	item := &j.spare[0]
	j.spare = j.spare[1:]
	*item = *c
	j.bytes += item.cost()
	j.items = append(j.items, item)
	j.byID[item.id] = item
}

// dropOldest removes the oldest item. There must be one.
func (j *certificates) dropOldest() {
	delete(j.byID, j.items[0].id)
	j.bytes -= j.items[0].cost()
	j.items = j.items[1:]
	if j.cut++; j.cut > len(j.items) {
		// Without this copy, items that were many once would keep the memory of all dropped ones.
		j.items, j.cut = slices.Clone(j.items), 0
	}
}

// find returns the certificate of a session.
func (j *certificates) find(id session.ID) (*certificate, bool) {
	if j.byID == nil {
		for _, c := range slices.Backward(j.items) {
			if c.id == id {
				return c, true
			}
		}
		return nil, false
	}
	c, ok := j.byID[id]
	return c, ok
}
