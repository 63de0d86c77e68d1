package client

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	sessions "holdfast/client/internal/core/session"
	"holdfast/test/bubble"
)

// Every living node asks for a wait that is longer than the promise. The client asks each node again after half of the
// rest of its promise, and not before. Meanwhile it tries the nodes that it could not reach.
func TestAResumeThatAllNodesDelayIsRetriedInTime(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpen(t, cl, 12*time.Second)
		former := c.owner(s)
		var full25 []*fakeNode
		for i := range 3 {
			if n := c.node(i + 1); n != former {
				n.refuseResumes(1, func(int) error { return full(25 * time.Second) })
				full25 = append(full25, n)
			}
		}
		former.down()
		time.Sleep(11 * time.Second)
		if s.State() != StateConnected || s.Owner() == former.number {
			t.Errorf("state %v, owner %d", s.State(), s.Owner())
		}
		for _, n := range full25 {
			if at := n.when(t, "resume"); at[0] != 0 ||
				len(at) == 2 && (at[1] < 5500*time.Millisecond || at[1] > 8*time.Second) || len(at) > 2 {
				t.Errorf("node %d was asked at %v, want at once and after half of the promise", n.number, at)
			}
		}
	})
}

// A node that asks for a long wait does not keep the client from other nodes: the client resumes at its former node as
// soon as that is back.
func TestAResumeThatIsPutOffFindsTheNodeThatRecovers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		former, other := c.owner(s), c.other(s)
		other.refuseResumes(1<<30, func(int) error { return full(25 * time.Second) })
		time.Sleep(time.Second)
		former.down()
		time.Sleep(500 * time.Millisecond)
		former.up()
		time.Sleep(2500 * time.Millisecond)
		if s.State() != StateConnected || s.Owner() != former.number {
			t.Errorf("state %v, owner %d", s.State(), s.Owner())
		}
		if at := other.when(t, "resume"); len(at) > 1 {
			t.Errorf("the full node was asked at %v, want once at most", at)
		}
	})
}

// When one name stands for all nodes, a retry time belongs to the address that asked for it, not to the name.
func TestRetryTimesBelongToAddresses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		cl := newClientWith(t, Config{
			Endpoints: []string{"all:7400"}, Dial: c.dial,
			Resolve: func(context.Context, string) ([]string, error) { return []string{"n1", "n2", "n3"}, nil },
		})
		s := mustOpen(t, cl, 12*time.Second)
		former := c.owner(s)
		for i := range 3 {
			if n := c.node(i + 1); n != former {
				n.refuseResumes(1, func(int) error { return full(25 * time.Second) })
			}
		}
		former.down()
		time.Sleep(500 * time.Millisecond)
		former.up()
		time.Sleep(3 * time.Second)
		if s.State() != StateConnected || s.Owner() != former.number {
			t.Errorf("state %v, owner %d", s.State(), s.Owner())
		}
		for i := range 3 {
			if n := c.node(i + 1); n != former && len(n.when(t, "resume")) > 1 {
				t.Errorf("full node %d was asked again", n.number)
			}
		}
	})
}

// A node that names one short retry time after another does not keep a client from a node that would serve it.
func TestANodeThatKeepsDelayingIsLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpen(t, cl, 12*time.Second)
		former := c.owner(s)
		var bad *fakeNode
		for i := range 3 {
			if n := c.node(i + 1); n != former {
				n.answer(func(kind string) error {
					if kind == "resume" && (bad == nil || bad == n) {
						bad = n
						return full(50 * time.Millisecond)
					}
					return nil
				})
			}
		}
		former.down()
		time.Sleep(4 * time.Second)
		if s.State() != StateConnected {
			t.Errorf("state %v", s.State())
		}
		if at := bad.when(t, "resume"); len(at) != sessions.MaxDeferrals {
			t.Errorf("the node was asked at %v, want %d times", at, sessions.MaxDeferrals)
		}
	})
}

// A client leaves a node at once that knows no leader and asks for a wait longer than the client allows.
func TestANodeInJeopardyThatDelaysIsLeft(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		former, other := c.owner(s), c.other(s)
		other.refuseResumes(1<<30, func(int) error { other.jeopardy(); return full(4 * time.Second) })
		time.Sleep(time.Second)
		former.cut()
		time.Sleep(500 * time.Millisecond)
		if s.Owner() != former.number || s.State() != StateConnected {
			t.Errorf("owner %d, state %v", s.Owner(), s.State())
		}
	})
}

// A client whose node recovers while another node makes it wait stays. So an election causes no herd of resumes.
func TestAClientWhoseNodeRecoversStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 16*time.Second)
		former, other := c.owner(s), c.other(s)
		other.refuseResumes(1, func(int) error { return full(4 * time.Second) })
		time.Sleep(time.Second)
		former.jeopardy()
		synctest.Wait()
		time.Sleep(500 * time.Millisecond)
		former.jeopardyEnded()
		time.Sleep(25 * time.Second)
		if at := other.when(t, "resume"); s.Owner() != former.number || s.State() != StateConnected || len(at) != 1 {
			t.Errorf("owner %d, state %v; the other node was asked at %v, want once", s.Owner(), s.State(), at)
		}
	})
}

// A retry time that leaves no time for another node is too late: the client tries another node at once.
func TestAResumeLeavesTimeForAnotherNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		s := mustOpen(t, cl, 12*time.Second)
		former, other := c.owner(s), c.other(s)
		// the promise lasts longer, by less than T/4
		other.refuseResumes(1, func(int) error { return full(9 * time.Second) })
		former.cut()
		time.Sleep(time.Second)
		if at := former.when(t, "resume"); len(at) != 1 || at[0] != 0 || s.Owner() != former.number {
			t.Errorf("the other node was asked at %v, want at once; owner %d", at, s.Owner())
		}
	})
}

// A node that has not answered a resume yet may grant it. The client does not leave the node because of another session
// that has to wait.
func TestANodeIsLeftOnlyAfterAllItsAnswers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		a, b := mustOpen(t, cl, 12*time.Second), mustOpen(t, cl, 12*time.Second)
		former, other := c.owner(a), c.other(a)
		other.refuseResumes(1, func(int) error { return full(20 * time.Second) })
		former.cut()
		time.Sleep(10 * time.Second)
		if at := former.when(t, "resume"); len(at) != 0 || a.Owner() != other.number || b.Owner() != other.number {
			t.Errorf("the other node was asked at %v, want not at all; owners %d and %d", at, a.Owner(), b.Owner())
		}
	})
}
