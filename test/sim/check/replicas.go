package check

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// replicas judges I5, I6 and I7.
type replicas struct{ judge }

// check checks what nodes applied.
//
//   - I5: the end of a session is one entry on every node: same index, term, cause, owner, attachment and certificate.
//     All changes at one index are compared as a whole for I6.
//   - I6: at one index all nodes have one digest, and have made the same changes in the same order. This includes nodes
//     that made no change.
//   - I7: an id is opened by one entry, and given to one client. The ids of one node rise in the order of the log,
//     whatever restarts, snapshots and clocks do.
func (c replicas) check(events []history.Event) {
	digests := make(map[uint64]history.Event)
	opened, ended := make(map[session.ID]history.Event), make(map[session.ID]history.Event)
	given, attached := make(map[session.ID]history.Event), make(map[uint64]history.Event)
	for _, e := range events {
		switch e.Kind { //nolint:exhaustive // the other kinds are not about replicas
		case history.Digest:
			c.same("I6", digests, e.Index, e)
		case history.AppliedOpen:
			c.once("I7", opened, e.ID, e)
			c.attached(attached, e)
		case history.AppliedEnd:
			c.once("I5", ended, e.ID, e)
		case history.AppliedMove:
			c.attached(attached, e)
		case history.Opened:
			// The repeat of a request gets the same answer as the first (O2 idempotent opens).
			if g, ok := given[e.ID]; ok && (g.Who != e.Who || g.Sent != e.Sent) {
				c.fail("I7", e.ID, e.At, "given to two opens: %s; and %s", history.Line(g), history.Line(e))
			}
			given[e.ID] = e
		}
	}
	c.rising(unlisted(opened, c.locals))
	c.changes(events)
}

// same fails when e's digest is not the digest of the first event at its index.
func (c replicas) same(invariant string, first map[uint64]history.Event, index uint64, e history.Event) {
	f, ok := first[index]
	if !ok {
		first[index] = e
		return
	}
	if f.Who != e.Who {
		c.checked(invariant)
	}
	if f.Text != e.Text {
		c.fail(invariant, 0, e.At, "at index %d %s has digest %s, %s has %s", index, f.Who, f.Text, e.Who, e.Text)
	}
}

// once fails when two entries did to an id what may be done once, or when nodes did it differently.
func (c replicas) once(invariant string, first map[session.ID]history.Event, id session.ID, e history.Event) {
	f, ok := first[id]
	if !ok {
		first[id] = e
		return
	}
	if f.Who != e.Who {
		c.checked(invariant)
	}
	if !alike(f, e) {
		c.fail(invariant, id, e.At, "%s twice, or not alike: %s; and %s", e.Kind, history.Line(f), history.Line(e))
	}
}

// alike reports whether two nodes, or a node before and after a restart, made the same change.
func alike(a, b history.Event) bool {
	if (a.Certificate == nil) != (b.Certificate == nil) ||
		a.Certificate != nil && !a.Certificate.Equal(*b.Certificate) {
		return false
	}
	return a.Kind == b.Kind && a.ID == b.ID && a.Index == b.Index && a.Term == b.Term && a.Attachment == b.Attachment &&
		a.Cause == b.Cause && a.Node == b.Node && a.Timeout == b.Timeout
}

// attached fails when one attachment was given to two sessions or by two entries.
func (c replicas) attached(first map[uint64]history.Event, e history.Event) {
	f, ok := first[e.Attachment]
	if !ok {
		first[e.Attachment] = e
		return
	}
	if f.ID != e.ID || f.Index != e.Index {
		c.fail("I6", e.ID, e.At, "one attachment given twice: %s; and %s", history.Line(f), history.Line(e))
	}
}

// unlisted returns the opens that are not upgrades. The ids of upgrades were claimed before they were opened.
func unlisted(opened map[session.ID]history.Event, locals map[session.ID]*local) map[session.ID]history.Event {
	others := maps.Clone(opened)
	maps.DeleteFunc(others, func(id session.ID, _ history.Event) bool { return locals[id] != nil })
	return others
}

