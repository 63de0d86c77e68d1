// Package watch tells connections what changes in the tree: rules V1 to V8 of docs/tree.md.
//
// It has three parts, which the package learner joins:
//
//   - A [Ring] keeps the newest changes of a node. The goroutine that applies the log appends to it; lanes read it.
//   - A [Table] keeps the watches of one lane's connections, and finds those that a change concerns.
//   - A [Feed] keeps what is unsent to one connection, in order and within bounds.
//
// A lane makes one pass for each new root of the tree. It gives every change above its own index to [Table.Fire], puts
// the events into feeds, and calls [Table.Advance]. So a table needs no index for each watch: a watch is registered
// between two passes, as of the lane's root, and hears of all later changes and of no earlier one (V2).
//
// The package is pure. It starts no goroutine, reads no clock and does no I/O.
package watch

import "holdfast/tree"

// End returns the stamp of a root: the last one that a change of the log entry at index can have.
func End(index uint64) tree.Stamp { return tree.StampAt(index, tree.MaxPosition) }
