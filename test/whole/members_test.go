package whole_test

import (
	"context"
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
	"holdfast/test/whole"
)

// join starts a node that no other node has among its peers, with the number after the highest.
func (f *fleet) join() int {
	f.t.Helper()
	i := len(f.peers)
	f.peers = append(f.peers, whole.PeerOf(i))
	f.nodes = append(f.nodes, f.start(i))
	return i
}

func (f *fleet) place(i int) session.MemberPlace { return session.MemberPlace(f.peers[i]) }

// operator returns a client of an operator, who knows some nodes.
func (f *fleet) operator(nodes ...int) *client.Client {
	f.t.Helper()
	var endpoints []string
	for _, i := range nodes {
		endpoints = append(endpoints, f.peers[i].Client)
	}
	return f.client("operator", endpoints...)
}

// memberSessions is how many sessions live through the changes: a few in each run, and as many as
// HOLDFAST_MEMBERS_SESSIONS says.
func (f *fleet) memberSessions() int {
	f.t.Helper()
	text := os.Getenv("HOLDFAST_MEMBERS_SESSIONS")
	if text == "" {
		return 200
	}
	sessions, err := strconv.Atoi(text)
	if err != nil {
		f.t.Fatalf("HOLDFAST_MEMBERS_SESSIONS: %v", err)
	}
	return sessions
}

// awaitMember waits until the members that the leader shows say what ok requires of a node: nil means no member.
func (f *fleet) awaitMember(cl *client.Client, i int, what string, ok func(*client.Member) bool) {
	f.t.Helper()
	for end := time.Now().Add(2 * time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		members, err := cl.MembersOfLeader(f.t.Context())
		if err != nil {
			continue
		}
		var found *client.Member
		for _, m := range members {
			if m.Node == f.peers[i].Node {
				found = &m
			}
		}
		if ok(found) {
			return
		}
	}
	members, err := cl.MembersOfLeader(f.t.Context())
	f.t.Fatalf("node %d: %s did not come about: %+v, %v", i+1, what, members, err)
}

func votes(m *client.Member) bool    { return m != nil && m.Voter }
func observes(m *client.Member) bool { return m != nil && !m.Voter && m.Observer }
func gone(m *client.Member) bool     { return m == nil }

// added starts a node, adds it as an observer, and promotes it.
func (f *fleet) added(cl *client.Client) int {
	f.t.Helper()
	i := f.join()
	time.Sleep(time.Second)
	if err := cl.AddMember(f.t.Context(), f.place(i)); err != nil {
		f.t.Fatal(err)
	}
	f.awaitMember(cl, i, "being an observer", observes)
	f.awaitReady(i)
	if err := cl.PromoteMember(f.t.Context(), f.peers[i].Node); err != nil {
		f.t.Fatal(err)
	}
	f.awaitMember(cl, i, "a vote", votes)
	return i
}

// removed removes a member, waits for the removal, and ends it.
func (f *fleet) removed(cl *client.Client, i int) {
	f.t.Helper()
	if err := cl.RemoveMember(f.t.Context(), f.peers[i].Node); err != nil {
		f.t.Fatal(err)
	}
	f.awaitMember(cl, i, "its removal", gone)
	f.stop(i)
}

// removedSoon is removed, of a member whose clients leave at once. The leader learns from the member that they have
// left, and does not wait for the drain timeout of 10 s.
func (f *fleet) removedSoon(cl *client.Client, i int) {
	f.t.Helper()
	begun := time.Now()
	f.removed(cl, i)
	if took := time.Since(begun); took > 8*time.Second {
		f.t.Errorf("node %d: its removal took %v, although its clients have left", i+1, took)
	}
}

