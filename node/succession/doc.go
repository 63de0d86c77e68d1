// Package succession decides when a voter campaigns because its leader's process has ended or is frozen,
// before Raft's timeouts would say so. It is pure: callers report events and the time to a [Machine], which returns
// what to do. It starts no goroutine, reads no clock and does no I/O.
//
// Raft lets a voter campaign at any time. Terms, votes and logs stay Raft's, so nothing that is decided here can make
// two leaders in a term or lose an entry. The only harm of a wrong decision is a needless election. So a voter needs
// evidence, and a majority of the voters must share it (rules F1 to F4 of docs/protocol.md):
//
//   - The other side has ended all of the leader's connections to the voter. The voter then asks the leader's address
//     whether the leader still leads. The leader is *gone* when the address refuses the connection, when a process
//     answers that it does not lead, or when no clear answer comes for [AnswerTimeout].
//   - A leader that freezes ends no connection. It is gone as well once Raft has received no heartbeat for the silence
//     limit of [New].
//   - A voter that finds the leader gone waits for its turn, and asks the other voters to back it.
//   - A voter backs another if it finds the leader gone as well, is in the same term, and has no longer log. It is then
//     bound to the other for [Bond]: it backs no third voter meanwhile, and does not campaign itself. A new term and a
//     start of the process bind it as long, to no voter.
//   - A voter that a majority backs, itself included, campaigns.
package succession
