package zk

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/zk/jute"
)

// turning is a node that hears of no leader, and then has another mode.
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

// A session that was given out while the node heard of no leader is one of a client that the node welcomes when it may
// answer it: not if it has become read-only meanwhile, and the session is one of the cluster (Z9).
func TestNobodyIsWelcomedByANodeThatIsReadOnly(t *testing.T) {
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
			s := &Server{service: turning{at: time.Now().Add(time.Second), to: one.to}}
			if err := s.settled(ctx, session.Token{Local: one.local}); !errors.Is(err, one.want) {
				t.Errorf("%v, local %t: %v, want %v", one.to, one.local, err, one.want)
			}
			cancel()
		}
	})
}

// young is a node of a new cluster, which has the tree from a moment on, and the one connection to it.
type young struct {
	session.Service
	session.Connection

	treeAt time.Time
	opened []time.Time
}

func (n *young) State() session.NodeState {
	if time.Now().Before(n.treeAt) {
		return session.NodeState{Mode: session.ModeReadWrite}
	}
	return session.NodeState{Mode: session.ModeReadWrite, FeatureLevel: session.TreeLevel}
}

func (n *young) Open(context.Context, session.OpenRequest) (session.Grant, error) {
	n.opened = append(n.opened, time.Now())
	return session.Grant{}, nil
}

// A new cluster has a leader a moment before it has the tree. A session that is opened between the two has no writer
// (X5), and its first write would end its client's connection: so it is opened once there is the tree.
func TestNoSessionIsOpenedBeforeTheTree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		for _, one := range []struct {
			after time.Duration
			want  error
		}{
			{0, nil},
			{electionWait / 2, nil},
			{time.Hour, session.ErrNoTree},
		} {
			n := &young{treeAt: time.Now().Add(one.after)}
			c := &conn{server: &Server{service: n}, link: n}
			_, err := grant(t.Context(), c, jute.ConnectRequest{Timeout: 10_000})
			if !errors.Is(err, one.want) {
				t.Errorf("with a tree after %v: %v, want %v", one.after, err, one.want)
			}
			for _, at := range n.opened {
				if at.Before(n.treeAt) {
					t.Errorf("a session was opened %v before the tree", n.treeAt.Sub(at))
				}
			}
			if opens := len(n.opened); (opens == 1) != (one.want == nil) {
				t.Errorf("with a tree after %v: %d opens", one.after, opens)
			}
		}
	})
}
