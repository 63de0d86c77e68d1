package watch

import "holdfast/tree"

// Event is an event that a connection is told.
type Event struct {
	tree.Event
	// Once says that a one-shot watch ends with the event. It must then reach the connection, whatever becomes of others
	// (V6).
	Once bool
}

// Fire calls f for each event that a change makes, and removes the one-shot watches that end with it. A change of an
// index up to the lane's own makes none (V2).
//
// A connection hears of an event once, however many of its watches match. It hears of a created or deleted entry
// first, and then, if it watches the parent, of the changed children. It hears of nothing that it may not read (V8),
// and that leaves its one-shot watches in place. ZooKeeper removes them then, and the client cannot know.
//
// f must not use the table.
func (t *Table[C]) Fire(c *tree.Change, f func(to *Connection[C], e Event)) {
	if c.Stamp.Index() <= t.index {
		return
	}
	t.tell(notice{event: eventOf(c), acl: c.ACL}, f)
	if e, ok := parentEventOf(c); ok {
		t.tell(notice{event: e, acl: c.Parent}, f)
	}
}

// notice is an event, and the access list of the entry that it is about.
type notice struct {
	event tree.Event
	acl   *tree.ACL
	// public says that everybody may read the entry.
	public bool
}

// may reports whether principals may hear of the event (V8).
func (n *notice) may(principals []tree.Principal) bool {
	return n.public || readable(n.acl, principals)
}

// readable reports whether an access list lets principals read. No list lets nobody.
func readable(acl *tree.ACL, principals []tree.Principal) bool {
	return acl != nil && acl.Grants(tree.Read, principals)
}

// tell tells the watches of an event's path, and those of the paths above, of the event.
func (t *Table[C]) tell(n notice, f func(*Connection[C], Event)) {
	n.public = readable(n.acl, nil)
	t.round++
	// The path itself comes first: an event that ends a one-shot watch is then told as such.
	t.tellAt(&n, n.event.Path, hearing(n.event.Kind), f)
	if n.event.Kind == tree.ChildrenChanged || t.recursives == 0 {
		return
	}
	depth := tree.Depth(n.event.Path)
	for path := tree.Parent(n.event.Path); path != ""; path = tree.Parent(path) {
		if depth--; t.recursiveAt[depth] > 0 {
			t.tellAt(&n, path, recursive, f)
		}
	}
}

// tellAt tells those of the watches on a path that are of the kinds.
func (t *Table[C]) tellAt(n *notice, path string, kinds Kinds, f func(*Connection[C], Event)) {
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
		if c.told != t.round {
			c.told = t.round
			f(c, Event{Event: n.event, Once: once != 0})
		}
	}
}
