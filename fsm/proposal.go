package fsm

import (
	"time"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree/form"
)

// proposal is one command, and the caller to tell what came of it.
type proposal struct {
	encoded []byte
	kind    kind
	// work is the number of sessions that the command is about, cost what applying it costs: see workOf and costOf.
	work, cost int
	// weight is the work that it makes in the tree (U2).
	weight int
	// passes is how much of the share of others it uses up when it goes before them, in sessions: for a write, the part
	// of an entry that it takes.
	passes int
	// For a write to the tree: source is where it comes from, member what the source holds of the room for writes, written
	// what the write takes of that, which stays when encoded has been sent (W7), and turn its place among the writes of
	// all sources.
	member  *fair.Member[uint64, session.Source]
	written int
	source  session.Source
	turn    fair.Item[session.Source, *proposal]
	// tick says that it puts no command into the entry ([session.Tick]).
	tick bool
	// deadline is when the proposal is refused if it still waits in the queue.
	deadline time.Time
	// done is called once with the answer, without a lock.
	done func(session.Result, error)

	// before and after are the proposal's neighbours in its lane, queued says that it is in its lane. Guarded by
	// Proposer.mu.
	before, after *proposal
	queued        bool
	// answered says that done has been called or is about to be, abandoned that the caller has gone. Guarded by
	// Proposer.mu.
	answered, abandoned bool
}

// answer is what a caller of Propose gets.
type answer struct {
	result session.Result
	err    error
}

// refused are proposals that are not sent, and why.
type refused struct {
	proposals []*proposal
	err       error
}

// tell tells the callers. It is called without a lock.
func (r refused) tell() {
	for _, q := range r.proposals {
		q.done(session.Result{}, r.err)
	}
}

// kind sorts commands by what bounds them. Each kind has its own bound in the queue, so a flood of one kind makes the
// Proposer refuse no command of another kind.
type kind uint8

const (
	// termStarts are the first commands of leaders' terms (R5). They need no bound: the role loop proposes one at a
	// time.
	termStarts kind = iota
	// leaderCommands are those that a leader proposes for itself: a few expiries at a time, and one ForgetRequests.
	leaderCommands
	// endings are closes that clients ask for.
	endings
	moves
	// arrivals add to the state: opens, upgrades of local sessions, claims of ids.
	arrivals
	// writes are those of sessions to the tree, and the acknowledgements of their results.
	writes
	kinds
)

func kindOf(c session.Command) kind {
	switch c := c.(type) {
	case session.Configure:
		return termStarts
	case session.CloseSessions:
		if c.Cause == session.CauseExpired {
			return leaderCommands
		}
		return endings
	case session.MoveSession, session.MoveSessions:
		return moves
	case session.OpenSession, session.UpgradeSession, session.ClaimIDs:
		return arrivals
	case session.TreeCommand:
		if form.KindOf(c.Encoded) == form.Reap {
			return leaderCommands
		}
		return writes
	default:
		return leaderCommands
	}
}

// limit is the name of the kind's bound in a [session.LimitError]. Nothing bounds termStarts.
func (k kind) limit() string {
	return [kinds]string{
		"", "leader_commands_in_flight", "closes_in_flight", "moves_in_flight", "opens_in_flight", "writes_in_flight",
	}[k]
}
