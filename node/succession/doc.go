// Package succession decides when a voter stands for election because its leader's process has ended or is frozen,
// before Raft's timeouts would say so. It is pure: a [Machine] is told what happened and the time, and returns what to
// do. It starts no goroutine, reads no clock and does no I/O.
//
// Raft lets a voter stand at any time. Terms, votes and logs stay Raft's, so nothing that is decided here can make two
// leaders in a term or lose an entry. The only harm of a wrong decision is a needless election. So a voter needs
// evidence, and a majority of the voters must share it (rules F1 to F4 of docs/protocol.md):
//
//   - The other side has ended all of the leader's connections to the voter. The voter then asks the leader's address
//     whether the leader still leads. The leader is *gone* when the address refuses the connection, when a process
//     answers that it does not lead, or when no clear answer comes for [Patience].
//   - A leader that freezes ends no connection. It is gone as well while Raft hears nothing of it for the silence that
//     [New] is given.
//   - A voter that finds the leader gone waits for its turn, and asks the other voters to back it.
//   - A voter backs another if it finds the leader gone as well, is in the same term, and has no longer log. It is then
//     bound to the other for [Bond]: it backs no third voter meanwhile, and does not stand itself. A new term and a
//     start of the process bind it as long, to nobody.
//   - A voter that a majority backs, itself included, stands.
package succession
