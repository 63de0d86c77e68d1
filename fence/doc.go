// Package fence lets a resource refuse the late writes of former holders of a lock.
//
// A holder that stood still, or whose messages were delayed, may write when the lock is another's already. So each
// write carries the [Token] of its hold. The tokens of a lock rise with each acquisition, over fail-overs too (F1). The
// resource keeps the newest token that it has seen, and refuses writes with an older one:
//
//   - [Guard] does so for state in the memory of a process, and its [Guard.Handler] for a service that speaks HTTP.
//   - [File] does so for a file that several processes replace.
//   - The examples in folder postgres do so for a row of PostgreSQL.
//
// The token of a lock in Holdfast's tree is the stamp at which the lock's entry was made: Token(stat.Created). A
// resource must never compare tokens of different locks, because they say nothing about each other. Name the resource
// after its lock, or keep a token for each.
//
// A cluster that was restored from a backup gives out higher tokens than before. A new cluster on empty directories
// begins with small ones. Reset the resources then, before holders start again: make new guards, remove the files that
// keep tokens ([File]), and set the columns of databases to 0.
//
// The package uses the standard library alone, so a resource that links it links no client and no gRPC.
package fence
