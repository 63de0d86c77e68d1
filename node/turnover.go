package node

import (
	"sync/atomic"

	"holdfast/fsm"
	"holdfast/session"
	"holdfast/tree"
)

// turnover counts what became of replicated sessions, and writes of the tree, as this node has applied them: on every
// node, whoever leads. It is an [fsm.Observer] and an [fsm.TreeObserver]. Safe for concurrent use.
type turnover struct{ opened, moved, closed, expired, killed, written atomic.Uint64 }

// Applied counts the changes of an entry.
func (t *turnover) Applied(_, _ uint64, changes []session.Change) {
	for i := range changes {
		switch c := &changes[i]; {
		case c.Kind == session.Opened:
			t.opened.Add(1)
		case c.Kind == session.Moved:
			t.moved.Add(1)
		case c.Kind != session.Ended:
		case c.Certificate.Cause == session.CauseClosed:
			t.closed.Add(1)
		case c.Certificate.Cause == session.CauseExpired:
			t.expired.Add(1)
		case c.Certificate.Cause == session.CauseKilled:
			t.killed.Add(1)
		}
	}
}

// Restored counts nothing: the changes before a snapshot are not told one by one.
func (*turnover) Restored() {}

// AppliedTree counts the writes of an entry.
func (t *turnover) AppliedTree(_ *fsm.Tree, _ []tree.Change, wrote []fsm.Wrote) {
	t.written.Add(uint64(len(wrote)))
}

// RestoredTree counts nothing, as Restored.
func (*turnover) RestoredTree(*fsm.Tree) {}

// counts returns what was counted so far.
func (t *turnover) counts() session.Turnover {
	return session.Turnover{
		Opens: t.opened.Load(), Moves: t.moved.Load(), Closes: t.closed.Load(), Expiries: t.expired.Load(),
		Kills: t.killed.Load(), TreeWrites: t.written.Load(),
	}
}

// turnoverMetrics are the counts of [turnover].
func turnoverMetrics() []metric {
	of := func(name, what string, read func(t *turnover) *atomic.Uint64) metric {
		return counter("applied_"+name, "Replicated sessions that "+what+", as this node has applied the log since its "+
			"process began, the entries that it read from its own disk included.", func(f *figures) float64 {
			return float64(read(f.node.view.turnover).Load())
		})
	}
	return []metric{
		of("opens", "were opened or became replicated", func(t *turnover) *atomic.Uint64 { return &t.opened }),
		of("moves", "moved, also to another connection of the same node", func(t *turnover) *atomic.Uint64 {
			return &t.moved
		}),
		of("closes", "were closed by their clients", func(t *turnover) *atomic.Uint64 { return &t.closed }),
		of("expiries", "expired", func(t *turnover) *atomic.Uint64 { return &t.expired }),
		of("kills", "were ended by operators", func(t *turnover) *atomic.Uint64 { return &t.killed }),
		counter("applied_tree_writes", "Writes of the tree, refused ones included, as this node has applied the log since "+
			"its process began, the entries that it read from its own disk included.", func(f *figures) float64 {
			return float64(f.node.view.turnover.written.Load())
		}),
	}
}
