package watches_test

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"holdfast/client/internal/core"
	"holdfast/client/internal/route"
	"holdfast/tree"
)

// client is a client of the SDK without sessions, driven by hand.
type client struct {
	*world
	core    *core.Core
	wakeAt  time.Time
	conns   []*conn
	watches []*heard
	stamp   tree.Stamp
	indexes uint64
}

// heard is a watch, and what it has heard.
type heard struct {
	*core.Watch
	from tree.Stamp
	// wanted are the events that it has to hear of next, as far as it has looked at the changes of the world.
	wanted []tree.Event
	looked int
	// started, ended: marks. last is the newest stamp heard, lost that of the newest LOST.
	started, ended bool
	last, lost     tree.Stamp
	// judged is the stamp of an event that no change has made: a LOST has to follow.
	judged tree.Stamp
	once   bool
}

var (
	errReset = errors.New("connection reset")
	lasting  = []tree.WatchKind{tree.WatchRecursive, tree.WatchPersistent}
)

func newClient(w *world, seed uint64) *client {
	c := &client{world: w}
	c.core = core.New(core.Config{
		Instance: 77 + seed, Servers: []string{"n1:1", "n2:1", "n3:1"}, ConnectTimeout: 2 * time.Second,
		HedgeDelay: 250 * time.Millisecond, OnlyServers: true,
		Jitter: route.NewJitter(rand.NewPCG(w.random.Uint64(), seed), 50*time.Millisecond, 2*time.Second),
	})
	return c
}

// turn takes a turn of the core, and brings its effects about.
func (c *client) turn(in ...core.Input) {
	e := c.core.Turn(core.Moment{Now: c.now, Seen: c.indexes, Stamp: c.stamp}, in...)
	c.indexes, c.stamp, c.wakeAt = e.Seen, e.Stamp, e.WakeAt
	for _, h := range e.Heard {
		if of, ok := h.Watch.Handle.(*heard); ok {
			c.hears(of, h)
		}
	}
	for _, d := range e.Done {
		if of, ok := d.Call.Handle.(*heard); ok && d.Err != nil { // the read has set no watch
			c.forget(of)
		}
	}
	for _, a := range e.Actions {
		c.do(a)
	}
}

func (c *client) do(a core.Action) {
	i := slices.IndexFunc(c.conns, func(one *conn) bool { return one.client == a.Conn })
	switch a.Do {
	case core.Dial:
		at := slices.IndexFunc(c.nodes[:], func(n *node) bool { return n.name == a.Conn.Address })
		made := &conn{of: c, client: a.Conn, node: c.nodes[at]}
		c.conns = append(c.conns, made)
		if made.node.down {
			made.broken = true
			return
		}
		made.node.conns = append(made.node.conns, made)
		made.accept()
	case core.Send:
		if i >= 0 {
			c.conns[i].up = append(c.conns[i].up, a.Message)
		}
	case core.HangUp:
		if i >= 0 {
			c.conns[i].gone = true
			c.conns = slices.Delete(c.conns, i, i+1)
		}
	case core.AskMembers: // never answered
	}
}

// watch begins a watch.
func (c *client) watch(path string, kind tree.WatchKind) {
	h := &heard{Watch: &core.Watch{Spec: tree.WatchSpec{Path: path, Kind: kind}}, once: kind.OneShot()}
	h.Handle = h
	c.watches = append(c.watches, h)
	c.turn(core.AddWatch{Watch: h.Watch})
}

// read reads an entry, and sets a one-shot watch with that.
func (c *client) read(path string, kind tree.QueryKind) {
	h := &heard{Watch: new(core.Watch), once: true}
	h.Handle = h
	c.watches = append(c.watches, h)
	call := &core.TreeCall{Handle: h, Query: tree.Query{Kind: kind, Path: path}, Watch: h.Watch}
	c.turn(core.Read{Call: call})
}

// drop ends a watch.
func (c *client) drop(h *heard) {
	if h.Spec.Path != "" { // otherwise a read has not set it yet
		c.forget(h)
		c.turn(core.DropWatch{Watch: h.Watch})
	}
}

// forget takes a watch out that has ended.
func (c *client) forget(h *heard) {
	h.ended = true
	c.watches = slices.DeleteFunc(c.watches, func(one *heard) bool { return one == h })
}