// kept checks that the crowd has lost nothing, and ends it.
func (c *crowd) kept(created int, gap, least time.Duration) {
	c.t.Logf("%d sessions: the longest time without a promise was %v, the least that was left of one %v; %d watches "+
		"received %d events each, %d locks were held", len(c.sessions), gap, least, len(c.received), created, len(c.holds))
	if gap > 0 {
		c.t.Errorf("a session was without a promise for %v", gap)
	}
	for i, s := range c.sessions {
		if err := s.Err(); err != nil {
			c.t.Errorf("session %d: %v", i, err)
		}
	}
	for i, hold := range c.holds {
		if err := hold.Err(); err != nil {
			c.t.Errorf("lock %d: %v", i, err)
		}
	}
	c.allHeard(created)
	c.quit()
	c.watchers.Wait()
	for _, cl := range c.clients {
		_ = cl.Close() // the sessions that it cannot close expire
	}
}

// Three nodes become five and three again, under sessions, locks and watches: no session expires or loses its
// promise, no lock changes hands, and no event is lost (J).
func TestThreeNodesBecomeFiveAndThreeAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		c := newCrowd(f, f.memberSessions(), 50)
		watched, wrote := c.watched(), c.writes()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		f.added(cl)
		f.added(cl)
		leads := f.leader()
		f.removedSoon(cl, leads) // the leader goes first
		other := (leads + 1) % 5
		f.removedSoon(cl, other)
		created := wrote()
		gap, least := watched()
		c.kept(created, gap, least)
		members, err := cl.MembersOfLeader(t.Context())
		if err != nil || len(members) != 3 {
			t.Errorf("members: %+v, %v, want 3", members, err)
		}
	})
}

// Every node is replaced by a new node, one by one, including the leader. Clients that knew only the former nodes lose
// nothing (J1 membership in the log, J3 removal).
func TestEveryNodeIsReplaced(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		c := newCrowd(f, f.memberSessions(), 50)
		watched, wrote := c.watched(), c.writes()
		cl := f.operator(0, 1, 2)
		defer func() { _ = cl.Close() }()
		for i := range 3 {
			f.added(cl)
			next := f.operator(i+1, i+2, i+3)
			f.removedSoon(next, i)
			_ = next.Close()
			_ = cl.Close()
			cl = f.operator(i+1, i+2, i+3)
		}
		created := wrote()
		gap, least := watched()
		c.kept(created, gap, least)
		members, err := cl.MembersOfLeader(t.Context())
		if err != nil || len(members) != 3 || members[0].Node != 4 {
			t.Errorf("members: %+v, %v, want nodes 4, 5 and 6", members, err)
		}
		// A number is used once (I7 ids are never reused), also where a node of the number has forgotten everything.
		again := f.place(0)
		if err := cl.AddMember(t.Context(), again); !refusedFor(err, session.MemberUsedUp) {
			t.Errorf("node 1 was added again: %v", err)
		}
	})
}

func refusedFor(err error, cause session.MemberCause) bool {
	e, ok := errors.AsType[*session.MemberRefusedError](err)
	return ok && e.Cause == cause
}

