package watch_test

import (
	"math/rand/v2"
	"strings"

	"holdfast/tree"
	"holdfast/tree/store"
	"holdfast/watch"
)

// message is what a feed of the histories carries: an event, or an answer.
type message struct {
	event  tree.Event
	lossy  bool // a LOST may take its place
	answer *reply
}

// reply is the answer to a client that registered watches.
type reply struct {
	resumed bool
	added   *expected
}

type noDigest struct{}

func (noDigest) Add([]byte)    {}
func (noDigest) Remove([]byte) {}

// node is one node with one dispatcher, as the package's caller has to write it: the log is applied to the tree, the
// ring and the published root; the dispatcher passes; connections read, register, resume and break.
type node struct {
	random *rand.Rand
	tree   *store.Tree
	ring   *watch.TreeRing
	table  *watch.Table[*client]
	// index and root are the published ones, dispatcher is the dispatcher's root, whose index is the table's.
	index        uint64
	root, served *store.Root
	limits       watch.RingLimits
	feeds        watch.FeedLimits
	all          []tree.Change
	clients      []*client
}

func newNode(random *rand.Rand, limits watch.RingLimits, feeds watch.FeedLimits) *node {
	n := &node{random: random, limits: limits, feeds: feeds, index: 1}
	n.tree = store.New(noDigest{}, tree.DefaultLimits(), store.At{Stamp: tree.StampAt(1, 1)})
	n.root = n.tree.Freeze()
	n.start()
	return n
}

// start is a new process, whose state is that of a snapshot at index: ring and table are empty.
func (n *node) start() {
	n.ring = watch.NewTreeRing(n.limits, n.index)
	n.table = watch.NewTable[*client](watch.MaxConnectionBytes, n.index)
	n.served = n.root
}

var historyPaths = []string{"/a", "/a/b", "/a/b/c", "/a/d", "/ab", "/p", "/p/q"}

// apply applies an entry of the log: up to three transactions of up to three operations, and ends of sessions.
func (n *node) apply() {
	n.index++
	var changes []tree.Change
	for position := range 1 + n.random.IntN(3) {
		at := store.At{
			Stamp: tree.StampAt(n.index, position+1), Session: uint64(1 + n.random.IntN(2)),
			Principals: []tree.Principal{{Scheme: tree.Super}},
		}
		if n.random.IntN(12) == 0 {
			_, more := n.tree.CloseSession(at, at.Session, nil)
			changes = append(changes, more...)
			continue
		}
		var x tree.Transaction
		for range one(n.random, []int{1, 1, 2, 3}) {
			x.Then = append(x.Then, n.op())
		}
		_, more := n.tree.Do(at, x)
		changes = append(changes, more...)
	}
	n.all = append(n.all, changes...)
	n.ring.Append(n.index, changes...) // before the root is published
	n.root = n.tree.Freeze()
}

func (n *node) op() tree.Op {
	path := one(n.random, historyPaths)
	switch n.random.IntN(9) {
	case 0, 1, 2, 3:
		return tree.Set{Path: path, Version: tree.Any}
	case 4:
		return tree.Delete{Path: path, Version: tree.Any}
	case 5:
		return tree.DeleteTree{Path: path}
	default:
		kinds := []tree.Kind{tree.Persistent, tree.Persistent, tree.Ephemeral}
		c := tree.Create{Path: path, Parents: true, Kind: one(n.random, kinds)}
		if strings.HasPrefix(path, "/p") {
			c.ACL, c.Parents = joesList, false
		}
		return c
	}
}

// pass is one pass of the dispatcher (G1 order per connection, V6 LOST).
func (n *node) pass() {
	index, root := n.index, n.root
	push := func(to *watch.Connection[*client], e watch.Event) { to.Owner.push(e) }
	between, ok := n.ring.Range(watch.End(n.table.Index()), watch.End(index))
	n.served = root
	if !ok {
		from := watch.End(n.table.Index())
		n.table.Skip(index, root, push, func(c *watch.Connection[*client], first, last tree.Stamp) {
			c.Owner.feed.Lose(first, last)
		})
		for _, c := range n.clients {
			c.mayLose = true
			c.away = append(c.away, interval{from, watch.End(index)})
		}
		return
	}
	for change := range between {
		n.table.Fire(change, push)
	}
	n.table.Advance(index)
}

func (n *node) servedStamp() tree.Stamp { return watch.End(n.table.Index()) }
