// Package session is Holdfast's vocabulary: ids, sessions, tokens, limits, errors, the expiry queue, the packed form of
// touches, the messages between a leader and a learner, and the service a node offers its clients. It knows no network,
// no consensus and no goroutine: every other package speaks it. Words are those of ARCHITECTURE.md, rule numbers those
// of docs/protocol.md.
package session
