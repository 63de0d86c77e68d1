package watch

import (
	"hash/maphash"
	"math/rand/v2"
	"sync/atomic"

	"holdfast/session"
	"holdfast/session/fair"
	"holdfast/tree"
)

// Table keeps the watches of one dispatcher's connections (V1 kinds of watches). C is the type of the owner's value for
// each connection. Not safe for concurrent use.
//
// A [record] has all kinds of watches of one connection on one path. It is in two lists, the path's and the
// connection's. So an event costs time for its watchers, and the end of a connection for its watches. Every other
// operation is a look-up by hash and costs the same at any size of the table.
type Table[C any] struct {
	// limit bounds the bytes of a connection's watches.
	limit int
	// index is the index of the dispatcher's root. Watches get only later changes (V2 each event once).
	index uint64

	connections slab[*Connection[C]]
	records     slab[record]
	paths       slab[watched]
	byPath      hashIndex // of paths
	byPair      hashIndex // of records, by connection and path
	seeds       hashSeeds

	// recursiveAt counts the recursive watches at each depth of a path. An event visits only depths with watches.
	recursiveAt [tree.MaxDepth + 1]int
	recursives  int
	// watches counts all watches; other goroutines read it.
	watches atomic.Int64
	// round numbers the events, so that each connection gets an event once.
	round uint64
}

// hashSeeds keep clients from choosing paths whose hashes collide.
type hashSeeds struct {
	path maphash.Seed
	pair uint64
}

// Connection is a table's record of a connection. It belongs to the table's dispatcher.
type Connection[C any] struct {
	// Owner is the argument of Open.
	Owner C

	principals []tree.Principal
	// share is the part of the connection's principal in the node's memory for watches. bytes is the connection's own
	// part.
	share       *fair.Share[string]
	bytes       int
	number      uint32 // 0 once closed
	first       uint32 // the first of its records
	watches     int    // counts each kind on each path
	lasting     int    // the persistent and recursive ones among watches
	deliveredIn uint64 // the round of the last delivered event
}

// Watches returns how many watches a connection has.
func (c *Connection[C]) Watches() int { return c.watches }

// Lasting returns how many persistent and recursive watches a connection has.
func (c *Connection[C]) Lasting() int { return c.lasting }

// SetPrincipals replaces the principals that decide which events the connection may receive (V8 events need READ). The
// slice must not be modified.
func (c *Connection[C]) SetPrincipals(principals []tree.Principal) { c.principals = principals }

// record has the watches of one connection on one path.
type record struct {
	connection, path                       uint32
	nextOfPath, previousOfPath             uint32
	nextOfConnection, previousOfConnection uint32
	kinds                                  Kinds
}

// watched is a path with at least one watch.
type watched struct {
	path  string
	first uint32 // the first of its records
	hash  uint32
}

// NewTable returns a table for a dispatcher whose root has the given index. limit bounds the bytes of one connection's
// watches.
func NewTable[C any](limit int, index uint64) *Table[C] {
	return &Table[C]{
		limit: limit, index: index, seeds: hashSeeds{path: maphash.MakeSeed(), pair: rand.Uint64()},
	}
}

// Open adds a connection without watches. owner is for the caller. principals decide which events the connection may
// receive, and must not be modified. The connection's watches take their bytes from share, which all tables of a node
// and all connections of a principal have in common.
func (t *Table[C]) Open(owner C, principals []tree.Principal, share *fair.Share[string]) *Connection[C] {
	c := &Connection[C]{Owner: owner, principals: principals, share: share, number: t.connections.alloc()}
	*t.connections.at(c.number) = c
	return c
}

// Close removes a connection with its watches (W-03). A second Close has no effect.
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

// Index returns the index of the dispatcher's root.
func (t *Table[C]) Index() uint64 { return t.index }

// Advance sets the index of the dispatcher's root. The caller has passed all changes up to index to [Table.Fire].
func (t *Table[C]) Advance(index uint64) { t.index = index }

// Watches returns the number of watches in the table. Safe for concurrent use.
func (t *Table[C]) Watches() int { return int(t.watches.Load()) }

// Paths returns the number of watched paths.
func (t *Table[C]) Paths() int { return int(t.paths.used) - len(t.paths.spare) }

// Each calls f for every connection. f must not open or close connections.
func (t *Table[C]) Each(f func(*Connection[C])) { t.each(f) }

func (t *Table[C]) each(f func(*Connection[C])) {
	for n := range t.connections.used {
		if c := *t.connections.at(n + 1); c != nil {
			f(c)
		}
	}
}

// Add registers a watch as of the dispatcher's root. Adding a watch that the connection already has changes nothing.
//
// A read of an existing entry registers WatchData, and a read that finds no entry registers WatchExists, as ZooKeeper's
// clients do. So the tree alone later shows what a watch has missed ([Table.Resume]).
//
// The error is a [session.LimitError] that names the limit, a [session.FieldError] or a [tree.PathError] that names the
// wrong field, or [session.ErrClosed] for a closed connection (W-02).
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

// Remove removes a connection's watches of the kinds on a path, and returns the kinds that it removed.
func (t *Table[C]) Remove(c *Connection[C], path string, kinds Kinds) Kinds {
	removed := t.Has(c, path, kinds)
	if removed != 0 {
		t.drop(t.pair(c.number, t.find(path)), removed)
	}
	return removed
}

// Has returns the kinds of watches, among the given kinds, that a connection has on a path.
func (t *Table[C]) Has(c *Connection[C], path string, kinds Kinds) Kinds {
	n := t.pair(c.number, t.find(path))
	if n == 0 {
		return 0
	}
	return t.records.at(n).kinds & kinds
}
