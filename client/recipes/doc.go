// Package recipes has locks, elections and other coordination recipes on the tree. Each recipe works for a
// [client.Session]. Locks, elections, permits, claims and memberships end with it; barriers, counters and queue items
// stay.
//
// # What is granted, and what is promised
//
// A [Grant] is what a caller holds: a lock, a permit, a leadership. It has three answers to the question "may I work?":
//
//   - [Grant.Context] ends before the cluster can have given the lock to another, as far as clocks allow. It ends with
//     the promise of the session (S3 length of a promise), and so also while the holder is cut off from the cluster.
//     Work under it.
//   - [Grant.Token] is the fencing token (H1 fencing tokens): the stamp of the grant's entry, higher than those of all
//     grants before. A resource that keeps the highest token, and refuses lower ones, is safe from a holder that was
//     stopped between looking at its context and writing. See package fence.
//   - [Grant.Done] is closed when the grant is over for good: it was given up or revoked, or its session has ended.
//     A grant whose promise ran out is not over: when the promise comes back, [Grant.Context] returns a new context.
//
// # Fairness
//
// Waiters are ordered by the log, which orders the creation of their entries. Each watches only the entry before its
// own: 10,000 waiters on a lock cost one wake-up for each release. A waiter whose own entry is removed notices when its
// turn comes. The caller that joins an empty line learns this from the write that created its entry, and needs no read.
//
// After a release the next waiter holds the lock as soon as one event, the removal of the entry, reaches it. After the
// death of a holder the next waiter holds the lock when that session has expired and its lock-delay, if any, is over,
// see [WithLockDelay].
//
// # Faults
//
// A caller with a grant holds the lock: its entry is the first of the line, and no other can become first while it
// exists. The entry exists until its session ends, the caller gives it up, or another client removes it: [ErrBroken]. A
// call that ends early leaves no entry behind: an entry whose answer was lost is removed as soon as the cluster can be
// reached. All writes are sent again until they are answered ([client.UntilAnswered]), also with [client.FailInFlight].
//
// The paths of recipes are relative to the chroot of the client. Recipes create a missing entry as a container: the
// cluster removes it some time after its last child has gone. All users of the entry at a path must use it for the same
// recipe.
package recipes
