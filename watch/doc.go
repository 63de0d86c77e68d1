// Package watch delivers changes of the tree to connections: rules V1 to V8 of docs/tree.md.
//
// It has three parts, which learner/tree/dispatch connects:
//
//   - A [Ring] keeps the newest changes of a node. The goroutine that applies the log appends; dispatchers read.
//   - A [Table] keeps the watches of one dispatcher's connections, and finds the watches that a change concerns.
//   - A [Feed] is the queue of unsent events and answers of one connection, in order and within bounds.
//
// A dispatcher makes one pass for each new root of the tree. It passes every change above its own index to
// [Table.Fire], puts the events into feeds, and calls [Table.Advance]. Watches are registered between two passes, as of
// the dispatcher's root, so a table needs no index for each watch: every watch gets all later changes and no earlier
// one (V2 each event once).
//
// The package is pure. It starts no goroutine, reads no clock and does no I/O.
package watch

import "holdfast/tree"

// End returns the stamp of a root: the last one that a change of the log entry at index can have.
func End(index uint64) tree.Stamp { return tree.StampAt(index, tree.MaxPosition) }
