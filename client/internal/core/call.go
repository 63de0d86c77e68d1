package core

import (
	"time"

	"holdfast/session"
)

// Call is a caller that waits: for an open, a resume, an upgrade, or a close. It is answered once.
type Call struct {
	// Handle is the caller's, which finds it in the [Answer].
	Handle any
	// Session is the caller's handle of the session that an open or a resume brings, see [Session.Handle].
	Session any
	// Want is what an open asks for.
	Want Want
	// Trace is the caller's place in a trace, nil if it is in none.
	Trace *session.Trace

	sends    int
	h        *Session // the session being joined, upgraded or closed, once there is one
	closes   bool
	upgrades bool // waits for an upgrade
	settled  bool
	inner    bool  // nobody waits: writes need the upgrade
	last     error // what stood in the way last
	on       *Conn // an open is on: queued, sent or refused for now; nil while it waits for one that may serve it
}

// Want is the session that an open asks for.
type Want struct {
	Timeout time.Duration
	Labels  map[string]string
	// Request names the open (O2).
	Request session.RequestID
	Local   bool
}
