package route

import (
	"errors"

	"holdfast/session"
)

// Lag is what the nodes say of the index that the client has seen. One that no node comes to is of another cluster, or
// of a log that is gone: an older backup was restored. The client cannot tell, and goes on demanding it for reads (N4).
// A session must not end by that, and its resume needs no index: it is an entry of the log, answered once its node has
// applied that, which is after everything that was committed before (M3).
type Lag struct {
	Behind, Other bool // a node was LAGGING in this round, refused for another reason
	Rounds        int  // in a row in which all that answered were LAGGING
}

// Note takes what a connection that was tried was given up for. A node that does not answer says nothing.
func (g *Lag) Note(err error) {
	switch {
	case errors.Is(err, session.ErrLagging):
		g.Behind = true
	case !errors.Is(err, ErrUnreachable):
		g.Other = true
	}
}
