package watch

import (
	"cmp"
	"slices"

	"holdfast/tree"
)

// Skip is for a dispatcher that continues at the root of index without the changes since its own root: a snapshot was
// restored, or the ring has dropped changes that the dispatcher had not read (V6 LOST). Skip calls lost for every
// connection with persistent or recursive watches; the caller sends LOST by [Feed.Lose], with the arguments after the
// connection. Then Skip checks each one-shot watch as [Table.Resume] does, and calls f for the events in the order of
// their stamps.
//
// A [Feed] splits the LOST around each one-shot event. Suppose that a client has a one-shot and a lasting watch.
// Without a LOST before the one-shot event, the client gets the event but not the changes before it, and a client that
// then reconnects resumes after them. With the whole LOST before the event, the client resumes after the LOST, and the
// one-shot watch never fires.
func (t *Table[C]) Skip(index uint64, view View, f func(to *Connection[C], e Event),
	lost func(c *Connection[C], first, last tree.Stamp),
) {
	from, root := End(t.index), End(index)
	t.each(func(c *Connection[C]) {
		if c.lasting > 0 {
			lost(c, from+1, root)
		}
	})
	for _, fired := range t.findAllMissed(span{from, root}, view) {
		c := *t.connections.at(t.records.at(fired.record).connection)
		t.drop(fired.record, fired.kinds)
		f(c, Event{Event: fired.event, Once: true})
	}
	t.index = index
}

// recordEvent is an event that ends one-shot watches of a record.
type recordEvent struct {
	event  tree.Event
	record uint32
	kinds  Kinds
}

// findAllMissed returns the events that one-shot watches have missed in a span, in the order of their stamps. A record
// gets one event for all its kinds that missed the same event.
func (t *Table[C]) findAllMissed(away span, view View) (missed []recordEvent) {
	t.each(func(c *Connection[C]) {
		for n := c.first; n != 0; n = t.records.at(n).nextOfConnection {
			missed = t.appendMissed(missed, n, away, view)
		}
	})
	slices.SortStableFunc(missed, func(a, b recordEvent) int { return cmp.Compare(a.event.Stamp, b.event.Stamp) })
	return missed
}

// appendMissed appends the events that the one-shot watches of a record have missed.
func (t *Table[C]) appendMissed(missed []recordEvent, n uint32, away span, view View) []recordEvent {
	r := t.records.at(n)
	if r.kinds&OneShot == 0 {
		return missed
	}
	c, path := *t.connections.at(r.connection), t.paths.at(r.path).path
	if acl := view.Effective(path); !readable(&acl, c.principals) {
		return missed
	}
	before := len(missed)
	for _, kind := range []tree.WatchKind{tree.WatchData, tree.WatchExists, tree.WatchChild} {
		if r.kinds&Of(kind) == 0 {
			continue
		}
		e, ok := findMissed(Watch{Path: path, Kind: kind}, away, view)
		if !ok {
			continue
		}
		same := slices.IndexFunc(missed[before:], func(j recordEvent) bool { return j.event == e })
		if same >= 0 {
			missed[before+same].kinds |= Of(kind)
			continue
		}
		missed = append(missed, recordEvent{event: e, record: n, kinds: Of(kind)})
	}
	return missed
}
