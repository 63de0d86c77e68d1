package watch_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/watch"
)

// interval is the stamps above after, up to and with through.
type interval struct{ after, through tree.Stamp }

func holds(in []interval, s tree.Stamp) bool {
	return slices.ContainsFunc(in, func(i interval) bool { return s > i.after && s <= i.through })
}

// client is a client with one connection at a time, and all events that it has received.
type client struct {
	t          *testing.T
	node       *node
	name       string
	principals []tree.Principal
	connection *watch.Connection[*client]
	feed       *watch.Feed[message]
	unsent     int // persistent and recursive events, as a plain count

	watches []*expected
	pending []watch.Watch // registered, and the answer not yet read
	removed []watch.Watch
	// s is the stamp to come back from; resuming while the answer to a resumption is awaited (V4 resumed watches).
	s        tree.Stamp
	resuming bool
	// open has the events above s, which may be told again on the next connection; again those that may be now.
	open, again []tree.Event
	last, told  tree.Stamp // of this connection
	mayLose     bool
	lost, away  []interval
	heard       int
	losts       int
}

// expected is a watch of a client, and its received events.
type expected struct {
	watch.Watch
	since tree.Stamp
	got   []tree.Event
	fired bool
}

func (c *client) fatalf(format string, args ...any) {
	c.t.Helper()
	c.t.Fatalf("%s: %s", c.name, fmt.Sprintf(format, args...))
}

func (c *client) push(e watch.Event) {
	if e.Once {
		c.feed.AddOneShot(e.Stamp, message{event: e.Event})
		return
	}
	c.feed.AddEvent(e.Stamp, message{event: e.Event, lossy: true}, len(e.Path))
	if c.unsent++; c.unsent > c.node.feeds.Events || c.unsent*len("/a/b/c") > c.node.feeds.Bytes {
		c.mayLose = true
	}
}

// connect makes a new connection, on which the client continues with all its watches.
func (c *client) connect() {
	if c.connection != nil {
		c.node.table.Close(c.connection)
	}
	n := c.node
	c.connection, c.feed = opens(n.table, c, c.principals), watch.NewFeed[message](n.feeds)
	c.unsent, c.last, c.told, c.again = 0, 0, 0, slices.Clone(c.open)
	c.pending = nil
	c.mayLose = false
	if len(c.watches) == 0 {
		c.s, c.resuming, c.open, c.again = max(c.s, n.servedStamp()), false, nil, nil
		return
	}
	r := watch.Resumption{From: c.s}
	for _, w := range c.watches {
		r.Watches = append(r.Watches, w.Watch)
	}
	for n.servedStamp() < c.s { // the dispatcher first reaches what the client has seen
		n.pass()
	}
	if c.s < n.ring.Start() {
		c.mayLose = true
	}
	c.resuming = true
	c.away = append(c.away, interval{c.s, n.servedStamp()})
	lost, err := n.table.Resume(c.connection, r, n.served, n.ring, c.push)
	if err != nil {
		c.fatalf("resume: %v", err)
	}
	if lost {
		c.feed.Lose(c.s+1, n.servedStamp())
	}
	c.feed.Answer(n.servedStamp(), message{answer: &reply{resumed: true}})
}

// add reads an entry, and watches it: one critical section of the dispatcher (G2 atomic reads).
func (c *client) add() {
	n := c.node
	w := watch.Watch{Path: one(n.random, append(historyPaths, "/")), Kind: one(n.random, allKinds)}
	_, is := n.served.Stat(w.Path)
	if acl := n.served.Effective(w.Path); w.Kind.OneShot() {
		switch {
		case !is:
			w.Kind = tree.WatchExists
		case !acl.Grants(tree.Read, c.principals):
			return // a read is refused, and watches nothing
		case w.Kind == tree.WatchExists:
			w.Kind = tree.WatchData
		}
	}
	has := slices.ContainsFunc(c.watches, func(e *expected) bool { return e.Watch == w })
	if has || slices.Contains(c.pending, w) || c.resuming {
		return
	}
	c.pending = append(c.pending, w)
	if err := n.table.Add(c.connection, w.Path, w.Kind); err != nil {
		c.fatalf("add: %v", err)
	}
	added := &expected{Watch: w, since: n.servedStamp()}
	c.feed.Answer(n.servedStamp(), message{answer: &reply{added: added}})
}

// remove removes a watch that the client has.
func (c *client) remove() {
	if len(c.watches) == 0 {
		return
	}
	i := c.node.random.IntN(len(c.watches))
	w := c.watches[i].Watch
	c.node.table.Remove(c.connection, w.Path, watch.Of(w.Kind)) // none is left if its event is under way
	c.watches = slices.Delete(c.watches, i, i+1)
	c.removed = append(c.removed, w)
}

// read receives at most n messages from the connection.
func (c *client) read(n int) {
	for range n {
		s, ok := c.feed.Next(time.Time{}, c.node.servedStamp(), nil)
		if !ok {
			break
		}
		if s.Delivered < c.told || s.Delivered > c.node.servedStamp() {
			c.fatalf("told %v after %v, dispatcher is at %v", s.Delivered, c.told, c.node.servedStamp())
		}
		c.told = s.Delivered
		switch {
		case s.Lost:
			c.lose(s.Stamp)
		case s.Value.answer != nil:
			c.answered(*s.Value.answer)
		default:
			if s.Value.lossy {
				c.unsent--
			}
			c.hear(s.Value.event)
		}
		c.rise(c.told)
	}
	if c.feed.Len() == 0 && !c.resuming {
		if stamp, due := c.feed.Due(time.Unix(1, 0), c.node.servedStamp()); due {
			c.told = stamp
			c.rise(stamp)
		}
	}
}

