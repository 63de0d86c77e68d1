//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/test/timeout"
	"holdfast/tree"
)

const (
	// membersEach is how many sessions each of the first three nodes has. Every tenth holds a lock and watches.
	membersEach = 200
	// membersTimeout is long enough that a busy machine does not make a promise lapse.
	membersTimeout = 3 * minTimeout
	// membersPath has the entries that are written during the changes.
	membersPath = "/changes"
	// joins is what a node logs that waits for an operator.
	joins = "holdfast cluster add %d"
)

// TestMembersInContainers changes the members of a cluster as operators do, with the command line: three nodes become
// five and three again, a dead node and the leader are removed, and a former node is replaced by a new one with an
// empty disk. In the end none of the first three is a member. No session expires, and none is without a promise but
// those of the killed node for a while. No lock changes hands, no ephemeral goes, and every watch hears of every entry
// once.
func TestMembersInContainers(t *testing.T) {
	t.Parallel()
	m := newChanging(t)
	all, stop := m.populate()
	leader := m.c.awaitBusy(healWithin, m.members...)
	dead := m.c.follower(leader)

	m.add(4)
	m.holdfast("cluster", "promote", "4")
	m.add(5)
	m.holdfast("cluster", "promote", "5")
	m.serve()
	m.holdfast("cluster", "demote", "5")
	m.holdfast("cluster", "promote", "5")
	m.l.noneLapsed(all)

	hit := m.l.ownedBy(all, time.Now(), dead)
	m.c.kill(dead)
	m.remove(dead)
	m.l.awaitOwners(healWithin, all, m.members...)
	m.usedUp(dead)

	if now := m.serve(); now != leader {
		m.holdfast("cluster", "transfer-leader", fmt.Sprint(leader))
		m.serve()
	}
	m.remove(leader)
	m.stop(leader)
	m.holdfast("cluster", "transfer-leader", "4")
	if now := m.serve(); now != 4 || len(m.members) != 3 {
		t.Errorf("node %d of %v leads, want node 4 of three", now, m.members)
	}
	last := 1 + 2 + 3 - dead - leader
	m.add(6)
	m.holdfast("cluster", "promote", "6")
	m.remove(last)
	m.stop(last)
	m.serve()
	if !slices.Equal(m.members, []int{4, 5, 6}) {
		t.Errorf("the members are %v, want 4, 5 and 6", m.members)
	}

	m.l.awaitOwners(healWithin, all, m.members...)
	m.judge(all, stop())
	m.l.noneLapsed(slices.DeleteFunc(slices.Clone(all), func(a *account) bool { return slices.Contains(hit, a) }))
	count(t, "sessions of the killed node", "", len(hit))
	m.returns(dead)
}

// changing is a cluster whose members change, with what its clients hold.
type changing struct {
	c       *cluster
	l       *ledger
	members []int
	holds   []*recipes.Hold
	watches []*following
}

func newChanging(t *testing.T) *changing {
	t.Helper()
	m := &changing{c: planned(t, 3, "joining.yaml"), members: []int{1, 2, 3}}
	m.c.compose = append(m.c.compose, "--profile", "five")
	t.Cleanup(func() { m.c.nodes = 6; m.c.down() })
	m.up(m.members...)
	m.c.awaitServing(healWithin, m.members...)
	m.l = m.c.newLedger()
	return m
}

// up starts nodes on empty volumes. Those that join have themselves and the present members in their peers.
func (m *changing) up(nodes ...int) {
	m.c.t.Helper()
	var peers []string
	for _, n := range slices.Compact(slices.Sorted(slices.Values(slices.Concat(m.members, nodes)))) {
		peers = append(peers, fmt.Sprintf("%d=%s.peers@%s", n, service(n), m.c.address(n)))
	}
	m.c.env = append(m.c.env, "JOINING_PEERS="+strings.Join(peers, ","))
	args := append(slices.Clone(m.c.compose), "up", "-d", "--no-deps")
	for _, n := range nodes {
		args = append(args, service(n))
	}
	if _, err := command(m.c.env, args...); err != nil {
		m.c.t.Fatal(err)
	}
}

// holdfast runs the command line against the present members. The command waits for the change that it asks for.
func (m *changing) holdfast(args ...string) string {
	m.c.t.Helper()
	out, err := m.tries(args...)
	if err != nil {
		m.c.t.Fatalf("%v\n%s", err, out)
	}
	return out
}

func (m *changing) tries(args ...string) (string, error) {
	return command([]string{"HOLDFAST_ENDPOINTS=" + strings.Join(m.c.endpoints(m.members...), ",")},
		append([]string{holdfastProgram}, args...)...)
}

