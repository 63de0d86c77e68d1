// Package store keeps the tree of the replicated state: rules D, U, P and F of docs/tree.md. It is pure: what it
// does depends on its input alone, so that replicas agree. Clock readings are given to it.
//
// [Tree] is written by the goroutine that applies the log. [Root] is a frozen copy, made at a cost that does not depend
// on the number of entries (D8), which any number of goroutines may read.
package store
