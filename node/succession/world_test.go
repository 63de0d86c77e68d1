package succession

import (
	"cmp"
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
	// lives says that node 1 runs and leads.
	lives bool
	nodes []voter
	// letters are questions and answers under way, orders what machines have told Raft to do, looks the looks under way.
	letters []letter
	orders  []order
	looks   []look
	// stood are all decisions to stand.
	stood []order
	// faults is what may still go wrong.
	faults faults
	// story is what happened.
	story []string
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
}

type letter struct {
	from, to session.Node
	number   uint64
	q        Question
	answer   bool
	backs    bool
}

type order struct {
	node session.Node
	at   time.Duration
	Stand
}

type look struct {
	node   session.Node
	number uint64
}

// faults are budgets.
type faults struct{ losses, restarts, resets, silences int }

var epoch = time.Unix(1000, 0)

// newWorld returns a cluster that has been calm for long, whose leader lives or has just ended.
func newWorld(s scope) *world {
	w := &world{lives: s.lives, faults: s.faults}
	size, lives, cut := s.size, s.lives, s.cut
	for i := range size {
		v := voter{term: 1, leader: 1, follows: true, links: Links{Open: 1, Opened: 1}}
		v.cut = slices.Contains(cut, session.Node(i+1))
		w.nodes = append(w.nodes, v)
	}
	for i := 1; i < size; i++ {
		v := &w.nodes[i]
		v.machine = New(session.Node(i+1), 0)
		v.machine.Wake(epoch.Add(-time.Hour), w.facts(session.Node(i+1)))
		if !lives || v.cut {
			v.links = Links{Opened: 1, Lost: true}
		}
	}
	for i := 1; i < size; i++ {
		w.wakeUp(session.Node(i + 1))
	}
	return w
}

