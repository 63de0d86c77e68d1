// Package tree decides about the reads, writes and watches of a client's tree: when each is sent, which are sent again
// after a connection was lost, and what callers and watches receive. The package does no I/O. [Effects] are the results
// for the application.
//
//   - Writes belong to a session and take effect once, in their order. Package writes numbers them; this package sends
//     them where the session is attached (writes.go).
//   - Reads follow the earlier writes of their session (reads.go).
//   - Watches belong to the current connection. When the client moves, the manager asks the new node for all of them,
//     and for the events that the former node had not delivered (watches.go, placed.go, deliver.go).
package tree
