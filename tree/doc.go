// Package tree is the vocabulary of the tree: paths, stamps, stats of entries, operations and their outcomes, access
// lists, and limits. The rules are D, W, V, P and H of docs/tree.md.
//
// The tree is a namespace of small entries that belong to sessions. An entry has a path, data and children. An entry
// exists until it is deleted, or ends by itself: with its owner's session, some time after its last change, or some
// time after its last child.
//
// The package keeps no state: package store does, for the replicated state machine. The package uses the standard
// library only.
package tree