func (w *world) time() time.Time          { return epoch.Add(w.now) }
func (w *world) at(n session.Node) *voter { return &w.nodes[n-1] }
func (w *world) tell(f string, of ...any) {
	w.story = append(w.story, fmt.Sprintf("%v ", w.now)+fmt.Sprintf(f, of...))
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

// clone copies a world.
func (w *world) clone() *world {
	c := *w
	w = &c
	w.nodes = slices.Clone(w.nodes)
	for i := range w.nodes {
		if m := w.nodes[i].machine; m != nil {
			c := *m
			c.run.asked, c.run.backed = slices.Clone(m.run.asked), maps.Clone(m.run.backed)
			w.nodes[i].machine = &c
		}
	}
	w.letters, w.orders, w.looks = slices.Clone(w.letters), slices.Clone(w.orders), slices.Clone(w.looks)
	w.stood, w.story = slices.Clone(w.stood), slices.Clone(w.story)
	return w
}

// does notes what a machine returned.
func (w *world) does(n session.Node, e Effects) {
	if e.Look != nil {
		w.looks = append(w.looks, look{n, e.Look.Number})
		w.tell("%d looks", n)
	}
	if e.Canvass != nil {
		for _, to := range e.Canvass.Voters {
			w.letters = append(w.letters, letter{from: n, to: to, number: e.Canvass.Number, q: e.Canvass.Question})
		}
		w.tell("%d asks %v", n, e.Canvass.Voters)
	}
	if e.Stand != nil {
		o := order{n, w.now, *e.Stand}
		w.orders, w.stood = append(w.orders, o), append(w.stood, o)
		w.tell("%d is to stand in term %d, backed by %v", n, e.Stand.Term, e.Stand.Backers)
	}
	w.at(n).wake = e.Wake
}

// after returns the world after an action.
func (w *world) after(do func(w *world)) *world {
	w = w.clone()
	do(w)
	return w
}

// next returns every action that is possible in w.
func (w *world) next() (all []func(w *world)) {
	try := func(do func(w *world)) { all = append(all, do) }
	for i, l := range w.looks {
		for _, found := range w.findings(l.node) {
			try(func(w *world) {
				w.looks = slices.Delete(w.looks, i, i+1)
				w.tell("%d hears: %v", l.node, found)
				w.does(l.node, w.at(l.node).machine.Found(w.time(), w.facts(l.node), l.number, found))
			})
		}
	}
	for i, l := range w.letters {
		try(func(w *world) { w.letters = slices.Delete(w.letters, i, i+1); w.deliver(l) })
		if w.faults.losses > 0 {
			try(func(w *world) {
				w.letters = slices.Delete(w.letters, i, i+1)
				w.faults.losses--
				w.tell("lost: %+v", l)
			})
		}
	}
	for i, o := range w.orders {
		try(func(w *world) { w.orders = slices.Delete(w.orders, i, i+1); w.obey(o) })
	}
	for _, n := range w.others() {
		w.happen(n, try)
	}
	if at := w.due(); at > w.now && !w.answering() {
		try(func(w *world) {
			w.now = at
			for _, n := range w.others() {
				if wake := w.at(n).wake; !wake.IsZero() && !wake.After(w.time()) {
					w.wakeUp(n)
				}
			}
		})
	}
	return all
}

// answering reports whether a living leader is about to answer a look. It answers within Patience: a majority that
// waits for a living leader for longer may elect another.
func (w *world) answering() bool {
	return w.lives && slices.ContainsFunc(w.looks, func(l look) bool { return !w.at(l.node).cut })
}

// findings returns what a look of a node may find.
func (w *world) findings(n session.Node) []Finding {
	switch {
	case w.lives && !w.at(n).cut:
		return []Finding{Leading}
	case w.nodes[0].machine != nil:
		return []Finding{NotLeading}
	case w.faults.silences > 0:
		return []Finding{Refused, Unclear}
	default:
		return []Finding{Refused}
	}
}

// happen tries what may happen at a node by itself.
func (w *world) happen(n session.Node, try func(func(w *world))) {
	v := w.at(n)
	if w.faults.restarts > 0 {
		try(func(w *world) { w.faults.restarts--; w.restart(n) })
	}
	for _, o := range w.stood { // a node votes for a candidate, or hears that it leads
		if o.node != n && w.at(o.node).term > o.Term && v.term <= o.Term {
			try(func(w *world) {
				*w.at(n) = voter{w.at(n).machine, o.Term + 1, 0, true, w.at(n).links, w.at(n).wake, w.at(n).cut}
				w.tell("%d votes for %d in term %d", n, o.node, o.Term+1)
				w.wakeUp(n)
			})
		}
	}
	if !w.lives {
		return
	}
	if w.faults.resets > 0 && v.links.Open > 0 {
		try(func(w *world) {
			w.faults.resets--
			w.at(n).links = Links{Opened: v.links.Opened, Lost: true}
			w.tell("the leader's connections to %d are reset", n)
			w.wakeUp(n)
		})
	}
	if !v.cut && v.links.Open == 0 {
		try(func(w *world) {
			w.at(n).links = Links{Open: 1, Opened: v.links.Opened + 1}
			w.at(n).leader = 1
			w.tell("the leader connects to %d", n)
			w.wakeUp(n)
		})
	}
}

// restart starts a node's process again: what it knew is gone, except its term.
func (w *world) restart(n session.Node) {
	v := w.at(n)
	*v = voter{machine: New(n, 0), term: v.term, follows: true, cut: v.cut}
	w.letters = slices.DeleteFunc(w.letters, func(l letter) bool { return l.answer && l.to == n })
	w.orders = slices.DeleteFunc(w.orders, func(o order) bool { return o.node == n })
	w.looks = slices.DeleteFunc(w.looks, func(l look) bool { return l.node == n })
	w.tell("%d starts again", n)
	w.wakeUp(n)
}

func (w *world) deliver(l letter) {
	v := w.at(l.to)
	switch {
	case v.machine == nil: // it has ended, or leads
	case l.answer && l.backs:
		w.tell("%d hears that %d backs it", l.to, l.from)
		w.does(l.to, v.machine.Backed(w.time(), w.facts(l.to), l.number, l.from))
	case l.answer:
	default:
		backs, e := v.machine.Asked(w.time(), w.facts(l.to), l.from, l.q)
		w.tell("%d is asked by %d, backs it: %v", l.to, l.from, backs)
		w.does(l.to, e)
		w.letters = append(w.letters, letter{from: l.to, to: l.from, number: l.number, answer: true, backs: backs})
	}
}

// obey has Raft stand.
func (w *world) obey(o order) {
	if !o.Current(w.facts(o.node)) {
		w.tell("%d does not stand after all", o.node)
		return
	}
	v := w.at(o.node)
	v.term, v.follows, v.leader = v.term+1, false, 0
	w.tell("%d stands in term %d", o.node, v.term)
	w.wakeUp(o.node)
}

// due returns the next moment at which a machine wants to be woken, w.now if there is none.
func (w *world) due() time.Duration {
	at := w.now
	for _, n := range w.others() {
		if wake := w.at(n).wake; !wake.IsZero() {
			if d := wake.Sub(epoch); d > w.now && (at == w.now || d < at) {
				at = d
			}
		}
	}
	return at
}

// wrong returns what no history may show, "" for nothing.
func (w *world) wrong() string {
	reached := 1
	for _, v := range w.nodes[1:] {
		if !v.cut {
			reached++
		}
	}
	for i, a := range w.stood {
		if w.lives && reached > len(w.nodes)/2 {
			return fmt.Sprintf("%d stands although a majority reaches the leader", a.node)
		}
		for _, b := range w.stood[i+1:] {
			if a.node != b.node && a.Term == b.Term && b.at-a.at < Bond-counts {
				return fmt.Sprintf("%d and %d stand in term %d within %v", a.node, b.node, a.Term, b.at-a.at)
			}
		}
	}
	return ""
}

// key names a world up to a shift in time.
func (w *world) key() string {
	var b strings.Builder
	since := func(t time.Time) time.Duration {
		if t.IsZero() {
			return -time.Hour
		}
		return max(t.Sub(w.time()), -2*time.Second)
	}
	for i := range w.nodes {
		v := &w.nodes[i]
		fmt.Fprint(&b, v.term, v.leader, v.follows, v.links, v.cut, since(v.wake), "|")
		if m := v.machine; m != nil {
			fmt.Fprint(&b, m.term, m.leader, m.heard, m.bond.to, since(m.bond.until), m.sight.of, m.sight.view,
				since(m.sight.since), since(m.sight.again), m.sight.wait, m.sight.opened, m.run.phase, since(m.run.began),
				since(m.run.next), m.run.retry, len(m.run.asked))
			for _, n := range slices.Sorted(maps.Keys(m.run.backed)) {
				fmt.Fprint(&b, n, since(m.run.backed[n]))
			}
		}
		b.WriteByte('\n')
	}
	letters := slices.Clone(w.letters)
	slices.SortFunc(letters, func(a, b letter) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	for _, l := range letters {
		fresh := true
		if m := w.nodes[l.to-1].machine; l.answer && m != nil {
			fresh = m.run.newest-l.number < uint64(len(m.run.asked))
		}
		fmt.Fprint(&b, l.from, l.to, l.answer, l.backs, fresh, l.q.Term, ";")
	}
	for _, o := range w.stood {
		fmt.Fprint(&b, o.node, o.Term, max(o.at-w.now, -Bond), ";")
	}
	fmt.Fprint(&b, len(w.orders), len(w.looks), w.faults, w.now >= Span)
	return b.String()
}
