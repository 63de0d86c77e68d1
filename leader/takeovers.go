package leader

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// takeOvers refuses to take a session from a living holder that took it itself less than half a timeout ago (M7 no
// take-over from a living holder). Without this rule, two clients with one session take it from each other as fast as
// they can. Safe for concurrent use.
type takeOvers struct {
	recent     session.TakeOvers
	heartbeats *heartbeats
	logger     hclog.Logger
	stats      *counters
	logLimit   session.LogLimiter
}

// refusal returns why an instance may not take a session now; nil if it may.
func (t *takeOvers) refusal(one *session.Session, instance uint64, at session.Node) error {
	if instance == one.Instance {
		return nil
	}
	since, first, ok := t.recent.Recent(one.ID, one.Attachment, t.heartbeats.now())
	if !ok || !t.heartbeats.served(one.Owner, since) {
		return nil
	}
	t.stats.contested.Add(1)
	if !first {
		return session.MovedTo(*one)
	}
	if leftOut, ok := t.logLimit.Allow(time.Now()); ok {
		t.logger.Warn("resume refused: another client process took the session over less than half of its timeout ago",
			"session", one.ID, "timeout", one.Timeout, "holder_at", one.Owner, "other_at", at,
			"left_out_before", leftOut)
	}
	return session.MovedTo(*one)
}
