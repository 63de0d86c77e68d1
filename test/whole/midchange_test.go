package whole_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// die ends a node like a crash: its host is gone, and it transfers nothing.
func (f *fleet) die(i int) {
	f.t.Helper()
	f.net.Kill(f.host(i))
	_ = f.nodes[i].Stop() // with the error of its ports
}

// within calls an operator's command again until it is done: a repeat waits on.
func (f *fleet) within(what string, d time.Duration, do func(context.Context) error) {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), d)
	defer cancel()
	var err error
	for ctx.Err() == nil {
		if err = do(ctx); err == nil {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("%s: not within %v: %v", what, d, err)
}

// agree waits until all nodes but some know the same members, and one of them leads.
func (f *fleet) agree(but ...int) {
	f.t.Helper()
	var said []string
	for range 600 {
		said = said[:0]
		same, leads := true, 0
	nodes:
		for i, n := range f.nodes {
			for _, b := range but {
				if b == i {
					continue nodes
				}
			}
			s := ""
			for _, m := range n.Members() {
				s += fmt.Sprintf("%d/%v/%v/%v ", m.Node, m.Voter, m.Observer, m.Leaving)
			}
			if said = append(said, s); s != said[0] {
				same = false
			}
			if n.Leads() {
				leads++
			}
		}
		if same && leads == 1 {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("the nodes do not agree on the members: %q", said)
}

// midChange is a change of the members in the middle of which the leader dies.
type midChange struct {
	name string
	// begin prepares, and returns the node that is changed.
	begin func(f *fleet, cl *client.Client) int
	do    func(ctx context.Context, f *fleet, cl *client.Client, i int) error
	// done reports whether the member is in its final state.
	done func(*client.Member) bool
}

func midChanges() []midChange {
	return []midChange{
		{
			"add",
			func(f *fleet, _ *client.Client) int { i := f.join(); time.Sleep(time.Second); return i },
			func(ctx context.Context, f *fleet, cl *client.Client, i int) error {
				return cl.AddMember(ctx, f.place(i))
			}, observes,
		},
		{
			"promote",
			func(f *fleet, cl *client.Client) int { return f.observer(cl) },
			func(ctx context.Context, f *fleet, cl *client.Client, i int) error {
				return cl.PromoteMember(ctx, f.peers[i].Node)
			}, votes,
		},
		{
			"demote",
			func(f *fleet, cl *client.Client) int { return f.added(cl) },
			func(ctx context.Context, f *fleet, cl *client.Client, i int) error {
				return cl.DemoteMember(ctx, f.peers[i].Node)
			}, observes,
		},
		{
			"remove",
			func(f *fleet, cl *client.Client) int { return f.added(cl) },
			func(ctx context.Context, f *fleet, cl *client.Client, i int) error {
				return cl.RemoveMember(ctx, f.peers[i].Node)
			}, gone,
		},
		{
			"remove the leader",
			func(f *fleet, cl *client.Client) int { f.added(cl); return f.leader() },
			func(ctx context.Context, f *fleet, cl *client.Client, i int) error {
				return cl.RemoveMember(ctx, f.peers[i].Node)
			}, gone,
		},
	}
}

// The leader dies at some moment of a change: before it is committed, between two steps, or just before the end. The
// next leader completes the change, the operator's repeat is no second change, and all nodes agree (J1 membership in
// the log).
func TestTheLeaderDiesInTheMiddleOfAChange(t *testing.T) {
	for _, of := range midChanges() {
		for _, after := range []time.Duration{
			0, 2 * time.Millisecond, 5 * time.Millisecond, 11 * time.Millisecond, 40 * time.Millisecond, 300 * time.Millisecond,
			700 * time.Millisecond, 1100 * time.Millisecond, 1600 * time.Millisecond,
		} {
			t.Run(fmt.Sprintf("%s after %v", of.name, after), func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) { diesAfter(t, of, after) })
			})
		}
	}
}

func diesAfter(t *testing.T, of midChange, after time.Duration) {
	t.Helper()
	f := simulated(t, 3)
	defer f.end()
	cl := f.operator(0, 1, 2)
	defer cl.Close()
	i := of.begin(f, cl)
	leads := f.leader()
	if leads == i {
		f.agree()
	} else {
		f.agree(i) // it may be no member yet
	}
	kept, err := cl.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	began := make(chan error, 1)
	go func() { began <- of.do(t.Context(), f, cl, i) }()
	time.Sleep(after)
	f.die(leads)
	begun := <-began
	f.within(of.name, time.Minute, func(ctx context.Context) error { return of.do(ctx, f, cl, i) })
	f.awaitMember(cl, i, of.name, of.done)
	not := []int{leads} // it stays away
	if leads != i {
		f.nodes[leads] = f.start(leads)
		f.awaitReady(leads)
		not = nil
	}
	if of.done(nil) {
		not = append(not, i)
		if err := cl.AddMember(t.Context(), f.place(i)); !refusedFor(err, session.MemberUsedUp) {
			t.Errorf("a removed node was added again: %v", err)
		}
	}
	f.agree(not...)
	if _, err := cl.Get(t.Context(), kept.ID()); err != nil {
		t.Errorf("the session: %v", err)
	}
	t.Logf("the change that was begun: %v", begun)
}

// The settings of a removed node no longer count: otherwise every other node would warn about them, and an alert would
// fire, until each of them is restarted.
func TestSettingsOfARemovedNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		cl := f.operator(0, 1, 2)
		defer cl.Close()
		f.configure = func(_ int, c *config.Config) { c.Raft.StallTimeout += time.Second }
		i := f.observer(cl)
		warned := func() (nodes int) {
			for _, n := range f.nodes[:3] {
				s, err := n.Status(context.Background())
				if err != nil {
					t.Fatal(err)
				}
				if strings.Contains(s.Warning, "settings differ") {
					nodes++
				}
			}
			return nodes
		}
		for end := time.Now().Add(time.Minute); warned() < 3; time.Sleep(time.Second) {
			if time.Now().After(end) {
				t.Fatalf("%d nodes warn of the settings of a member, want 3", warned())
			}
		}
		f.removed(cl, i)
		time.Sleep(time.Minute)
		if got := warned(); got != 0 {
			t.Errorf("%d nodes warn of the settings of a node that was removed", got)
		}
	})
}

// For a dead node that is to be removed, the wait is shorter than for a node with clients: after a few attempts without
// an answer it is gone (J3 removal). An operator who allows hours for drains does not wait for hours.
func TestJ3ADeadNodeIsNotWaitedFor(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		f.configure = func(_ int, c *config.Config) { c.Clients.DrainTimeout = time.Hour }
		for i := range 3 {
			f.die(i)
			f.nodes[i] = f.start(i)
		}
		dead := (f.leader() + 1) % 3
		f.die(dead)
		cl := f.operator((dead+1)%3, (dead+2)%3)
		defer cl.Close()
		f.within("the removal of a dead node", time.Minute, func(ctx context.Context) error {
			return cl.RemoveMember(ctx, f.peers[dead].Node)
		})
		f.awaitMember(cl, dead, "its removal", gone)
	})
}
