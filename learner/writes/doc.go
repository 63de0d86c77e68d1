// Package writes is a node's queue of its clients' writes: rules W4, X1, X3, X7 and X8 of docs/tree.md. It takes
// each write of a session once, sends the writes to the leader in order, sends them again whenever a copy may be lost,
// and says which answer goes to which client when the node has applied an entry.
//
// The package is pure: it reads no clock, does no I/O and starts no goroutine. [Table] belongs to one goroutine. The
// bytes of a write are opaque to it, so that the package knows no form of the log.
//
// Why no write is forgotten: of each unanswered write, either a copy was sent since the queue last went back, or the
// write is still to be sent. A copy on the present stream has one of three fates. The leader refuses it, and says so.
// The log takes it, and this node applies it or skips its entry. Or the stream ends. After each of them, but for an
// answer, the queue goes back to its lowest unanswered write.
package writes