// add starts a node on an empty disk, and has it taken in.
func (m *changing) add(n int) {
	m.c.t.Helper()
	m.up(n)
	m.c.await(healWithin, fmt.Sprintf("node %d waits", n), func() (bool, string) {
		logs := m.c.logs(n)
		return strings.Contains(logs, fmt.Sprintf(joins, n)), tail(logs, 5)
	})
	m.holdfast("cluster", "add", fmt.Sprint(n), service(n)+".peers", "--client-address", m.c.address(n))
	m.members = append(m.members, n)
	m.serve()
}

// remove has a member removed for good. The others decide it.
func (m *changing) remove(n int) {
	m.c.t.Helper()
	m.members = slices.DeleteFunc(m.members, func(one int) bool { return one == n })
	m.holdfast("cluster", "remove", fmt.Sprint(n), "--yes")
	m.serve()
}

// stop ends a node that was removed, in order.
func (m *changing) stop(n int) {
	m.c.t.Helper()
	m.c.stop(n, "-t", "25")
	if got := must(m.c.t, "docker", "inspect", "-f", "{{.State.ExitCode}}", m.c.container(n)); got != "0" {
		m.c.t.Errorf("node %d ended with %s, want 0", n, got)
	}
}

// serve waits until all members serve with the same leader, and know of these members alone. It returns the leader.
func (m *changing) serve() (leader int) {
	m.c.t.Helper()
	leader = m.c.awaitBusy(healWithin, m.members...)
	m.c.await(healWithin, fmt.Sprintf("the members are %v", m.members), func() (bool, string) {
		ctx, cancel := context.WithTimeout(m.c.t.Context(), healWithin)
		defer cancel()
		all, err := m.c.watcher(m.members...).MembersOfLeader(ctx)
		var got []int
		for _, one := range all {
			got = append(got, int(one.Node))
		}
		slices.Sort(got)
		return err == nil && slices.Equal(got, slices.Sorted(slices.Values(m.members))), fmt.Sprint(got, err)
	})
	return leader
}

// usedUp checks that the number of a removed node is used up (I7 ids are never reused).
func (m *changing) usedUp(n int) {
	m.c.t.Helper()
	out, err := m.tries("cluster", "add", fmt.Sprint(n), service(n)+".peers", "--client-address", m.c.address(n))
	if err == nil || !strings.Contains(err.Error(), "a node of this number was removed") {
		m.c.t.Errorf("node %d is added again: %v\n%s", n, err, out)
	}
}

// returns starts a node on its disk that was removed while it was dead. It says so, and does not serve.
func (m *changing) returns(n int) {
	m.c.t.Helper()
	m.c.start(n)
	m.c.await(healWithin, fmt.Sprintf("node %d says that it was removed", n), func() (bool, string) {
		logs := m.c.logs(n)
		return strings.Contains(logs, "removed from its cluster for good"), tail(logs, 5)
	})
	if s, err := m.c.status(n); err == nil && s.Ready {
		m.c.t.Errorf("node %d was removed, and serves: %+v", n, s)
	}
	m.serve()
}

// following is a watch with the entries that it was told of, in their order.
type following struct {
	at    *account
	told  chan string
	ended chan error
}

// populate opens the sessions, each with an ephemeral, and has some hold locks and watch. Then entries are written,
// until stop is called. That returns their paths, in their order.
func (m *changing) populate() (all []*account, stop func() []string) {
	t := m.c.t
	t.Helper()
	all = m.l.settled(membersEach, membersTimeout, m.members...)
	ctx, cancel := context.WithTimeout(t.Context(), treeOpWithin)
	defer cancel()
	of := all[0].session.Tree()
	for _, path := range []string{membersPath, "/held"} {
		_, err := of.Create(ctx, path, nil, client.CreateOptions{})
		timeout.Check(t, err)
	}
	each(len(all), openers, func(i int) {
		s := all[i].session
		if _, err := s.Tree().Create(ctx, "/held/"+s.ID().String(), nil,
			client.CreateOptions{Kind: tree.Ephemeral}); err != nil {
			t.Error(err)
		}
	})
	for i, a := range all {
		if i%10 != 0 {
			continue
		}
		hold, err := recipes.NewLock(a.session, m.lock(len(m.holds))).TryLock(ctx)
		timeout.Check(t, err)
		m.holds = append(m.holds, hold)
		m.follow(a)
	}
	return all, m.write(of)
}

func (m *changing) lock(i int) string { return fmt.Sprintf("/locks/%d", i) }

