package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/sim/history"
)

// newcomers is how many nodes may be added to a cluster.
const newcomers = 2

// leastVoters is how many voters an operator leaves: of fewer, one that is away for long is too many.
const leastVoters = 3

// roll is an operator's knowledge of the members of a cluster. Its methods may be called on nil, for a cluster whose
// members stay. Safe for concurrent use.
type roll struct {
	mu sync.Mutex
	// nodes are the nodes, by their number less one, up to the newest. guarded by mu
	nodes []memberState
}

// memberState is the state of a node.
type memberState struct {
	// member: the node is a member, with a vote or without. busy: it is being changed.
	member, voter, busy bool
	// gone: the node was removed, and is not started any more.
	gone bool
}

func newRoll(founders int) *roll {
	r := &roll{nodes: make([]memberState, founders)}
	for i := range r.nodes {
		r.nodes[i] = memberState{member: true, voter: true}
	}
	return r
}

func nameOf(i int) string { return fmt.Sprintf("n%d", i+1) }

// indexOf is the index of a node by its name.
func (w *world) indexOf(name string) int { return slices.Index(w.names, name) }

// runs reports whether a supervisor keeps a node running.
func (r *roll) runs(name string) bool {
	if r == nil {
		return true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.nodes {
		if nameOf(i) == name {
			return !s.gone
		}
	}
	return false
}

// in returns the indexes of the members, nil where all nodes are.
func (r *roll) in() (all []int) {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, s := range r.nodes {
		if s.member {
			all = append(all, i)
		}
	}
	return all
}

// join adds a new node, if there may be one more.
func (r *roll) join(most int) (i int, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.nodes) >= most {
		return 0, false
	}
	r.nodes = append(r.nodes, memberState{busy: true})
	return len(r.nodes) - 1, true
}

// pick returns a member to demote or to remove: one, or the first that can be spared. It is busy then.
func (r *roll) pick(one int, voter bool) (i int, ok bool) { //nolint:revive // flag-parameter: the kind of member
	r.mu.Lock()
	defer r.mu.Unlock()
	voters := 0
	for _, s := range r.nodes {
		if s.voter && !s.busy {
			voters++
		}
	}
	for _, at := range append([]int{one}, r.indexes()...) {
		if at >= len(r.nodes) {
			continue
		}
		s := &r.nodes[at]
		if s.member && !s.busy && !s.gone && (s.voter && voters > leastVoters || !s.voter && !voter) {
			s.busy = true
			return at, true
		}
	}
	return 0, false
}

func (r *roll) indexes() []int {
	all := make([]int, len(r.nodes))
	for i := range all {
		all[i] = i
	}
	return all
}

func (r *roll) set(i int, s memberState) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.nodes[i] = s
}

// asks repeats an operator's call until it is done, beside the fault that makes it.
func (w *world) asks(what string, call func(ctx context.Context) error) <-chan struct{} {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.until(what, call, func() bool { return false })
	}()
	return done
}

// awaitMember waits until the leader's list says what ok requires of a node; nil means no member.
func (w *world) awaitMember(o *client.Client, what string, i int, ok func(*session.Member) bool) {
	w.until(what, func(ctx context.Context) error {
		all, err := o.MembersOfLeader(ctx)
		if err != nil {
			return err
		}
		var found *session.Member
		for _, m := range all {
			if int(m.Node) == i+1 {
				found = &session.Member{Node: m.Node, Voter: m.Voter}
			}
		}
		if !ok(found) {
			return fmt.Errorf("the leader lists %+v", found)
		}
		return nil
	}, func() bool { return false })
}

func (w *world) wants(kind history.Kind, i int, what string) {
	w.record.Add(history.Event{Kind: kind, Who: nameOf(i), Node: session.Node(i + 1), Text: what})
}

// Operators' requests about members, and the answers, in the judges' words.
const added, removed, voter, observer = "added", "removed", "voter", "observer"

// Add implements faults.Registrar.
//
//nolint:revive // flag-parameter: what the operator wants
func (w *world) Add(promote bool) (name string, done func() bool) {
	i, ok := w.roll.join(len(w.names))
	if !ok {
		return "", nil
	}
	o, name, number := w.operator(), nameOf(i), session.Node(i+1)
	w.Start(name)
	w.wants(history.Wanted, i, added)
	place := session.MemberPlace{Node: number, Raft: name + ":7401", Peer: name + ":7402", Client: name + ":7400"}
	sent := w.asks("add "+name, func(ctx context.Context) error { return o.AddMember(ctx, place) })
	return name, func() bool {
		defer o.Close()
		<-sent
		w.wants(history.Changed, i, added)
		if promote {
			w.promote(o, i)
		}
		w.roll.set(i, memberState{member: true, voter: promote})
		return true
	}
}

