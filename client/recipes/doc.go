// Package recipes has what people build on the tree: locks, elections and what else hangs on sessions. Everything works
// for a [client.Session] and ends with it.
//
// # What is granted, and what is promised
//
// A [Grant] is what a caller holds: a lock, a permit, a leadership. It has three answers to the question "may I work?":
//
//   - [Grant.Context] ends before the cluster can have given the lock to another, as far as clocks allow. It ends with
//     the promise of the session (S3), and so also while the holder is cut off from the cluster. Work under it.
//   - [Grant.Token] is the fencing token (F1): the stamp of the grant's entry, higher than those of all grants before.
//     A resource that keeps the highest token, and refuses lower ones, is safe from a holder that was stopped between
//     looking at its context and writing. See package fence.
//   - [Grant.Done] is closed when the grant is over for good: it was given up or taken away, or its session has ended.
//     A grant whose promise ran out is not over: when the promise comes back, [Grant.Context] returns a new context.
//
// # Fairness
//
// Those who wait stand in a line, in the order in which the log made their entries. Each watches the one before it
// alone: 10,000 waiters on a lock cost one wake-up for each release. A waiter whose own entry is removed hears of that
// when its turn comes. Who comes to an empty line learns so from the write that made its entry, and reads nothing.
//
// After a release the next one holds the lock when it has heard of one change, the removal of the entry. After the
// death of a holder it holds it after the expiry of that session, and its lock-delay if it has one, see [WithLinger].
//
// # Faults
//
// A caller that is told a grant has it: its entry is the first of the line, and no other can become first while it
// exists. It exists until its session ends, until it is given up, or until somebody removes it: [ErrBroken]. A call
// that ends early leaves no entry behind: what a lost answer hides is removed as soon as the cluster can be asked. All
// writes are sent again until they are answered ([client.UntilAnswered]), also with [client.FailInFlight].
//
// The paths of recipes are relative to the chroot of the client. An entry that a recipe finds missing is made, as a
// container: the cluster removes it some time after its last child has gone. Everybody who uses the entry at a path
// must use it for the same recipe.
package recipes
