package learner

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// expiryLog logs the expired sessions of this node, because no certificate names their clients.
type expiryLog struct {
	logger   hclog.Logger
	logLimit session.LogLimiter
}

// log records that a session served here has expired: its client, and why. Of thousands that expire at once log
// names some, and counts the others. c is the connection that served the session last, nil for none.
func (l *expiryLog) log(c *connection, e *session.Certificate) {
	if e.Cause != session.CauseExpired {
		return
	}
	leftOut, ok := l.logLimit.Allow(time.Now())
	if !ok {
		return
	}
	why := "its client was disconnected and did not reconnect in time"
	var client session.Client
	if c != nil {
		client = c.client
	}
	switch {
	case e.Story.Silent > 0:
		why = "the leader could not reach this node, and the client did not move to another node in time"
	case c != nil && c.unary:
		why = "its client, which makes single calls, sent no touch in time"
	case c.listener() != nil:
		why = "its client was connected but sent no touch in time"
	}
	l.logger.Info("session expired", "session", e.ID, "client", client.Address, "name", hclog.Quote(client.Name),
		"verified", client.Verified, "timeout", e.Story.Timeout, "last_touch", e.LastTouchAge, "late", e.Story.Late,
		"why", why, "left_out_before", leftOut)
}
