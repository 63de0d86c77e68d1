// Package fsm is the replicated state of a cluster: which sessions exist, which nodes own them, how sessions ended, and
// the tree.
//
// [State] is Raft's state machine. It is deterministic: it uses no clock, no randomness and no map order, so replicas
// that have applied the same index are in the same state (I6 same state), and [State.Digest] proves it. An entry of the
// log carries a batch of commands, and each command gets a result of its own. When a State cannot understand an entry
// or a snapshot in full, it halts and reports the reason once, to [Config.Fatal].
//
// One mutex guards the state, so readers see all effects of an entry or none. Snapshots, backups, scrubs and a new
// leader's tracker read a [View]: a copy-on-write copy, which costs the same whatever the size of the state.
//
// The state uses packages that know neither Raft nor each other's data: fsm/entry is the format of log entries,
// fsm/codec has the fields that entries and snapshots share, fsm/sessions, fsm/requests and fsm/certificates are
// tables, and fsm/digest is the hash of a set. fsm/proposer puts commands into the log.
package fsm
