// Package session defines Holdfast's vocabulary: ids, sessions, tokens, limits, errors, the expiry queue, the packed
// form of touches, the messages between a leader and a learner, and a node's service for clients. Every other package
// uses it. It knows no network and no consensus, and starts no goroutine. ARCHITECTURE.md defines the words,
// docs/protocol.md and docs/tree.md the rules whose numbers the comments cite.
package session