// follow begins a watch of a session.
func (m *changing) follow(a *account) {
	t := m.c.t
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	f := &following{at: a, told: make(chan string, 1<<16), ended: make(chan error, 1)}
	began := make(chan struct{})
	go func() {
		defer close(f.ended)
		for e, err := range a.session.Tree().Watch(ctx, membersPath, tree.WatchRecursive) {
			switch {
			case ctx.Err() != nil:
				return
			case err != nil:
				f.ended <- err
				return
			case e.Started:
				close(began)
			case e.Lost:
				f.told <- "events are lost"
			default:
				f.told <- e.Path
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-f.ended })
	m.watches = append(m.watches, f)
	select {
	case <-began:
	case err := <-f.ended:
		t.Fatalf("the watch of session %s: %v", a.session.ID(), err)
	case <-time.After(treeOpWithin):
		timeout.Fatalf(t, "no watch begins within %v", treeOpWithin)
	}
}

// write creates entries below membersPath, one after the other, until stop is called.
func (m *changing) write(of *client.Tree) (stop func() []string) {
	quit, done := make(chan struct{}), make(chan []string, 1)
	m.c.t.Cleanup(func() {
		select {
		case <-quit:
		default:
			close(quit)
		}
	})
	go func() {
		var made []string
		defer func() { done <- made }()
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			ctx, cancel := context.WithTimeout(context.Background(), treeOpWithin)
			path := fmt.Sprintf("%s/%d", membersPath, len(made))
			_, err := of.Create(ctx, path, nil, client.CreateOptions{})
			if cancel(); err != nil {
				m.c.t.Errorf("create %s: %v", path, err)
				return
			}
			made = append(made, path)
			select {
			case <-quit:
				return
			case <-tick.C:
			}
		}
	}()
	return func() []string { close(quit); return <-done }
}

// judge checks that all sessions have what they held, and that each watch has heard of all entries, in their order.
func (m *changing) judge(all []*account, made []string) {
	t := m.c.t
	t.Helper()
	m.c.awaitServing(healWithin, m.members...) // nobody writes any more
	count(t, "entries, of which each watch heard", "", len(made))
	var unheard []error
	for _, f := range m.watches {
		unheard = append(unheard, f.hears(made))
	}
	ctx, cancel := context.WithTimeout(t.Context(), treeOpWithin)
	defer cancel()
	rival := m.rival(ctx)
	for i, hold := range m.holds {
		if err := hold.Err(); err != nil {
			t.Errorf("lock %d is held no longer: %v", i, err)
		}
		if _, err := recipes.NewLock(rival, m.lock(i)).TryLock(ctx); !errors.Is(err, recipes.ErrBusy) {
			t.Errorf("lock %d, for another: %v, want %v", i, err, recipes.ErrBusy)
		}
	}
	there := make(map[string]bool)
	for e, err := range rival.Tree().List(ctx, "/held", client.Listing{}) {
		timeout.Check(t, err)
		there[e.Name] = true
	}
	for _, a := range all {
		if !there[a.session.ID().String()] {
			t.Errorf("session %s has lost its ephemeral (I12)", a.session.ID())
		}
	}
	if len(there) != len(all) {
		t.Errorf("there are %d ephemerals, want %d", len(there), len(all))
	}
	timeout.Check(t, timeout.Join(unheard...))
}

// hears checks that the watch hears of all entries in their order, and of nothing else.
func (f *following) hears(made []string) error {
	late := time.NewTimer(healWithin)
	defer late.Stop()
	for i, want := range made {
		var got string
		select {
		case got = <-f.told:
		case err := <-f.ended:
			got = fmt.Sprintf("the end of the watch: %v", err)
		case <-late.C:
			return fmt.Errorf("the watch of session %s waits for event %d: %w", f.at.session.ID(), i,
				context.DeadlineExceeded)
		}
		if got != want {
			return fmt.Errorf("the watch of session %s: event %d is %s, want %s", f.at.session.ID(), i, got, want)
		}
	}
	if more := len(f.told); more > 0 {
		return fmt.Errorf("the watch of session %s heard %d events too many", f.at.session.ID(), more)
	}
	return nil
}

// rival opens a session of a new client, which knows the present members alone.
func (m *changing) rival(ctx context.Context) *client.Session {
	m.c.t.Helper()
	x, err := client.New(m.c.config(m.members...))
	timeout.Check(m.c.t, err)
	m.l.clients = append(m.l.clients, x)
	s, err := x.Open(ctx, client.SessionOptions{Timeout: membersTimeout})
	timeout.Check(m.c.t, err)
	return m.l.hold(s).session
}
