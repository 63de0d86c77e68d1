package fsm

import "holdfast/session"

// Deaths calls yield for the certificates that the state keeps, the newest first, from the one before a number on; 0
// begins with the newest. A certificate's number counts all that were ever issued, from 1. It goes on until yield
// returns false. Oldest is the number of the oldest certificate that is kept, and that of the next one if none is. The
// certificates are those of the call: entries that are applied meanwhile change nothing, and no lock is held.
func (s *State) Deaths(before uint64, yield func(number uint64, c *session.Certificate) bool) (oldest uint64) {
	var items []*certificate
	s.read(func(t *tables) { items, oldest = t.certificates.items, t.issued+1 })
	oldest -= uint64(len(items))
	at := len(items)
	if before != 0 {
		at = int(min(uint64(at), max(before, oldest)-oldest))
	}
	for at--; at >= 0; at-- {
		c := items[at].session()
		if !yield(items[at].number+1, &c) {
			break
		}
	}
	return oldest
}
