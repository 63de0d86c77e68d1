package members

import (
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
	"holdfast/test/bubble"
)

// testOperator returns the operator of node 1 in a term. Raft does not run.
func testOperator(term func() Term) *Operator {
	m := NewMembership(1, 11, threePeers())
	return NewOperator(OperatorConfig{
		Logger: hclog.NewNullLogger(), Interval: time.Second, Membership: m, Term: term,
	})
}

// A change of the members that has waited for its turn is decided by the term of then, not by the term in which it
// came: the tracker of a term that is over hears nobody any more, and would count a node that has died since (J4 quorum
// is kept).
func TestJ4AChangeThatWaitedIsDecidedAnew(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		var over atomic.Bool
		o := testOperator(func() Term {
			if over.Load() {
				return nil
			}
			return votersHeard()
		})
		if err := o.takeTurn(t.Context()); err != nil {
			t.Fatal(err)
		}
		outcome := make(chan error, 1)
		go func() { outcome <- o.Demote(t.Context(), 2) }()
		synctest.Wait() // it waits for its turn
		over.Store(true)
		o.giveTurn()
		if err := <-outcome; !errors.Is(err, session.ErrNotLeader) {
			t.Errorf("the change of a term that is over: %v, want %v", err, session.ErrNotLeader)
		}
	})
}
