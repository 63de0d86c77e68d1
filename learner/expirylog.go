package learner

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// expiryLog has the lines about sessions of this node that have expired: no certificate names their clients.
type expiryLog struct {
	logger hclog.Logger
	lines  session.Lines
}

// tell says that a session which this node served has expired: whose it was, and why. Of thousands that expire at once it
// names some, and counts the others. c is the connection that served it last, nil for none.
func (l *expiryLog) tell(c *connection, e *session.Certificate) {
	if e.Cause != session.CauseExpired {
		return
	}
	leftOut, ok := l.lines.Take(time.Now())
	if !ok {
		return
	}
	why := "its client was gone, and did not come back in time"
	var client session.Client
	if c != nil {
		client = c.client
	}
	switch {
	case e.Story.Silent > 0:
		why = "the leader had not heard from this node, and its client did not go to another in time"
	case c != nil && c.unary:
		why = "its client, which has no stream, sent no touch in time"
	case c.listener() != nil:
		why = "its client was connected, and sent no touch in time"
	}
	l.logger.Info("session expired", "session", e.ID, "client", client.Address, "name", hclog.Quote(client.Name),
		"verified", client.Verified, "timeout", e.Story.Timeout, "last_touch", e.LastTouchAge, "late", e.Story.Late,
		"why", why, "left_out_before", leftOut)
}
