package session

import "holdfast/tree"

// TreeRead is a read on a connection.
type TreeRead struct {
	// Key is the caller's name for the request, which the answer carries.
	Key   uint64
	Query tree.Query
	// Bytes is the memory that the request needs while it waits (G8 request bounds).
	Bytes int
}

// TreeAddition adds watches to a connection.
type TreeAddition struct {
	Key      uint64
	Addition tree.Addition
	Bytes    int
}

// TreeWrite is a numbered write on a connection (X1 numbered writes). Its session is one of the connection's. The
// connection itself knows the attachment and the principals: those of Write are not read.
type TreeWrite struct {
	Key   uint64
	Write tree.NumberedWrite
	// Trace is the write's place in a trace, nil without one.
	Trace *Trace
}

// TreeMessage is the next message for a client: exactly one of Answer and Events is set, or Lost, or none for a stamp
// alone.
type TreeMessage struct {
	Answer *TreeAnswer
	Events []tree.Event
	// Lost says that events of lasting watches up to Delivered may be missing (V6 LOST).
	Lost bool
	// Delivered is the newest stamp up to which the client has all events, once this is sent (G4 stamps of answers):
	// also with an answer or events.
	Delivered tree.Stamp
}

// TreeAnswer is the answer to a request of a [TreeConnection].
type TreeAnswer struct {
	Key uint64
	// Stamp is the stamp of the node's tree for a read, and for a write its own (G4).
	Stamp tree.Stamp
	// Read is the result of a read, Wrote the result of a write; nil for other requests.
	Read  *tree.Answer
	Wrote *tree.Result
	// Removed is the number of removed watches.
	Removed int
	// Err refuses the request. [ErrOutcomeUnknown]: the result of the write is gone.
	Err error
	// Lost says that added watches do not get all the events since their stamps (V4 resumed watches).
	Lost bool
	// More is set in the answer to an addition in portions that has sent a part of the events and added nothing: the
	// progress so far.
	More *tree.Portion
}
