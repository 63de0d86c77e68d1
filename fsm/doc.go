// Package fsm is the replicated state of a cluster: which sessions exist, which nodes own them, and how sessions ended.
//
// [State] is Raft's FSM. It is deterministic: it uses no clock, no randomness and no map order. So replicas that have
// applied the same index are in the same state (I6), and [State.Digest] shows it. A Raft entry carries a batch of
// commands in a frame with a checksum ([EncodeEntry]), and each command gets a result of its own. A State never
// guesses: at an entry or a snapshot that this release cannot understand in full it halts, and says so, once, to
// [Config.Fatal].
//
// Readers see all effects of an entry or none of them: one mutex guards the state. Slow readers (snapshots, and a new
// leader's tracker) read a [View], a copy-on-write copy that costs nothing to take.
//
// [Proposer] puts commands into the log. It gathers the commands of many callers into one entry while the entry before
// is on its way to the disks. It tells each caller that its command was applied, that it was certainly not appended, or
// that the outcome is unknown.
package fsm