// deliver brings some of the messages of a stream to the client, or its end.
func (c *client) deliver(one *conn, most int) {
	switch {
	case !one.open && !one.broken:
		one.open = true
		c.turn(core.Up{Conn: one.client})
		return
	case one.broken && (len(one.down) == 0 || c.one(3)): // what was on its way may be lost
		c.conns = slices.DeleteFunc(c.conns, func(other *conn) bool { return other == one })
		one.gone = true
		c.seen["lost connection"]++
		c.turn(core.Down{Conn: one.client, Err: errReset})
		return
	}
	var all []core.Input
	for ; most > 0 && len(one.down) > 0; most-- {
		all = append(all, core.Received{Conn: one.client, Message: one.down[0]})
		one.down = one.down[1:]
	}
	if len(all) > 0 {
		c.turn(all...)
	}
}

// hears takes what a watch hears, and holds it against the log (I11, I13).
func (c *client) hears(of *heard, h core.Heard) {
	stamp := h.Event.Stamp
	if of.ended {
		c.breaks("%v: heard %+v after its end", of.Spec, h)
		return
	}
	if stamp < of.last {
		c.breaks("I13: %v: heard %+v behind stamp %v", of.Spec, h, of.last)
	}
	of.last = max(of.last, stamp)
	switch {
	case h.Err != nil:
		of.ended = true
		c.breaks("%v: ended with %v", of.Spec, h.Err)
	case h.Started:
		if of.started {
			c.breaks("%v: started twice", of.Spec)
		}
		of.started, of.from = true, stamp
	case h.Lost:
		of.lost = max(of.lost, stamp)
		c.seen["lost"]++
	case of.once:
		c.forget(of)
		c.seen["one-shot"]++
	default:
		c.seen["event"]++
		c.follows(of, h.Event)
	}
}

// follows checks that an event is the next one that a lasting watch is owed, but for those that lie in a LOST.
func (c *client) follows(of *heard, e tree.Event) {
	c.owes(of)
	for len(of.wanted) > 0 && of.wanted[0] != e && of.wanted[0].Stamp <= of.lost {
		of.wanted = of.wanted[1:]
	}
	if of.judged > of.lost && e.Stamp > of.judged {
		c.breaks("I11: %v: heard of %v what has not happened, and then %+v without LOST", of.Spec, of.judged, e)
	}
	i := slices.Index(of.wanted, e)
	switch {
	case i >= 0 && of.wanted[0].Stamp == e.Stamp: // a LOST may cover others of the same stamp
		of.wanted = slices.Delete(of.wanted, i, i+1)
	case i < 0 && e.Stamp > of.lost: // of a one-shot, by the word of the tree: then a LOST follows (V6)
		of.judged = e.Stamp
	default:
		c.breaks("I11: %v since %v, lost up to %v: heard %+v, wanted %+v", of.Spec, of.from, of.lost, e,
			of.wanted[:min(len(of.wanted), 3)])
	}
}

// owes adds what the log has brought to what a watch has to hear of.
func (c *client) owes(of *heard) {
	for ; of.looked < len(c.changes); of.looked++ {
		for _, e := range eventsOf(&c.changes[of.looked]) {
			if e.Stamp > of.from && of.matches(e) {
				of.wanted = append(of.wanted, e)
			}
		}
	}
}

// matches reports whether a lasting watch is for an event.
func (h *heard) matches(e tree.Event) bool {
	if h.Spec.Kind == tree.WatchPersistent {
		return e.Path == h.Spec.Path
	}
	return e.Kind != tree.ChildrenChanged && (e.Path == h.Spec.Path || tree.Below(e.Path, h.Spec.Path))
}

// eventsOf returns what a change is for watches of its entry and of the entry above.
func eventsOf(c *tree.Change) []tree.Event {
	kind := map[tree.ChangeKind]tree.EventKind{
		tree.Created: tree.EntryCreated, tree.Deleted: tree.EntryDeleted, tree.DataSet: tree.DataChanged,
	}[c.Kind]
	all := []tree.Event{{Stamp: c.Stamp, Kind: kind, Path: c.Path}}
	if c.Kind != tree.DataSet && c.Path != tree.Root {
		all = append(all, tree.Event{Stamp: c.Stamp, Kind: tree.ChildrenChanged, Path: tree.Parent(c.Path)})
	}
	return all
}