// promote gives a member a vote, and waits until it has it.
func (w *world) promote(o *client.Client, i int) {
	w.wants(history.Wanted, i, voter)
	w.until("promote "+nameOf(i), func(ctx context.Context) error {
		return o.PromoteMember(ctx, session.Node(i+1))
	}, never)
	w.awaitMember(o, "a vote of "+nameOf(i), i, func(m *session.Member) bool { return m != nil && m.Voter })
}

func never() bool { return false }

// Demote implements faults.Registrar.
func (w *world) Demote(one string) (name string, done func() bool) {
	i, ok := w.roll.pick(w.indexOf(one), true)
	if !ok {
		return "", nil
	}
	o, name, number := w.operator(), nameOf(i), session.Node(i+1)
	sent := w.asks("demote "+name, func(ctx context.Context) error { return o.DemoteMember(ctx, number) })
	return name, func() bool {
		defer o.Close()
		<-sent
		w.awaitMember(o, "no vote of "+name, i, func(m *session.Member) bool { return m != nil && !m.Voter })
		w.wants(history.Changed, i, observer)
		sleep(context.Background(), lookEvery)
		w.promote(o, i)
		w.roll.set(i, memberState{member: true, voter: true})
		return true
	}
}

// Remove implements faults.Registrar.
func (w *world) Remove(one string, size float64) (name string, done func() bool) {
	i, ok := w.roll.pick(w.indexOf(one), false)
	if !ok {
		return "", nil
	}
	o, name, number := w.operator(), nameOf(i), session.Node(i+1)
	w.wants(history.Wanted, i, removed)
	sent := w.asks("remove "+name, func(ctx context.Context) error { return o.RemoveMember(ctx, number) })
	return name, func() bool {
		defer o.Close()
		<-sent
		w.awaitMember(o, "the removal of "+name, i, func(m *session.Member) bool { return m == nil })
		w.wants(history.Changed, i, removed)
		w.roll.set(i, memberState{busy: true})
		sleep(context.Background(), time.Duration(size*float64(10*time.Second)))
		w.roll.set(i, memberState{gone: true})
		w.retire(name)
		return true
	}
}

// retire ends the process of a node that was removed, which another fault may just have killed or started.
func (w *world) retire(name string) {
	for p := w.life(name); p != nil; p = w.life(name) {
		p.mu.Lock()
		over := p.over
		p.mu.Unlock()
		if over || w.Stop(name) {
			return
		}
		sleep(context.Background(), 100*time.Millisecond)
	}
}

// Transfer implements faults.Registrar.
func (w *world) Transfer(name string) (done func() bool) {
	o, number := w.operator(), session.Node(w.indexOf(name)+1)
	if !slices.Contains(w.roll.in(), w.indexOf(name)) {
		number = 0
	}
	sent := begun(func() error {
		return once(func(ctx context.Context) error { return o.TransferLeadership(ctx, number) })
	})
	return func() bool {
		defer o.Close()
		return <-sent == nil
	}
}

// finds records the members that the node finds as the leader of a term.
func (p *process) finds(term uint64, all []session.Member) {
	p.note(history.Event{Kind: history.Configured, Who: p.name, Term: term, Members: all})
}

// registers makes an operator read the leader's list all the time, until ctx ends.
func (w *world) registers(ctx context.Context) *sync.WaitGroup {
	if w.roll == nil {
		return &sync.WaitGroup{}
	}
	name := w.guest("op")
	o := w.operatorAt(name)
	observe := func() {
		sent := w.record.Now()
		var all []client.Member
		err := once(func(ctx context.Context) (err error) { all, err = o.MembersOfLeader(ctx); return err })
		if err != nil {
			return
		}
		e := history.Event{Kind: history.Listed, Who: name, Sent: sent}
		for _, m := range all {
			e.Members = append(e.Members, session.Member{Node: m.Node, Voter: m.Voter})
		}
		w.record.Add(e)
	}
	all := w.everySecond(ctx, observe)
	context.AfterFunc(ctx, func() { all.Wait(); _ = o.Close() })
	return all
}
