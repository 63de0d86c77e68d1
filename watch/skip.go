package watch

import (
	"cmp"
	"slices"

	"holdfast/tree"
)

// Skip is for a lane that goes on at the root of index without the changes since its own: a snapshot was restored, or
// the ring has overtaken it (V6). lost is called for every connection with persistent or recursive watches: it is to be
// told LOST, by [Feed.Lose] with the arguments after the connection. Then each one-shot watch is judged as by
// [Table.Resume], and f called for the events in the order of their stamps.
//
// A [Feed] parts the LOST for each event of a one-shot. Without LOST in front of it, a client that has a lasting watch
// too hears the event of a one-shot, and nothing of the changes before it. If its connection breaks then, it comes back
// from that event. With all of the LOST in front, it comes back from there, and the one-shot never fires.
func (t *Table[C]) Skip(index uint64, view View, f func(to *Connection[C], e Event),
	lost func(c *Connection[C], first, last tree.Stamp),
) {
	from, lane := End(t.index), End(index)
	t.each(func(c *Connection[C]) {
		if c.lasting > 0 {
			lost(c, from+1, lane)
		}
	})
	for _, fired := range t.judgeAll(span{from, lane}, view) {
		c := *t.connections.at(t.records.at(fired.record).connection)
		t.drop(fired.record, fired.kinds)
		f(c, Event{Event: fired.event, Once: true})
	}
	t.index = index
}

// judged is an event that ends one-shot watches of a record.
type judged struct {
	event  tree.Event
	record uint32
	kinds  Kinds
}

// judgeAll returns the events that one-shot watches are owed for a span, in the order of their stamps. A record whose
// kinds are owed the same event has it once.
func (t *Table[C]) judgeAll(away span, view View) (owed []judged) {
	t.each(func(c *Connection[C]) {
		for n := c.first; n != 0; n = t.records.at(n).nextOfConnection {
			owed = t.judgeRecord(owed, n, away, view)
		}
	})
	slices.SortStableFunc(owed, func(a, b judged) int { return cmp.Compare(a.event.Stamp, b.event.Stamp) })
	return owed
}

// judgeRecord appends what the one-shot watches of a record are owed.
func (t *Table[C]) judgeRecord(owed []judged, n uint32, away span, view View) []judged {
	r := t.records.at(n)
	if r.kinds&OneShot == 0 {
		return owed
	}
	c, path := *t.connections.at(r.connection), t.paths.at(r.path).path
	if acl := view.Effective(path); !readable(&acl, c.principals) {
		return owed
	}
	before := len(owed)
	for _, kind := range []tree.WatchKind{tree.WatchData, tree.WatchExists, tree.WatchChild} {
		if r.kinds&Of(kind) == 0 {
			continue
		}
		e, ok := judge(Watch{Path: path, Kind: kind}, away, view)
		if !ok {
			continue
		}
		same := slices.IndexFunc(owed[before:], func(j judged) bool { return j.event == e })
		if same >= 0 {
			owed[before+same].kinds |= Of(kind)
			continue
		}
		owed = append(owed, judged{event: e, record: n, kinds: Of(kind)})
	}
	return owed
}
