package route

import (
	"errors"

	"holdfast/session"
)

// Lag tracks how nodes compare with the index that the client has seen. An index that no node reaches belongs to
// another cluster, or to a lost log: an older backup was restored. The client cannot tell the difference, and keeps
// demanding the index for reads (N4 seen index). Sessions must survive this, and a resume needs no index: a resume is
// an entry of the log, answered once its node has applied the entry, which is after everything that was committed
// before (M3 served in the leader's term).
type Lag struct {
	Behind, Other bool // in this round a node was LAGGING, a node refused for another reason
	Rounds        int  // in a row in which all that answered were LAGGING
}

// Note records why an attempted connection was given up. A silent node changes nothing.
func (g *Lag) Note(err error) {
	switch {
	case errors.Is(err, session.ErrLagging):
		g.Behind = true
	case !errors.Is(err, ErrUnreachable):
		g.Other = true
	}
}
