package succession

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/session"
)

// world is a small cluster of machines, with everything that is under way between them. Node 1 leads term 1, or did.
// Each action works on a copy.
type world struct {
	now time.Duration
	// lives says that node 1 runs and leads, frozen that it does not run for now: its connections stay open, and
	// nothing comes.
	lives, frozen bool
	// frozenAt is when the leader froze, 0 if it runs. The leader's lease ends limit later.
	frozenAt time.Duration
	nodes    []voter
	// letters are questions and answers under way, orders what machines have told Raft to do, looks the looks under
	// way.
	letters []letter
	orders  []order
	looks   []look
	// stood are all decisions to stand.
	stood []order
	// faults is what may still go wrong.
	faults faults
	// last is what happened last. bad is what must not happen.
	last *chapter
	bad  string
}

// chapter is one line of a story, and what happened before.
type chapter struct {
	text   string
	before *chapter
}

// voter is a node: its machine, and what its Raft says. Node 1 has a machine only once it was started again.
type voter struct {
	machine *Machine
	term    uint64
	leader  session.Node
	follows bool
	links   Links
	wake    time.Time
	// cut says that the leader's address refuses this node, and that the leader cannot connect to it.
	cut bool
	// heard is when the node last heard the leader, if it does not hear it now. paused says that its process does not
	// run, behind that it runs again and has not yet read what came meanwhile.
	heard          time.Duration
	paused, behind bool
}

type letter struct {
	from, to session.Node
	number   uint64
	q        Question
	answer   bool
}

type order struct {
	node session.Node
	at   time.Duration
	Campaign
}

type look struct {
	node   session.Node
	number uint64
}

// faults are budgets.
type faults struct{ losses, restarts, resets, silences, pauses, freezes, thaws int }

// limit is the silence after which machines find a leader gone, and the length of the leader's lease.
const limit = 1500 * time.Millisecond

var epoch = time.Unix(1000, 0)

// newWorld returns a cluster that has been calm for long, whose leader lives or has just ended.
func newWorld(s scope) *world {
	w := &world{lives: s.lives, faults: s.faults}
	for i := range s.size {
		v := voter{term: 1, leader: 1, follows: true, links: Links{Open: 1, Opened: 1}}
		v.cut = slices.Contains(s.cut, session.Node(i+1))
		w.nodes = append(w.nodes, v)
	}
	silence := limit
	if s.patient {
		silence = 0
	}
	for i := 1; i < s.size; i++ {
		n, v := session.Node(i+1), &w.nodes[i]
		v.machine = New(n, silence)
		for at := epoch.Add(-2 * limit); at.Before(epoch); at = at.Add(limit / wakesPerLimit) {
			v.machine.Wake(at, w.facts(n))
		}
		if !s.lives || v.cut {
			v.links = Links{Opened: 1, Lost: true}
		}
	}
	for _, n := range w.others() {
		w.wakeUp(n)
	}
	return w
}

func (w *world) time() time.Time          { return epoch.Add(w.now) }
func (w *world) at(n session.Node) *voter { return &w.nodes[n-1] }
func (w *world) tell(f string, of ...any) {
	w.last = &chapter{fmt.Sprintf("%v ", w.now) + fmt.Sprintf(f, of...), w.last}
}

// story returns what happened.
func (w *world) story() string {
	var all []string
	for c := w.last; c != nil; c = c.before {
		all = append(all, c.text)
	}
	slices.Reverse(all)
	return strings.Join(all, "\n")
}
func (w *world) wakeUp(n session.Node) { w.does(n, w.at(n).machine.Wake(w.time(), w.facts(n))) }
func (w *world) others() (n []session.Node) {
	for i := range w.nodes {
		if w.nodes[i].machine != nil {
			n = append(n, session.Node(i+1))
		}
	}
	return n
}

func (w *world) facts(n session.Node) Facts {
	v := w.at(n)
	f := Facts{Term: v.term, Leader: v.leader, Follows: v.follows, Last: func() Entry { return Entry{1, 9} }}
	if !w.hears(n) {
		f.Silence = w.now - v.heard
	}
	for i := range w.nodes {
		f.Voters = append(f.Voters, session.Node(i+1))
	}
	links := v.links
	f.Links = func(of session.Node) Links {
		if of == 1 {
			return links
		}
		return Links{Open: 1, Opened: 1} // other nodes have asked for votes before
	}
	return f
}

// hears reports whether a node hears the leader now.
func (w *world) hears(n session.Node) bool {
	v := w.at(n)
	return w.lives && !w.frozen && !v.cut && !v.paused && !v.behind && v.links.Open > 0 && v.term == 1
}

// change makes a change, and notes when each node that hears the leader no more has heard it last.
func (w *world) change(do func()) {
	var heard []session.Node
	for _, n := range w.others() {
		if w.hears(n) {
			heard = append(heard, n)
		}
	}
	do()
	for _, n := range heard {
		if !w.hears(n) {
			w.at(n).heard = w.now
		}
	}
}

