package watch

import (
	"fmt"
	"sync/atomic"

	"holdfast/session"
	"holdfast/tree"
)

// Default limits of watches (V1).
const (
	// MaxPerConnection is the number of watches of a connection, at most.
	MaxPerConnection = 100_000
	// MaxPerNode is the number of watches of all connections of a node, at most.
	MaxPerNode = 4_000_000
	// PathBytes is how long the paths of as many watches as a connection or a node may have are on average, at most. A
	// path may have 4,096 bytes: without it the watches of ten connections fill 4 GB.
	PathBytes = 256
)

// Budget counts the watches of all tables of a node, which share it, and the bytes of their paths. Safe for concurrent
// use.
type Budget struct {
	limit        int64
	taken, paths atomic.Int64
}

// NewBudget returns a budget for at most limit watches, with [PathBytes] for each.
func NewBudget(limit int) *Budget { return &Budget{limit: int64(limit)} }

// Taken returns how many watches there are.
func (b *Budget) Taken() int { return int(b.taken.Load()) }

// take counts one more watch, or returns a [session.LimitError].
func (b *Budget) take() error {
	if b.taken.Add(1) > b.limit {
		b.taken.Add(-1)
		return over("watches_per_node", b.limit)
	}
	return nil
}

func (b *Budget) giveBack(n int) { b.taken.Add(int64(-n)) }

// takePath counts a path that a table keeps, or returns a [session.LimitError].
func (b *Budget) takePath(path string) error {
	bytes := int64(len(path))
	if b.paths.Add(bytes) > b.limit*PathBytes {
		b.paths.Add(-bytes)
		return overPaths("watch_path_bytes_per_node", b.limit)
	}
	return nil
}

func (b *Budget) giveBackPath(path string) { b.paths.Add(-int64(len(path))) }

// overPaths refuses a path where there may be so many watches.
func overPaths(name string, watches int64) error {
	return &session.LimitError{Name: name, Limit: fmt.Sprintf("%d bytes of watched paths", watches*PathBytes)}
}

func over(name string, limit int64) error {
	return &session.LimitError{Name: name, Limit: fmt.Sprintf("%d watches", limit)}
}

// checkWatch returns an error that names the field and its limit, unless there may be such a watch.
func checkWatch(path string, kind tree.WatchKind) error {
	if !kind.Valid() {
		return &session.FieldError{Field: "kind", Limit: "data, exists, child, persistent or recursive"}
	}
	return tree.CheckPath(path)
}
