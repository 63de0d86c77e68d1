package leader

import (
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// maxAhead is how far the clock of a node that asks for ids may be ahead of the leader's (O1).
const maxAhead = time.Minute

// wallClock dates ids and certificates (O1). Deadlines do not depend on it. Safe for concurrent use.
type wallClock struct {
	now    func() time.Time
	logger hclog.Logger
	term   uint64
	// ahead marks the numbers of nodes whose clock was seen to be ahead: the log names each node once a term.
	ahead [1 << 8]atomic.Bool
}

// ms returns the time in milliseconds of ids.
func (w *wallClock) ms() uint64 { return session.MS(w.now()) }

// limit returns the time that ids get for a node whose clock shows ms. It is ms, but at most maxAhead after the
// leader's time, so that a wrong clock uses up no ids. No clock stops opens either: whatever the time is, the state
// machine assigns an id above the mark (I7). The error is [session.ErrIDsUsedUp] when the leader's time also exceeds
// the last time that an id can hold.
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
