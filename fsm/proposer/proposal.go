package proposer

import (
	"time"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree/form"
)

// proposal is one command and its caller.
type proposal struct {
	encoded []byte
	kind    kind
	// work is the number of sessions that the command changes, cost the cost of applying the command: see workOf and
	// costOf.
	work, cost int
	// weight is the work of the command in the tree (U2 weight).
	weight int
	// charge is the credit that other queues earn when the proposal goes before them, in sessions. A write is charged
	// for the part of an entry that it takes.
	charge int
	// Of a write to the tree: source is its connection. writeBytes is the part of the write budget that the write holds
	// until it is answered (W7 size bounds), and member is the account of the connection. share is its place among the
	// writes of all connections.
	member     *fair.Member[uint64, session.Source]
	writeBytes int
	source     session.Source
	share      fair.Item[session.Source, *proposal]
	// tick says that the proposal adds no command to the entry ([session.Tick]).
	tick bool
	// deadline is the moment at which the Proposer refuses a proposal that still waits in its queue.
	deadline time.Time
	// done is called once with the result, without a lock.
	done func(session.Result, error)

	// before and after are the neighbours in the queue, queued says that the proposal is in a queue. Guarded by
	// Proposer.mu.
	before, after *proposal
	queued        bool
	// answered says that done was called or is about to be called, abandoned that the caller waits no longer. Guarded
	// by Proposer.mu.
	answered, abandoned bool
}

// answer is the result of [Proposer.Propose].
type answer struct {
	result session.Result
	err    error
}

// refused are proposals that the Proposer does not send, and the reason.
type refused struct {
	proposals []*proposal
	err       error
}

// notify calls done of each proposal. The caller holds no lock.
func (r refused) notify() {
	for _, q := range r.proposals {
		q.done(session.Result{}, r.err)
	}
}

// kind is a kind of command with a bound of its own. Without separate bounds, a flood of one kind would make the
// Proposer refuse commands of the other kinds.
type kind uint8

const (
	// termStarts are the first commands of leaders' terms (R5 start of a tracker). The role loop proposes one at a
	// time, so they need no bound.
	termStarts kind = iota
	// leaderCommands are the leader's own: a few expiries at a time, one ForgetRequests, and the like.
	leaderCommands
	// closes are requested by clients and operators.
	closes
	moves
	// opens add sessions or ids to the state: opens, upgrades of local sessions, claims of ids.
	opens
	// writes are the writes of sessions to the tree, and the acknowledgements of their results.
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
		return closes
	case session.MoveSession, session.MoveSessions:
		return moves
	case session.OpenSession, session.UpgradeSession, session.ClaimIDs:
		return opens
	case session.TreeCommand:
		if form.KindOf(c.Encoded) == form.Reap {
			return leaderCommands
		}
		return writes
	default:
		return leaderCommands
	}
}

// limit returns the name of the kind's bound in a [session.LimitError]. termStarts have no bound.
func (k kind) limit() string {
	return [kinds]string{
		"", "leader_commands_in_flight", "closes_in_flight", "moves_in_flight", "opens_in_flight", "writes_in_flight",
	}[k]
}