// rise makes s the stamp to come back from, and checks that no event up to there is missing.
func (c *client) rise(s tree.Stamp) {
	if c.resuming || s <= c.s {
		return
	}
	c.s = s
	c.open = slices.DeleteFunc(c.open, func(e tree.Event) bool { return e.Stamp <= s })
	c.verify(s)
}

func (c *client) lose(s tree.Stamp) {
	if !c.mayLose {
		c.fatalf("LOST{%v} without a cause", s)
	}
	if s < c.last {
		c.fatalf("LOST{%v} after an event of %v", s, c.last)
	}
	c.losts++
	c.unsent = min(c.unsent, c.node.feeds.Events) // those that gave way are unsent no more
	c.last = s + 1                                // what comes later is above s
	c.lost = append(c.lost, interval{c.s, s})
}

func (c *client) answered(r reply) {
	switch {
	case r.resumed:
		c.resuming, c.again = false, nil
	case r.added != nil:
		c.watches = append(c.watches, r.added)
		c.pending = slices.DeleteFunc(c.pending, func(w watch.Watch) bool { return w == r.added.Watch })
	}
}

// hear records an event, unless it was received on an earlier connection.
func (c *client) hear(e tree.Event) {
	if e.Stamp < c.last {
		c.fatalf("%+v after stamp %v", e, c.last)
	}
	c.last = e.Stamp
	if i := slices.Index(c.again, e); i >= 0 {
		c.again = slices.Delete(c.again, i, i+1)
		return
	}
	if e.Stamp > c.s {
		c.open = append(c.open, e)
	}
	c.heard++
	known := slices.ContainsFunc(c.removed, func(w watch.Watch) bool { return hears(w.Path, w.Kind, e) })
	c.watches = slices.DeleteFunc(c.watches, func(w *expected) bool {
		if !hears(w.Path, w.Kind, e) {
			return false
		}
		known = true
		w.got = append(w.got, e)
		if w.Kind.OneShot() {
			w.fired = true
			c.justified(w, e)
			c.removed = append(c.removed, w.Watch) // a data and a child watch of one entry may both be told
		}
		return w.fired
	})
	if !known {
		c.fatalf("%+v, which no watch is for", e)
	}
}

// matching returns the events for a watch up to a stamp, from the list of all changes.
func (c *client) matching(w *expected, through tree.Stamp) (want []tree.Event) {
	for _, change := range c.node.all {
		if change.Stamp <= w.since || change.Stamp > through {
			continue
		}
		events, lists := eventsOf(change)
		for i, e := range events {
			if hears(w.Path, w.Kind, e) && lists[i].Grants(tree.Read, c.principals) {
				want = append(want, e)
			}
		}
	}
	return want
}

// justified checks that a one-shot watch was fired for a change.
func (c *client) justified(w *expected, e tree.Event) {
	if len(c.matching(w, e.Stamp)) == 0 {
		c.fatalf("%v watch of %s since %v: fired by %+v, and nothing has changed", w.Kind, w.Path, w.since, e)
	}
}

// verify checks I11 for all changes up to s: the client has received each matching one in order, once, or it lies in a
// LOST.
func (c *client) verify(s tree.Stamp) {
	for _, w := range c.watches {
		want := c.matching(w, s)
		if w.Kind.OneShot() {
			for _, e := range want { // the watch has not fired
				// The tree does not tell when an entry went, so its deletion is told last of what an absence brought.
				// Until then a client that comes back hears of it whatever it was told.
				last := slices.ContainsFunc(c.away, func(i interval) bool { return e.Stamp > i.after && s < i.through })
				if !last && (w.Kind != tree.WatchExists || !holds(c.away, e.Stamp)) {
					c.fatalf("told %v: %v watch of %s since %v has not fired for %+v", s, w.Kind, w.Path, w.since, e)
				}
			}
			continue
		}
		got := slices.DeleteFunc(slices.Clone(w.got), func(e tree.Event) bool {
			// What one-shot watches are told after an absence is judged by the tree, and need not be a change's event.
			return e.Stamp > s || holds(c.away, e.Stamp) && !slices.Contains(want, e)
		})
		for _, e := range want {
			switch lost := holds(c.lost, e.Stamp); {
			case lost && slices.Contains(got, e): // events of one stamp that one-shot watches are told have no order
				i := slices.Index(got, e)
				got = slices.Delete(got, i, i+1)
			case lost:
			case len(got) == 0 || got[0] != e:
				c.fatalf("told %v: %v watch of %s since %v was not told %+v next; got %+v, want %+v, lost %v", s, w.Kind,
					w.Path, w.since, e, w.got, want, c.lost)
			default:
				got = got[1:]
			}
		}
		if len(got) > 0 {
			c.fatalf("told %v: %v watch of %s since %v was told %+v too often or too late; got %+v, want %+v", s, w.Kind, w.Path,
				w.since, got, w.got, want)
		}
	}
}
