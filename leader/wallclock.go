package leader

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// maxAhead is the most by which a node's clock may be ahead of the leader's when the node needs ids (O1 ids from the
// log).
const maxAhead = time.Minute

// wallClock dates ids and certificates (O1). Deadlines do not depend on it. Safe for concurrent use.
type wallClock struct {
	now    func() time.Time
	logger hclog.Logger
	term   uint64
	// ahead marks the nodes whose clock was ahead: the log names each node once a term.
	ahead [1 << 8]atomic.Bool
}

// ms returns the time in the unit of ids, milliseconds.
func (w *wallClock) ms() uint64 { return session.MS(w.now()) }

// limit returns the time for the ids of a node whose clock shows ms: ms, but at most maxAhead after the leader's time,
// so that a wrong clock uses up no ids. No clock can block opens either: whatever the time is, the state machine
// assigns an id above the mark (I7 ids are never reused). The error is [session.ErrIDsUsedUp] when the leader's time
// also exceeds the last time that an id can hold.
func (w *wallClock) limit(node session.Node, ms uint64) (uint64, error) {
	latest := session.MS(w.now().Add(maxAhead))
	if ms > latest && !w.ahead[node].Swap(true) {
		w.logger.Warn("clock is ahead of the leader's: ids get an earlier time", "node", node, "clock",
			session.TimeOfMS(ms), "term", w.term)
	}
	if ms = min(ms, latest); ms > session.MaxMS {
		return 0, session.ErrIDsUsedUp
	}
	return ms, nil
}
