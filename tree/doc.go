// Package tree is the vocabulary of the tree: paths, stamps, what is known of an entry, operations and their outcomes,
// access lists, and limits. Rules D, W, V, P and F of docs/tree.md are about them.
//
// The tree is a namespace of small entries that hang on sessions. An entry has a path, data and children. It lasts
// until it is deleted, or ends by itself: with its owner's session, some time after its last change, or some time after
// its last child.
//
// The package keeps no state. Package store does, for the replicated state machine alone. The package uses the standard
// library only.
package tree
