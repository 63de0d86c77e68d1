package watch

import (
	"hash/maphash"
	"math/bits"
	"strings"

	"holdfast/tree"
)

// hash returns the hash of a path.
func (t *Table[C]) hash(path string) uint32 { return uint32(maphash.String(t.seeds.path, path)) }

// find returns the number of a watched path; 0 if no connection watches it.
func (t *Table[C]) find(path string) uint32 {
	hash := t.hash(path)
	return t.byPath.find(hash, func(n uint32) bool {
		w := t.paths.at(n)
		return w.hash == hash && w.path == path
	})
}

// pair returns the number of a connection's record of a path; 0 if there is none.
func (t *Table[C]) pair(connection, path uint32) uint32 {
	if connection == 0 || path == 0 {
		return 0
	}
	return t.byPair.find(t.hashPair(connection, path), func(n uint32) bool {
		r := t.records.at(n)
		return r.connection == connection && r.path == path
	})
}

func (t *Table[C]) hashPair(connection, path uint32) uint32 {
	high, low := bits.Mul64(t.seeds.pair^(uint64(connection)<<32|uint64(path)), 0x9e3779b97f4a7c15)
	return uint32(high ^ low>>32)
}

func (t *Table[C]) hashOfPath(n uint32) uint32 { return t.paths.at(n).hash }

func (t *Table[C]) hashOfRecord(n uint32) uint32 {
	r := t.records.at(n)
	return t.hashPair(r.connection, r.path)
}

// link makes a record without kinds for a connection and a path. at is the path's number; 0 if no connection watches it
// yet. The error is a [session.LimitError].
func (t *Table[C]) link(c *Connection[C], path string, at uint32) (uint32, error) {
	bytes := bytesOf(path)
	switch {
	case c.bytes+bytes > t.limit:
		return 0, overConnection(t.limit)
	case !c.share.Acquire(bytes):
		return 0, overNode(c.share.Budget().Limit())
	}
	c.bytes += bytes
	if at == 0 {
		at = t.paths.alloc()
		*t.paths.at(at) = watched{path: strings.Clone(path), hash: t.hash(path)}
		t.byPath.add(at, t.hashOfPath)
	}
	w, n := t.paths.at(at), t.records.alloc()
	*t.records.at(n) = record{connection: c.number, path: at, nextOfPath: w.first, nextOfConnection: c.first}
	if w.first != 0 {
		t.records.at(w.first).previousOfPath = n
	}
	if c.first != 0 {
		t.records.at(c.first).previousOfConnection = n
	}
	w.first, c.first = n, n
	t.byPair.add(n, t.hashOfRecord)
	return n, nil
}

// drop removes kinds from a record, and the record itself with its last kind.
func (t *Table[C]) drop(n uint32, kinds Kinds) {
	r := t.records.at(n)
	c := *t.connections.at(r.connection)
	kinds &= r.kinds
	count := bits.OnesCount8(uint8(kinds))
	r.kinds &^= kinds
	c.watches -= count
	t.watches.Add(int64(-count))
	c.lasting -= bits.OnesCount8(uint8(kinds & Lasting))
	if kinds&recursive != 0 {
		t.recursiveAt[tree.Depth(t.paths.at(r.path).path)]--
		t.recursives--
	}
	if r.kinds == 0 {
		t.unlink(n, r, c)
	}
}

// unlink removes a record from its lists, and removes a path with its last record.
func (t *Table[C]) unlink(n uint32, r *record, c *Connection[C]) {
	t.byPair.remove(n, t.hashOfRecord)
	w := t.paths.at(r.path)
	c.bytes -= bytesOf(w.path)
	c.share.Add(-bytesOf(w.path))
	if r.nextOfPath != 0 {
		t.records.at(r.nextOfPath).previousOfPath = r.previousOfPath
	}
	if r.previousOfPath != 0 {
		t.records.at(r.previousOfPath).nextOfPath = r.nextOfPath
	} else {
		w.first = r.nextOfPath
	}
	if r.nextOfConnection != 0 {
		t.records.at(r.nextOfConnection).previousOfConnection = r.previousOfConnection
	}
	if r.previousOfConnection != 0 {
		t.records.at(r.previousOfConnection).nextOfConnection = r.nextOfConnection
	} else {
		c.first = r.nextOfConnection
	}
	if w.first == 0 {
		t.byPath.remove(r.path, t.hashOfPath)
		t.paths.free(r.path)
	}
	t.records.free(n)
}
