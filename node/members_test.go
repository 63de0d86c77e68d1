package node

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/node/members"
	"holdfast/session"
	"holdfast/test/bubble"
)

// A repeat of a change that was cut off is answered only once the change is committed: a leader that is cut off has it
// in its log alone, and the next leader does not have it.
func TestARepeatOfAChangeWaitsForTheCommit(t *testing.T) {
	for name, change := range map[string]func(*members.Operator, context.Context, session.Node) error{
		"demote": (*members.Operator).Demote, "remove": (*members.Operator).Remove,
	} {
		bubble.Test(t, func(t *testing.T) {
			c := newTestCluster(t, 3, nil)
			defer c.stop()
			leads := c.leader(within)
			c.agree(within)
			m := leads.operator
			others := c.others(leads)
			node := others[0].cfg.Node
			c.cut(leads, others...)
			brief, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			if err := change(m, brief, node); !errors.Is(err, session.ErrOutcomeUnknown) {
				t.Fatalf("%s: the one that is cut off: %v, want %v", name, err, session.ErrOutcomeUnknown)
			}
			if s, _ := members.Find(leads.membership.Servers(), node); members.DesiredOf(s) == members.DesiredVoter {
				t.Fatalf("%s: the change is not in the leader's log", name)
			}
			if err := change(m, t.Context(), node); !errors.Is(err, session.ErrNotLeader) {
				t.Errorf("%s: the repeat: %v, want %v", name, err, session.ErrNotLeader)
			}
			next := c.leader(within, leads)
			if s, _ := members.Find(next.membership.Servers(), node); members.DesiredOf(s) != members.DesiredVoter {
				t.Errorf("%s: the next leader has the change", name)
			}
		})
	}
}
