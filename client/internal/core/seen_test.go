package core

import (
	"testing"

	"holdfast/client/internal/route"
	"holdfast/session"
	"holdfast/transport/wire"
)

// Nodes that lag for one round may be about to catch up: resumes go on carrying the seen index. After two such rounds
// they leave it out.
func TestN4OneLaggingRoundKeepsTheSeenIndex(t *testing.T) {
	l, c, h := staged(t)
	l.look(Moment{Seen: 7})
	for _, round := range [][]error{
		{session.ErrLagging, session.ErrLagging},
		{session.ErrLagging, session.ErrNoLeader},
		{session.ErrLagging},
		{route.Unreachable(c.Address, route.ErrSlow)},
		{session.ErrLagging},
	} {
		for _, err := range round {
			l.lag.Note(err)
		}
		l.endLagRound()
		if got := (&resumeBody{h: h}).message(&l.ledger, 1).GetResume().GetSeenIndex(); got != 7 {
			t.Fatalf("resume says %d was seen after %v, want 7", got, round)
		}
	}
	l.lag.Note(session.ErrLagging)
	l.endLagRound()
	if got := (&resumeBody{h: h}).message(&l.ledger, 1).GetResume().GetSeenIndex(); got != 0 {
		t.Errorf("resume says %d was seen after two rounds, want none", got)
	}
	l.look(Moment{Seen: 8})
	if got := (&resumeBody{h: h}).message(&l.ledger, 1).GetResume().GetSeenIndex(); got != 8 {
		t.Errorf("resume says %d was seen, want 8: a node has told a higher index", got)
	}
}

// Each resume carries the seen index.
func TestN4ResumesCarryTheSeenIndex(t *testing.T) {
	l, c, h := staged(t)
	l.look(Moment{Seen: 7})
	l.look(Moment{Seen: 5})
	m := (&resumeBody{h: h}).message(&l.ledger, 1)
	if got := m.GetResume().GetSeenIndex(); got != 7 {
		t.Errorf("resume says %d was seen, want 7", got)
	}
	l.heardOf(c, wire.StateProto(session.NodeState{Node: 1, Mode: session.ModeReadWrite, Index: 9}))
	if got := (&resumeBody{h: h}).message(&l.ledger, 2).GetResume().GetSeenIndex(); got != 9 {
		t.Errorf("resume says %d was seen, want 9", got)
	}
}
