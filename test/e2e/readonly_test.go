//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/timeout"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// TestReadOnly kills two of three nodes. The remaining node shows its state to clients that allow it, but not to a
// client that has seen more. It opens nothing. The held sessions live on when the others are back.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	c := create(t, 3, "read-only.yaml")
	t.Cleanup(c.down)
	left := c.victim(follows)
	l := c.newLedger()
	all := l.settled(3, minTimeout, c.all()...)
	asks := c.asks(left)
	before, err := asks.get(all[0].session.ID(), 0)
	if err != nil || before.GetState().GetMode() != holdfastv1.Mode_MODE_READ_WRITE || before.GetRemaining() == nil {
		t.Fatalf("before: %v, %v", before, err)
	}

	since := time.Now()
	c.kill(c.but(left)...)
	var state session.NodeState
	c.await(healWithin, fmt.Sprintf("node %d is read-only", left), func() (bool, string) {
		answer, getErr := asks.get(all[0].session.ID(), before.GetState().GetIndex())
		state = wire.StateFrom(answer.GetState())
		return getErr == nil && state.Mode == session.ModeReadOnly, fmt.Sprintf("%v, %v", answer, getErr)
	})
	took(t, "read-only after", time.Since(since))
	answer, err := asks.get(all[0].session.ID(), state.Index)
	if err != nil || answer.GetSession().GetId() != uint64(all[0].session.ID()) || answer.GetRemaining() != nil ||
		state.Node != session.Node(left) {
		t.Errorf("read: %v, %v", answer, err)
	}
	if _, err = asks.get(all[0].session.ID(), state.Index+1); !errors.Is(wire.Domain(err), session.ErrLagging) {
		t.Errorf("read by a client that has seen more: %v, want %v", err, session.ErrLagging)
	}
	err = asks.open()
	if told := wire.StateOf(err); !errors.Is(wire.Domain(err), session.ErrReadOnly) ||
		told.Mode != session.ModeReadOnly || told.Index < state.Index {
		t.Errorf("open: %v with %+v, want %v", err, told, session.ErrReadOnly)
	}
	time.Sleep(2 * minTimeout)

	c.start(c.but(left)...)
	c.awaitServing(healWithin, c.all()...)
	l.servesOn(left)
	l.noneEnded(all)
	answer, err = asks.get(all[0].session.ID(), state.Index)
	if err != nil || answer.GetState().GetMode() != holdfastv1.Mode_MODE_READ_WRITE || answer.GetRemaining() == nil {
		t.Errorf("after: %v, %v", answer, err)
	}
	if err = asks.open(); err != nil {
		t.Errorf("open after: %v", err)
	}
}

// asker sends single requests to one node, without the SDK and its view of the answers.
type asker struct {
	holdfastv1.SessionServiceClient
}

func (c *cluster) asks(n int) asker {
	c.t.Helper()
	conn, err := dial.Client(c.address(n), dial.Options{})
	timeout.Check(c.t, err)
	c.t.Cleanup(func() { _ = conn.Close() })
	return asker{holdfastv1.NewSessionServiceClient(conn)}
}

// get reads a session, also from a read-only node, for a client that has seen an index.
func (a asker) get(id session.ID, seen uint64) (*holdfastv1.GetSessionResponse, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healWithin)
	defer cancel()
	return a.GetSession(ctx, &holdfastv1.GetSessionRequest{SessionId: uint64(id), AllowReadOnly: true, SeenIndex: seen})
}

// open opens a session without a client to hold it.
func (a asker) open() error {
	ctx, cancel := context.WithTimeout(context.Background(), healWithin)
	defer cancel()
	_, err := a.OpenSession(
		ctx, &holdfastv1.OpenSessionRequest{Timeout: durationpb.New(minTimeout), RequestId: []byte("read-only-node-1")},
	)
	return err
}
