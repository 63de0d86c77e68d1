package whole_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/bubble"
)

func (f *fleet) host(i int) string { return fmt.Sprintf("n%d", i+1) }

// observer starts a node and adds it, for good without a vote.
func (f *fleet) observer(cl *client.Client) int {
	f.t.Helper()
	i := f.join()
	time.Sleep(time.Second)
	if err := cl.AddMember(f.t.Context(), f.place(i)); err != nil {
		f.t.Fatal(err)
	}
	f.awaitMember(cl, i, "being an observer", observes)
	f.awaitReady(i)
	return i
}

// Observers serve clients for as long as the cluster runs: they stay without a vote over time and a restart, and a
// session at them outlives a change of leader. A repeat of the command that added one changes nothing (J2 add, promote,
// demote).
func TestObserversAreAPermanentRole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		i := f.observer(cl)
		far := f.client("far", f.peers[i].Client)
		defer far.Close()
		one, err := far.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			time.Sleep(100 * time.Millisecond)
			for _, m := range f.nodes[0].Members() {
				if m.Node == f.peers[i].Node && m.Voter {
					t.Fatal("an observer has a vote")
				}
			}
		}
		if err := cl.AddMember(t.Context(), f.place(i)); err != nil {
			t.Errorf("a repeat: %v", err)
		}
		f.restart(f.leader())
		f.awaitMember(cl, i, "having no vote after a change of leader", observes)
		f.restart(i)
		f.awaitReady(i)
		time.Sleep(time.Minute)
		f.awaitMember(cl, i, "having no vote after a restart", observes)
		if _, err := cl.Get(t.Context(), one.ID()); err != nil || one.Err() != nil {
			t.Errorf("the session at the observer: %v, %v", err, one.Err())
		}
	})
}

// DemoteMember demotes a follower and the leader, which transfers leadership first. Both continue to serve, and are
// promoted again (J2).
func TestMembersAreDemotedAndPromotedAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 5)
		defer f.end()
		cl := f.operator(0, 1, 2, 3, 4)
		defer cl.Close()
		leads := f.leader()
		for _, i := range []int{leads, (leads + 1) % 5} {
			for range 2 { // a repeat changes nothing
				if err := cl.DemoteMember(t.Context(), f.peers[i].Node); err != nil {
					t.Fatal(err)
				}
			}
			f.awaitMember(cl, i, "the loss of its vote", observes)
			f.awaitReady(i)
			if f.nodes[i].Leads() {
				t.Errorf("node %d leads without a vote", i+1)
			}
		}
		time.Sleep(time.Minute)
		for _, i := range []int{leads, (leads + 1) % 5} {
			f.awaitMember(cl, i, "staying without a vote", observes)
			if err := cl.TransferLeadership(t.Context(), f.peers[i].Node); !refusedFor(err, session.MemberUnknown) {
				t.Errorf("leadership for an observer: %v", err)
			}
			if err := cl.PromoteMember(t.Context(), f.peers[i].Node); err != nil {
				t.Fatal(err)
			}
			f.awaitMember(cl, i, "a vote", votes)
			f.awaitReady(i)
		}
	})
}

// Observers count for no quorum: without two of three voters there is no leader and nothing expires, however many
// observers run. With one of the voters back the sessions live on (J2, I8 a sick server kills nobody).
func TestObserversCountForNoQuorum(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		var far []*client.Session
		for range 3 {
			i := f.observer(cl)
			at := f.client("far", f.peers[i].Client)
			defer at.Close()
			one, err := at.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			far = append(far, one)
		}
		leads := f.leader()
		others := []int{(leads + 1) % 3, (leads + 2) % 3}
		f.net.Pause(f.host(others[0]))
		time.Sleep(10 * time.Second)
		if err := cl.RemoveMember(t.Context(), f.peers[others[1]].Node); !refusedFor(err, session.MemberQuorum) {
			t.Errorf("the second of three voters beside three observers: %v", err)
		}
		f.net.Pause(f.host(others[1]))
		time.Sleep(time.Minute)
		for i, n := range f.nodes {
			if s, err := n.Status(context.Background()); n.Leads() || err != nil || s.Ready {
				t.Errorf("node %d leads: %v, ready: %v, %v; 4 of 6 nodes run, and 1 of 3 voters", i+1, n.Leads(), s.Ready, err)
			}
		}
		f.net.Resume(f.host(others[0]))
		for i := 3; i < 6; i++ {
			f.awaitReady(i)
		}
		f.net.Resume(f.host(others[1]))
		time.Sleep(time.Minute)
		for i, one := range far {
			if _, err := cl.Get(t.Context(), one.ID()); err != nil {
				t.Errorf("session %d: %v", i, err)
			}
		}
	})
}
