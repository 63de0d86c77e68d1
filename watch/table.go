package watch

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
)

// Table keeps the watches of one lane's connections (V1). Each connection carries a value of type C, its owner's own.
// Not safe for concurrent use.
//
// A watch is a [record] of a connection and a path, which has all the kinds that the connection has there. It is in two
// lists, its path's and its connection's. So an event costs its watchers, the end of a connection costs its watches,
// and all else costs the same whatever there is: look-ups by hash.
type Table[C any] struct {
	// limit bounds the bytes of a connection's watches.
	limit int
	// index is that of the lane's root: the watches hear of later changes (V2).
	index uint64

	connections slab[*Connection[C]]
	records     slab[record]
	paths       slab[watched]
	byPath      hashIndex // of paths
	byPair      hashIndex // of records, by connection and path
	paper       hashSeeds

	// recursiveAt counts the recursive watches at each depth of a path, so that an event looks for no others.
	recursiveAt [tree.MaxDepth + 1]int
	recursives  int
	// watches counts all, for other goroutines too.
	watches atomic.Int64
	// round numbers the events, to tell each connection of an event once.
	round uint64
}

// hashSeeds keep strangers from choosing paths whose hashes collide.
type hashSeeds struct {
	path maphash.Seed
	pair uint64
}

// Connection is what a table keeps of a connection. It belongs to its table's lane.
type Connection[C any] struct {
	// Owner is what Open was given.
	Owner C

	principals []tree.Principal
	// share is that of the connection's principal of the node's room for watches. bytes is what the connection holds.
	share   *fair.Share[string]
	bytes   int
	number  uint32 // 0 once closed
	first   uint32 // the first of its records
	watches int    // counts each kind on each path
	lasting int    // those of them that are persistent or recursive
	told    uint64 // the round that it was told of last
}

// Watches returns how many watches a connection has.
func (c *Connection[C]) Watches() int { return c.watches }

// Lasting returns how many persistent and recursive watches a connection has.
func (c *Connection[C]) Lasting() int { return c.lasting }

// SetPrincipals replaces those that a connection's permissions are judged by (V8). They must not be modified.
func (c *Connection[C]) SetPrincipals(principals []tree.Principal) { c.principals = principals }

// record is what a connection watches of a path.
type record struct {
	connection, path                       uint32
	nextOfPath, previousOfPath             uint32
	nextOfConnection, previousOfConnection uint32
	kinds                                  Kinds
}

// watched is a path that somebody watches.
type watched struct {
	path  string
	first uint32 // the first of its records
	hash  uint32
}

// NewTable returns a table of a lane whose root is that of index. limit bounds the bytes of one connection's watches.
func NewTable[C any](limit int, index uint64) *Table[C] {
	return &Table[C]{
		limit: limit, index: index, paper: hashSeeds{path: maphash.MakeSeed(), pair: rand.Uint64()},
	}
}

// Open adds a connection without watches. owner is for the caller, and principals judge what the connection may hear
// of; they must not be modified. The connection's watches take their bytes from share, which all tables of a node and all
// connections of a principal have in common.
func (t *Table[C]) Open(owner C, principals []tree.Principal, share *fair.Share[string]) *Connection[C] {
	c := &Connection[C]{Owner: owner, principals: principals, share: share, number: t.connections.alloc()}
	*t.connections.at(c.number) = c
	return c
}

// Close removes a connection with its watches (W-03). Closing twice is the same as closing once.
func (t *Table[C]) Close(c *Connection[C]) {
	if c.number == 0 {
		return
	}
	for c.first != 0 {
		t.drop(c.first, All)
	}
	t.connections.free(c.number)
	c.number = 0
}

// Index returns the index of the lane's root.
func (t *Table[C]) Index() uint64 { return t.index }

// Advance makes index that of the lane's root. The caller has given all changes up to it to [Table.Fire].
func (t *Table[C]) Advance(index uint64) { t.index = index }

// Watches returns how many watches the table has. Safe for concurrent use.
func (t *Table[C]) Watches() int { return int(t.watches.Load()) }

// Paths returns how many paths have a watch.
func (t *Table[C]) Paths() int { return int(t.paths.used) - len(t.paths.spare) }

// Each calls f for every connection. f must not open or close any.
func (t *Table[C]) Each(f func(*Connection[C])) { t.each(f) }

// each calls f for every connection.
func (t *Table[C]) each(f func(*Connection[C])) {
	for n := range t.connections.used {
		if c := *t.connections.at(n + 1); c != nil {
			f(c)
		}
	}
}

// Add registers a watch as of the lane's root. A watch that the connection has already stays, and is no second one.
//
// A read of an entry that exists registers WatchData, and one that finds no entry WatchExists, as ZooKeeper's clients
// do: then what a watch is owed can be told from the tree later ([Table.Resume]).
//
// The error is a [session.LimitError] that names the limit, a [session.FieldError] or a [tree.PathError] that names
// what is wrong with the watch, or [session.ErrClosed] for a closed connection (W-02).
func (t *Table[C]) Add(c *Connection[C], path string, kind tree.WatchKind) error {
	_, err := t.add(c, path, kind)
	return err
}

func (t *Table[C]) add(c *Connection[C], path string, kind tree.WatchKind) (added bool, _ error) {
	if err := checkWatch(path, kind); err != nil {
		return false, err
	}
	if c.number == 0 {
		return false, session.ErrClosed
	}
	at := t.find(path)
	n := t.pair(c.number, at)
	if n != 0 && t.records.at(n).kinds&Of(kind) != 0 {
		return false, nil
	}
	if n == 0 {
		var err error
		if n, err = t.link(c, path, at); err != nil {
			return false, err
		}
	}
	t.records.at(n).kinds |= Of(kind)
	c.watches++
	t.watches.Add(1)
	if !kind.OneShot() {
		c.lasting++
	}
	if kind == tree.WatchRecursive {
		t.recursiveAt[tree.Depth(path)]++
		t.recursives++
	}
	return true, nil
}

// Remove removes those of a connection's watches on a path that are of the kinds, and returns which ones there were.
func (t *Table[C]) Remove(c *Connection[C], path string, kinds Kinds) Kinds {
	removed := t.Has(c, path, kinds)
	if removed != 0 {
		t.drop(t.pair(c.number, t.find(path)), removed)
	}
	return removed
}

// Has returns which of the kinds of watches a connection has on a path.
func (t *Table[C]) Has(c *Connection[C], path string, kinds Kinds) Kinds {
	n := t.pair(c.number, t.find(path))
	if n == 0 {
		return 0
	}
	return t.records.at(n).kinds & kinds
}
