package leader

import (
	"time"

	"holdfast/session"
)

// maxAhead is how far the clock of a node that asks for ids may be ahead of the leader's (O1).
const maxAhead = time.Minute

// timeOf returns the time that ids are made of for a node whose clock shows ms: the node's, or maxAhead after the
// leader's if that is earlier. So a wrong clock uses up nobody's ids, and stops no opens either: whatever the time, the
// state machine assigns an id above the mark (I7). When the leader's clock too is past what an id can hold, ids are
// used up.
func (t *Tracker) timeOf(node session.Node, ms uint64) (uint64, error) {
	latest := session.MS(t.cfg.Clock().Add(maxAhead))
	if ms > latest && !t.ahead[node].Swap(true) {
		t.logger.Warn("clock is ahead of the leader's: ids get an earlier time", "node", node, "clock",
			session.TimeOfMS(ms), "term", t.cfg.Term)
	}
	if ms = min(ms, latest); ms > session.MaxMS {
		return 0, session.ErrIDsUsedUp
	}
	return ms, nil
}
