package client

import (
	"errors"

	"holdfast/session"
)

// lagRounds is how many rounds in which every node that answered was LAGGING have the index that was seen doubted.
const lagRounds = 2

// lag is what the nodes say of the index that the client has seen. One that no node comes to is of another cluster, or of a log that is
// gone: an older backup was restored. The client cannot tell, and goes on demanding it for reads (N4). A session must not end by
// that, and its resume needs no index: it is an entry of the log, answered once its node has applied that, which is after everything
// that was committed before (M3).
type lag struct {
	behind, other bool // a node was LAGGING in this round, refused for another reason
	rounds        int  // in a row in which all that answered were LAGGING
}

// note takes what a connection that was tried was given up for. A node that does not answer says nothing.
func (g *lag) note(err error) {
	switch {
	case errors.Is(err, session.ErrLagging):
		g.behind = true
	case !errors.Is(err, ErrUnreachable):
		g.other = true
	}
}

// endLagRound judges a round that came to nothing.
func (l *loop) endLagRound() {
	g := &l.mover.lag
	if g.rounds++; !g.behind || g.other {
		g.rounds = 0
	}
	g.behind, g.other = false, false
	if index := l.seen.demand(); g.rounds >= lagRounds && l.distrusted != index {
		l.distrusted = index
		l.logger.Warn("every node is behind what this client was told: was the cluster restored from a backup, or is a server of another one? "+
			"Sessions are resumed all the same, reads are refused", "index", index)
	}
}

// demand returns what a resume that is sent now may not be older than.
func (l *loop) demand() uint64 {
	if index := l.seen.demand(); index != l.distrusted {
		return index
	}
	return 0
}
