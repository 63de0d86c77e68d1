// Package watches_test holds the watches of the SDK against the lanes of nodes, and both against the log: I11 and I13
// of docs/tree.md. Messages, lost connections, restored snapshots, nodes that begin anew, lose their leader or lag
// behind, and watches that come and go, are all by the throw of dice.
package watches_test

import (
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"holdfast/tree"
)

var (
	seeds = flag.Int("seeds", 600, "how many histories")
	first = flag.Uint64("seed", 1, "the number of the first history")
)

// TestWatches plays histories until one is not as it should be. Each of the kinds of things that may happen has to.
func TestWatches(t *testing.T) {
	seen := map[string]int{}
	for seed := *first; seed < *first+uint64(*seeds); seed++ {
		w := newWorld(rand.New(rand.NewPCG(seed, 11)))
		for range 800 {
			w.step()
			if len(w.broken) > 0 {
				break
			}
		}
		if len(w.broken) == 0 {
			w.settle()
		}
		for _, broken := range w.broken {
			t.Errorf("seed %d: %s", seed, broken)
		}
		if t.Failed() {
			return
		}
		for what, n := range w.seen {
			seen[what] += n
		}
	}
	for _, what := range []string{"event", "lost", "coming back", "lost connection", "restore", "begin", "one-shot"} {
		if seen[what] < *seeds/2 && *seeds > 100 {
			t.Errorf("%q has happened %d times: the histories do too little", what, seen[what])
		}
	}
	for _, what := range slices.Sorted(maps.Keys(seen)) {
		t.Logf("%s: %d", what, seen[what])
	}
}

// step takes one step of a history.
func (w *world) step() {
	w.now = w.now.Add(time.Duration(w.random.IntN(60)) * time.Millisecond)
	c := w.clients[w.random.IntN(len(w.clients))]
	n := w.nodes[w.random.IntN(nodes)]
	switch w.random.IntN(20) {
	case 0, 1:
		w.append()
	case 2, 3, 4:
		n.apply()
	case 5, 6, 7:
		n.pass()
	case 8:
		n.tick()
	case 9, 10, 11:
		for _, one := range n.conns {
			one.take()
		}
	case 12, 13:
		if len(n.conns) > 0 {
			n.conns[w.random.IntN(len(n.conns))].send(1 + w.random.IntN(4))
		}
	case 14, 15, 16:
		if len(c.conns) > 0 {
			c.deliver(c.conns[w.random.IntN(len(c.conns))], 1+w.random.IntN(3))
		}
	case 17:
		w.watching(c)
	default:
		w.fault(n)
	}
	w.wake()
}

// wake gives the clients the turns that are due.
func (w *world) wake() {
	for _, c := range w.clients {
		if !c.wakeAt.IsZero() && !w.now.Before(c.wakeAt) {
			c.turn(nil)
		}
	}
}

// watching begins or ends a watch of a client.
func (w *world) watching(c *client) {
	path := paths[w.random.IntN(len(paths))]
	switch n := len(c.watches); {
	case n > 3 || n > 0 && w.one(6):
		c.drop(c.watches[w.random.IntN(n)])
	case w.one(4):
		c.read(path, []tree.QueryKind{tree.GetStat, tree.GetEntry, tree.ListChildren}[w.random.IntN(3)])
	case w.one(2):
		c.watch(path[:2], lasting[0])
	default:
		c.watch(path, lasting[w.random.IntN(len(lasting))])
	}
}

// fault is what goes wrong at a node.
func (w *world) fault(n *node) {
	if !w.one(w.rarely) {
		return
	}
	switch w.random.IntN(9) {
	case 0, 1:
		if len(n.conns) > 0 {
			n.cut(w.random.IntN(len(n.conns)))
		}
	case 2:
		n.restore()
	case 3:
		n.start(w.random.IntN(n.applied + 1))
		w.seen["begin"]++
	case 4:
		n.down = !n.down
		for n.down && len(n.conns) > 0 {
			n.cut(0)
		}
	case 5:
		n.leaderless = !n.leaderless
	case 6, 7: // the node hears late that streams have ended
		n.hangUp()
	case 8:
		w.now = w.now.Add(time.Duration(w.random.IntN(8000)) * time.Millisecond)
	}
}

// cut ends a connection at the node. The client hears of it later.
func (n *node) cut(i int) {
	one := n.conns[i]
	one.closed()
	one.broken = true
	n.conns = slices.Delete(n.conns, i, i+1)
}

// hangUp lets a node know of the streams that clients have ended.
func (n *node) hangUp() {
	n.conns = slices.DeleteFunc(n.conns, func(one *conn) bool {
		if one.gone {
			one.closed()
		}
		return one.gone
	})
}

// settle lets everything that happens by itself go on without faults, and requires that every watch has then heard of
// all that it is for.
func (w *world) settle() {
	for _, n := range w.nodes {
		n.down, n.leaderless = false, false
	}
	for range 300 {
		w.now = w.now.Add(100 * time.Millisecond)
		for _, n := range w.nodes {
			for n.applied < len(w.log) {
				n.apply()
			}
			n.hangUp()
			n.pass()
			n.tick()
			for _, one := range n.conns {
				for len(one.up) > 0 {
					one.take()
				}
				for one.send(3); len(one.down) > 0 && !one.gone; one.send(3) {
					one.of.deliver(one, 2)
				}
			}
		}
		for _, c := range w.clients {
			for _, one := range slices.Clone(c.conns) {
				c.deliver(one, 100)
			}
		}
		w.wake()
	}
	for _, c := range w.clients {
		for _, h := range c.watches {
			w.settled(c, h)
		}
	}
}

// settled checks that a watch is owed nothing.
func (w *world) settled(c *client, h *heard) {
	if !h.started {
		w.breaks("%v has not begun at the end", h.Spec)
		return
	}
	if h.once {
		w.unfired(h)
		return
	}
	c.owes(h)
	for len(h.wanted) > 0 && h.wanted[0].Stamp <= h.lost {
		h.wanted = h.wanted[1:]
	}
	if h.judged > h.lost {
		w.breaks("I11: %v since %v, lost up to %v: heard of %v what has not happened", h.Spec, h.from, h.lost, h.judged)
	}
	if len(h.wanted) > 0 {
		w.breaks("I11: %v since %v, lost up to %v: never heard of %+v", h.Spec, h.from, h.lost, h.wanted[0])
	}
}

// unfired checks that a one-shot is owed no event: the tree says so (V4).
func (w *world) unfired(h *heard) {
	stat, is := w.log[len(w.log)-1].published.Root.Stat(h.Spec.Path)
	fires := !is
	switch h.Spec.Kind {
	case tree.WatchExists:
		fires = stat.Created > h.from
	case tree.WatchData:
		fires = fires || stat.Modified > h.from
	case tree.WatchChild:
		fires = fires || stat.ChildrenModified > h.from
	case tree.WatchPersistent, tree.WatchRecursive:
	}
	if fires {
		w.breaks("I11: %v since %v has not fired: there is %v, %+v", h.Spec, h.from, is, stat)
	}
}
