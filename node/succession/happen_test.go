package succession

import (
	"slices"
	"time"

	"holdfast/session"
)

// next returns every action that is possible in w.
func (w *world) next() (all []func(w *world)) {
	try := func(do func(w *world)) { all = append(all, do) }
	for i, l := range w.looks {
		if w.at(l.node).paused || w.waits(l.node) {
			continue
		}
		for _, found := range w.findings(l.node) {
			try(func(w *world) {
				w.looks = slices.Delete(w.looks, i, i+1)
				w.tell("%d hears: %v", l.node, found)
				w.does(l.node, w.at(l.node).machine.Found(w.time(), w.facts(l.node), l.number, found))
			})
		}
	}
	for i, l := range w.letters {
		if w.at(l.to).paused {
			continue
		}
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
		if w.at(o.node).paused {
			continue
		}
		try(func(w *world) { w.orders = slices.Delete(w.orders, i, i+1); w.obey(o) })
	}
	for _, n := range w.others() {
		w.happen(n, try)
	}
	w.leader(try)
	if at := w.due(); at > w.now && !w.answering() {
		try(func(w *world) { w.pass(at) })
	}
	return all
}

// waits reports whether a look waits for a leader that does not run.
func (w *world) waits(n session.Node) bool { return w.lives && w.frozen && !w.at(n).cut }

// leader tries what may happen to the leader.
func (w *world) leader(try func(func(w *world))) {
	if w.lives && !w.frozen && w.faults.freezes > 0 {
		try(func(w *world) { w.faults.freezes--; w.frozen, w.frozenAt = true, w.now; w.tell("the leader freezes") })
	}
	if w.frozen && w.faults.thaws > 0 {
		try(func(w *world) { w.faults.thaws--; w.frozen, w.frozenAt = false, 0; w.tell("the leader goes on") })
	}
}

// pass lets time pass until a moment, and wakes the nodes that run.
func (w *world) pass(at time.Duration) {
	w.now = at
	for _, n := range w.others() {
		if wake := w.at(n).wake; !w.at(n).paused && !wake.IsZero() && !wake.After(w.time()) {
			w.wakeUp(n)
		}
	}
}

// answering reports whether a node is about to read what came, or a living leader to answer a look. The leader answers
// within Patience: a majority that waits for a living leader for longer may elect another.
func (w *world) answering() bool {
	if slices.ContainsFunc(w.nodes, func(v voter) bool { return v.behind }) {
		return true
	}
	return w.lives && !w.frozen && slices.ContainsFunc(w.looks, func(l look) bool {
		return !w.at(l.node).cut && !w.at(l.node).paused
	})
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

// votes has a node vote in a term.
func (w *world) votes(n session.Node, term uint64) {
	v := w.at(n)
	v.term, v.leader, v.follows, v.heard = term, 0, true, w.now
}

// happen tries what may happen at a node by itself.
func (w *world) happen(n session.Node, try func(func(w *world))) {
	v := w.at(n)
	if v.paused {
		try(func(w *world) {
			w.at(n).paused, w.at(n).behind = false, true
			w.tell("%d goes on", n)
			w.wakeUp(n)
		})
		return
	}
	if v.behind {
		try(func(w *world) { w.at(n).behind = false; w.tell("%d has read what came", n); w.wakeUp(n) })
	}
	if w.faults.pauses > 0 {
		try(func(w *world) { w.faults.pauses--; w.at(n).paused = true; w.tell("%d does not run", n) })
	}
	if w.faults.restarts > 0 {
		try(func(w *world) { w.faults.restarts--; w.restart(n) })
	}
	for _, o := range w.stood { // a node votes for a candidate, or hears that it leads
		if o.node != n && w.at(o.node).term > o.Term && v.term <= o.Term {
			try(func(w *world) {
				w.votes(n, o.Term+1)
				w.tell("%d votes for %d in term %d", n, o.node, o.Term+1)
				w.wakeUp(n)
			})
		}
	}
	if !w.lives || w.frozen {
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
