package watch

import "holdfast/tree"

// Event is an event for one connection.
type Event struct {
	tree.Event
	// Once says that the event ends a one-shot watch. Such an event must reach the connection, even when others are
	// dropped (V6 LOST).
	Once bool
}

// Fire calls f for each event of a change, and removes the one-shot watches that the events end. Fire ignores changes
// up to the dispatcher's own index (V2 each event once).
//
// A connection gets an event once, however many of its watches match. The event of a created or deleted entry
// comes before the event of its parent's changed children. A connection gets no event that its principals may not read
// (V8 events need READ), and keeps its one-shot watches then. ZooKeeper removes such watches, and its client cannot
// know.
//
// f must not use the table.
func (t *Table[C]) Fire(c *tree.Change, f func(to *Connection[C], e Event)) {
	if c.Stamp.Index() <= t.index {
		return
	}
	t.deliver(notice{event: eventOf(c), acl: c.ACL}, f)
	if e, ok := parentEventOf(c); ok {
		t.deliver(notice{event: e, acl: c.Parent}, f)
	}
}

// notice is an event with the access list of its entry.
type notice struct {
	event tree.Event
	acl   *tree.ACL
	// public says that everybody may read the entry.
	public bool
}

// may reports whether principals may receive the event (V8).
func (n *notice) may(principals []tree.Principal) bool {
	return n.public || readable(n.acl, principals)
}

// readable reports whether an access list lets principals read. Without a list, no principal may read.
func readable(acl *tree.ACL, principals []tree.Principal) bool {
	return acl != nil && acl.Grants(tree.Read, principals)
}

// deliver delivers an event to the watches of its path, and to recursive watches of the paths above.
func (t *Table[C]) deliver(n notice, f func(*Connection[C], Event)) {
	n.public = readable(n.acl, nil)
	t.round++
	// The path itself comes first: f then learns that the event ends a one-shot watch.
	t.deliverAt(&n, n.event.Path, receivers(n.event.Kind), f)
	if n.event.Kind == tree.ChildrenChanged || t.recursives == 0 {
		return
	}
	depth := tree.Depth(n.event.Path)
	for path := tree.Parent(n.event.Path); path != ""; path = tree.Parent(path) {
		if depth--; t.recursiveAt[depth] > 0 {
			t.deliverAt(&n, path, recursive, f)
		}
	}
}

// deliverAt delivers an event to the watches of the kinds on a path.
func (t *Table[C]) deliverAt(n *notice, path string, kinds Kinds, f func(*Connection[C], Event)) {
	found := t.find(path)
	if found == 0 {
		return
	}
	var next uint32
	for at := t.paths.at(found).first; at != 0; at = next {
		r := t.records.at(at)
		next = r.nextOfPath
		c := *t.connections.at(r.connection)
		matching := r.kinds & kinds
		if matching == 0 || !n.may(c.principals) {
			continue
		}
		once := matching & OneShot
		if once != 0 {
			t.drop(at, once)
		}
		if c.deliveredIn != t.round {
			c.deliveredIn = t.round
			f(c, Event{Event: n.event, Once: once != 0})
		}
	}
}
