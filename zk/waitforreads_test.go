package zk

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// turning is a node that knows no leader, and then has another mode.
type turning struct {
	session.Service

	at time.Time
	to session.Mode
}

func (n turning) State() session.NodeState {
	if time.Now().Before(n.at) {
		return session.NodeState{Mode: session.ModeNoLeader}
	}
	return session.NodeState{Mode: n.to}
}

// A client whose session was granted while the node knew no leader gets its answer when the node may answer reads: not
// if the node has become read-only meanwhile, and the session is global (Z9 read-only).
func TestReadOnlyNodesGrantNoGlobalSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, one := range []struct {
			to    session.Mode
			local bool
			want  error
		}{
			{session.ModeReadWrite, false, nil},
			{session.ModeReadOnly, true, nil},
			{session.ModeReadOnly, false, session.ErrReadOnly},
			{session.ModeNoLeader, false, context.DeadlineExceeded},
		} {
			ctx, cancel := context.WithTimeout(t.Context(), handshakeWait)
			h := handshake{service: turning{at: time.Now().Add(time.Second), to: one.to}}
			if err := h.waitForReads(ctx, session.Token{Local: one.local}); !errors.Is(err, one.want) {
				t.Errorf("%v, local %t: %v, want %v", one.to, one.local, err, one.want)
			}
			cancel()
		}
	})
}
