// Package store keeps the tree of the replicated state: rules D, U, P and H of docs/tree.md. It is pure: the result
// depends only on the input, clock readings included, so that replicas agree.
//
// Only the goroutine that applies the log writes a [Tree]. [Root] is a frozen copy that any number of goroutines may
// read. Making a copy costs the same whatever the number of entries (D8 published roots).
package store
