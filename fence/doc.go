// Package fence lets a resource refuse the late writes of former holders of a lock.
//
// A holder that was paused, or whose messages were delayed, may write when another holder has the lock already. So each
// write carries the [Token] of its hold. The tokens of a lock rise with each acquisition, also across fail-overs (H1
// fencing tokens). The resource keeps the newest token that it has seen, and refuses writes with an older token:
//
//   - [Guard] does so for state in the memory of a process, and its [Guard.Handler] for a service that speaks HTTP.
//   - [File] does so for a file that several processes replace.
//   - The examples in folder postgres do so for a row of PostgreSQL.
//
// The token of a lock in Holdfast's tree is the stamp at which the lock's entry was created: Token(stat.Created). A
// resource must never compare tokens of different locks, because their order means nothing. Name the resource after its
// lock, or keep a token for each lock.
//
// A cluster that was restored from a backup issues higher tokens than before. A new cluster on empty directories starts
// with small tokens. Reset the resources then, before holders start again: make new guards, remove the files that keep
// tokens ([File]), and set the columns of databases to 0.
//
// The package uses only the standard library, so a resource that links it links no client and no gRPC.
package fence
