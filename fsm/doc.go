// Package fsm is the replicated state of a cluster: which sessions exist, who owns them, which ended and why.
//
// [State] is Raft's FSM. It is deterministic: it has no clock, no randomness and no map order, so that replicas that
// applied the same index are in the same state (I6), which [State.Digest] shows. A Raft entry carries a batch of
// commands in a checked frame ([EncodeEntry]); each gets a result of its own. An entry or a snapshot that this program
// cannot understand in full is never guessed at: the state stops where it is and says so, once, to [Config.Fatal].
//
// Readers see an entry's effects when they are all there, and never a part of it: one mutex guards the state. What
// takes long (snapshots, the filling of a new leader's tracker) reads a [View], a copy-on-write copy that costs nothing
// to take.
//
// [Proposer] is the way in: it gathers the commands of many callers into one entry while the entry before is on its way
// to the disks, and tells each caller whether its command was applied, was certainly not appended, or has an outcome
// that nobody can know yet.
package fsm