// reached reports whether a majority, the leader included, reaches a leader that lives and runs. A node whose process
// does not run will hear it.
func (w *world) reached() bool {
	n := 0
	for _, v := range w.nodes {
		if !v.cut {
			n++
		}
	}
	return w.lives && !w.frozen && n > len(w.nodes)/2
}

// clone copies a world.
func (w *world) clone() *world {
	c := *w
	w = &c
	w.nodes = slices.Clone(w.nodes)
	for i := range w.nodes {
		if m := w.nodes[i].machine; m != nil {
			c := *m
			c.run.canvassedAt, c.run.backed = slices.Clone(m.run.canvassedAt), maps.Clone(m.run.backed)
			w.nodes[i].machine = &c
		}
	}
	w.letters, w.orders, w.looks = slices.Clone(w.letters), slices.Clone(w.orders), slices.Clone(w.looks)
	w.stood = slices.Clone(w.stood)
	return w
}

// does notes what a machine returned.
func (w *world) does(n session.Node, e Effects) {
	if e.Probe != nil {
		w.looks = append(w.looks, look{n, e.Probe.Number})
		w.tell("%d looks", n)
	}
	if e.Canvass != nil {
		for _, to := range e.Canvass.Voters {
			if w.at(to).machine == nil { // it has ended, or leads
				continue
			}
			w.letters = append(w.letters, letter{from: n, to: to, number: e.Canvass.Number, q: e.Canvass.Question})
		}
		w.tell("%d asks %v", n, e.Canvass.Voters)
	}
	if e.Campaign != nil {
		w.tell("%d is to stand in term %d, backed by %v: %v", n, e.Campaign.Term, e.Campaign.Backers, e.Campaign.Evidence)
		w.decides(order{n, w.now, *e.Campaign})
	}
	w.at(n).wake = e.Wake
}

// decides notes a decision to stand, and what is wrong with it.
func (w *world) decides(o order) {
	if w.reached() {
		w.bad = fmt.Sprintf("%d stands although a majority reaches the leader", o.node)
	}
	if w.frozen && w.now-w.frozenAt < limit && o.Evidence == Silent {
		w.bad = fmt.Sprintf("%d stands %v after the leader froze, within its lease", o.node, w.now-w.frozenAt)
	}
	for _, a := range w.stood {
		if a.node != o.node && a.Term == o.Term && o.at-a.at < Bond-counts {
			w.bad = fmt.Sprintf("%d and %d stand in term %d within %v", a.node, o.node, o.Term, o.at-a.at)
		}
	}
	w.orders, w.stood = append(w.orders, o), append(w.stood, o)
}

// after returns the world after an action.
func (w *world) after(do func(w *world)) *world {
	w = w.clone()
	w.change(func() { do(w) })
	return w
}

// restart starts a node's process again: what it knew is gone, except its term.
func (w *world) restart(n session.Node) {
	v := w.at(n)
	silence := time.Duration(0)
	if v.machine != nil {
		silence = v.machine.silence
	}
	*v = voter{machine: New(n, silence), term: v.term, follows: true, cut: v.cut, heard: w.now}
	w.letters = slices.DeleteFunc(w.letters, func(l letter) bool { return l.answer && l.to == n })
	w.orders = slices.DeleteFunc(w.orders, func(o order) bool { return o.node == n })
	w.looks = slices.DeleteFunc(w.looks, func(l look) bool { return l.node == n })
	w.tell("%d starts again", n)
	w.wakeUp(n)
}

func (w *world) deliver(l letter) {
	v := w.at(l.to)
	if l.answer {
		w.tell("%d hears that %d backs it", l.to, l.from)
		w.does(l.to, v.machine.Backed(w.time(), w.facts(l.to), l.number, l.from))
		return
	}
	backs, e := v.machine.OnQuestion(w.time(), w.facts(l.to), l.from, l.q)
	w.tell("%d is asked by %d, backs it: %v", l.to, l.from, backs)
	w.does(l.to, e)
	if backs { // nobody waits for a no
		w.letters = append(w.letters, letter{from: l.to, to: l.from, number: l.number, answer: true})
	}
}

// obey has Raft stand.
func (w *world) obey(o order) {
	if !o.Current(w.facts(o.node)) {
		w.tell("%d does not stand after all", o.node)
		return
	}
	if w.reached() {
		w.bad = fmt.Sprintf("%d obeys and stands although a majority reaches the leader", o.node)
	}
	v := w.at(o.node)
	v.term, v.follows, v.leader = v.term+1, false, 0
	w.tell("%d stands in term %d", o.node, v.term)
	w.wakeUp(o.node)
}

// due returns the next moment at which a running machine wants to be woken, w.now if there is none. While no machine
// runs, time passes in steps of half the limit of silence.
func (w *world) due() time.Duration {
	at, runs := w.now, false
	for _, n := range w.others() {
		if w.at(n).paused {
			continue
		}
		runs = true
		if wake := w.at(n).wake; !wake.IsZero() {
			if d := wake.Sub(epoch); d > w.now && (at == w.now || d < at) {
				at = d
			}
		}
	}
	if !runs {
		return w.now + limit/2
	}
	return at
}