// rising checks that the ids of each node rise in the order of the log. Within an entry, attachments give the order of
// its commands.
func (c replicas) rising(opened map[session.ID]history.Event) {
	all := make([]history.Event, 0, len(opened))
	for _, e := range opened {
		all = append(all, e)
	}
	slices.SortFunc(all, func(a, b history.Event) int {
		return cmp.Or(cmp.Compare(a.Index, b.Index), cmp.Compare(a.Attachment, b.Attachment))
	})
	newest := make(map[session.Node]history.Event)
	for _, e := range all {
		n := e.ID.Node()
		if before, ok := newest[n]; ok {
			c.checked("I7 order")
			if e.ID <= before.ID {
				c.fail("I7", e.ID, e.At,
					"opened after a session of the same node with the same or a higher id: %s", history.Line(before))
			}
		}
		newest[n] = e
	}
}

// entry is the changes that one process made by one entry.
type entry struct {
	who     string
	changes []history.Event
}

// log is the changes that all processes made by all entries.
type log struct {
	c replicas
	// first holds for each index the changes of the first process, made the nodes that made changes.
	first map[uint64]entry
	made  map[uint64][]string
	// under holds for each node the entry whose changes may be incomplete.
	under map[string]*entry
}

// changes checks that all processes made the same changes by each entry.
func (c replicas) changes(events []history.Event) {
	l := log{c: c, first: make(map[uint64]entry), made: make(map[uint64][]string), under: make(map[string]*entry)}
	for _, e := range events {
		switch e.Kind { //nolint:exhaustive // the other kinds are not changes
		case history.NodeStarted, history.NodeStopped:
			l.done(e.Who)
		case history.AppliedOpen, history.AppliedMove, history.AppliedEnd:
			l.change(e)
		}
	}
	for _, who := range slices.Sorted(maps.Keys(l.under)) {
		l.done(who)
	}
	for _, e := range events {
		if e.Kind == history.Digest {
			l.idle(e)
		}
	}
}

// change records a change by an entry.
func (l *log) change(e history.Event) {
	if u := l.under[e.Who]; u != nil && u.changes[0].Index != e.Index {
		l.done(e.Who)
	}
	if l.under[e.Who] == nil {
		l.under[e.Who] = &entry{who: e.Who}
	}
	u := l.under[e.Who]
	u.changes = append(u.changes, e)
}

// done compares the changes of a node by an entry.
func (l *log) done(who string) {
	e := l.under[who]
	delete(l.under, who)
	if e == nil {
		return
	}
	index := e.changes[0].Index
	l.made[index] = append(l.made[index], who)
	f, ok := l.first[index]
	if !ok {
		l.first[index] = *e
		return
	}
	l.c.checked("I6 changes")
	if !slices.EqualFunc(f.changes, e.changes, alike) {
		l.c.fail("I6", e.changes[0].ID, e.changes[0].At, "at index %d %s made\n%s\nand %s\n%s", index, f.who,
			f.lines(), who, e.lines())
	}
}

// idle checks that a node whose digest shows that it applied an index made the same changes as the others.
func (l *log) idle(e history.Event) {
	f, ok := l.first[e.Index]
	if !ok || slices.Contains(l.made[e.Index], e.Who) {
		return
	}
	l.made[e.Index] = append(l.made[e.Index], e.Who)
	l.c.fail("I6", f.changes[0].ID, e.At, "%s changed nothing at index %d, where %s made\n%s", e.Who,
		e.Index, f.who, f.lines())
}

func (e *entry) lines() string {
	all := make([]string, len(e.changes))
	for i := range e.changes {
		all[i] = history.Line(e.changes[i])
	}
	return strings.Join(all, "\n")
}
