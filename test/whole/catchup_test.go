package whole_test

import (
	"context"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/bubble"
)

// lags checks that a member has no vote while Raft's entries do not reach it, and gets a vote once they do.
func (f *fleet) lags(cl *client.Client, i int) {
	f.t.Helper()
	f.net.Choke(f.peers[i].Raft)
	if err := cl.PromoteMember(f.t.Context(), f.peers[i].Node); err != nil {
		f.t.Fatal(err)
	}
	for range 200 {
		members, err := cl.MembersOfLeader(f.t.Context())
		if err != nil {
			f.t.Fatal(err)
		}
		for _, m := range members {
			if m.Node == f.peers[i].Node && m.Voter {
				f.t.Fatalf("node %d has a vote, and has not caught up", i+1)
			}
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.net.Unchoke(f.peers[i].Raft)
	f.awaitMember(cl, i, "a vote", votes)
}

// A member gets its vote once it has caught up, also after a demotion and promotion in the same term (J2 add, promote,
// demote).
func TestJ2AMemberCatchesUpBeforeItVotes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		i := f.observer(cl)
		leads := f.leader()
		f.lags(cl, i)
		if err := cl.DemoteMember(t.Context(), f.peers[i].Node); err != nil {
			t.Fatal(err)
		}
		f.awaitMember(cl, i, "the loss of its vote", observes)
		f.lags(cl, i)
		if now := f.leader(); now != leads {
			t.Errorf("node %d led, and node %d leads: the second vote was cast in another term", leads+1, now+1)
		}
	})
}

// A leader that is cut off from the others does not know it for a while, and lists no members (J5 the leader's list).
func TestJ5ALeaderThatIsCutOffListsNoMembers(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		leads := f.leader()
		cl := f.operator(leads)
		defer cl.Close()
		ask := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 600*time.Millisecond)
			defer cancel()
			_, err := cl.MembersOfLeader(ctx)
			return err
		}
		if err := ask(); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			if i != leads {
				f.net.Cut(f.host(leads), f.host(i))
				f.net.Cut(f.host(i), f.host(leads))
			}
		}
		if err := ask(); err == nil || !f.nodes[leads].Leads() {
			t.Errorf("cut off, the node answers %v; it leads: %v, want an error while it leads", err, f.nodes[leads].Leads())
		}
	})
}