// A dead node is removed, a quorum that would be lost is not, and leadership goes where an operator wants it (J4 quorum
// is kept).
func TestMembersAreRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		to := (f.leader() + 1) % 3
		if err := cl.TransferLeadership(t.Context(), f.peers[to].Node); err != nil {
			t.Fatal(err)
		}
		if leads := f.leader(); leads != to {
			t.Errorf("node %d leads, want node %d", leads+1, to+1)
		}
		for name, err := range map[string]error{
			"unknown":    cl.RemoveMember(t.Context(), 9),
			"no promote": cl.PromoteMember(t.Context(), 9),
			"transfer":   cl.TransferLeadership(t.Context(), 9),
		} {
			if !refusedFor(err, session.MemberUnknown) {
				t.Errorf("%s: %v", name, err)
			}
		}
		absent := session.MemberPlace{Node: 9, Raft: "n9:7401", Peer: "n9:7402", Client: "n9:7400"}
		if err := cl.AddMember(t.Context(), absent); !refusedFor(err, session.MemberSilent) {
			t.Errorf("a node that does not run: %v", err)
		}
		taken := session.MemberPlace{Node: 9, Raft: "n9:7401", Peer: "n9:7402", Client: f.peers[0].Client}
		if err := cl.AddMember(t.Context(), taken); !refusedFor(err, session.MemberKnown) {
			t.Errorf("an address of another: %v", err)
		}
		dead := (to + 1) % 3
		f.stop(dead)
		time.Sleep(5 * time.Second)
		alive := (to + 2) % 3
		if err := cl.RemoveMember(t.Context(), f.peers[alive].Node); !refusedFor(err, session.MemberQuorum) {
			t.Fatalf("the second of three: %v", err) // without a quorum every later call waits for ever
		}
		if err := cl.DemoteMember(t.Context(), f.peers[alive].Node); !refusedFor(err, session.MemberQuorum) {
			t.Fatalf("the vote of the second of three: %v", err)
		}
		if err := cl.RemoveMember(t.Context(), f.peers[dead].Node); err != nil {
			t.Fatal(err)
		}
		f.awaitMember(cl, dead, "its removal", gone)
		// It comes back on its directory, and is never a member again.
		f.nodes[dead] = f.start(dead)
		time.Sleep(time.Minute)
		s, err := f.nodes[dead].Status(context.Background())
		if want := "removed from its cluster for good"; err != nil || s.Ready || !strings.Contains(s.NotReadyBecause, want) {
			t.Errorf("status of the removed node: %q, %v, want %s", s.NotReadyBecause, err, want)
		}
		f.awaitMember(cl, dead, "staying away", gone)
	})
}

// A node that was away while another node was added follows the new node as its leader, although neither its peers nor
// its log name it: another known node does (J1).
func TestJ1ANewMemberLeadsANodeThatWasAway(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer func() { _ = cl.Close() }()
		away := (f.leader() + 1) % 3
		f.stop(away)
		fresh := f.added(cl)
		if err := cl.TransferLeadership(t.Context(), f.peers[fresh].Node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the former leader no longer sends to its followers
		f.configure = func(_ int, cfg *config.Config) { cfg.Peers = f.peers[:fresh] }
		f.nodes[away] = f.start(away)
		f.awaitReady(away)
		if leads := f.leader(); leads != fresh {
			t.Errorf("node %d leads, want %d to keep leading", leads+1, fresh+1)
		}
	})
}

// Two nodes that were away meet each other too, and neither knows of the new member. Their answers do not outweigh
// those of nodes that know, even if they come last each time.
func TestJ1NodesThatWereAwayDoNotMisleadEachOther(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
		const one, two = "n4", "n5"
		f := &fleet{t: t, dir: t.TempDir(), net: simnet.New(func(from, to string) time.Duration {
			if from == one && to == two || from == two && to == one {
				return 3 * time.Millisecond
			}
			return time.Millisecond
		})}
		for i := range 5 {
			f.peers = append(f.peers, whole.PeerOf(i))
		}
		f.begin()
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer func() { _ = cl.Close() }()
		for f.leader() > 2 {
			if err := cl.TransferLeadership(t.Context(), f.peers[0].Node); err != nil {
				t.Fatal(err)
			}
		}
		f.stop(3)
		f.stop(4)
		fresh := f.added(cl)
		if err := cl.TransferLeadership(t.Context(), f.peers[fresh].Node); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute) // the former leader no longer sends to its followers
		f.configure = func(_ int, cfg *config.Config) { cfg.Peers = f.peers[:fresh] }
		begun := time.Now()
		for _, i := range []int{3, 4} {
			f.nodes[i] = f.start(i)
		}
		for _, i := range []int{3, 4} {
			f.awaitReady(i)
		}
		if took := time.Since(begun); took > 10*time.Second { // of virtual time: a greeting, Raft's back-off, a heartbeat
			t.Errorf("they serve after %v", took)
		}
	})
}

// awaitReady waits until a node serves.
func (f *fleet) awaitReady(i int) {
	f.t.Helper()
	for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if s, err := f.nodes[i].Status(context.Background()); err == nil && s.Ready {
			return
		}
	}
	s, err := f.nodes[i].Status(context.Background())
	f.t.Fatalf("node %d does not serve: %q, %v", i+1, s.NotReadyBecause, err)
}
