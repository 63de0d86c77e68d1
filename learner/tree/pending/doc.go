// Package pending holds the writes of a node's clients until they are answered: rules W4, X1, X3, X7 and X8 of
// docs/tree.md. It accepts each write of a session once, orders the writes for the leader, and sends them again
// whenever a copy may be lost.
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine. [Table] belongs to one goroutine. The
// bytes of a write are opaque to the package, which does not know the form of the log.
//
// Why no write is forgotten: for each pending write, either a copy was sent since the session's queue last went back,
// or the write is still to be sent. A copy on the present stream has one of three fates. The leader sends a refusal;
// the log gets the copy, and this node applies or skips its entry; or the stream ends. Afterwards the queue goes back
// to its lowest pending write, unless this write was answered.
package pending
