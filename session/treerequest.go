package session

import "holdfast/tree"

// TreeRead is a read that a connection asks for.
type TreeRead struct {
	// Key is the caller's name for the request, which the answer carries.
	Key   uint64
	Query tree.Query
	// Bytes is what the request takes while it waits (G8).
	Bytes int
}

// TreeAddition adds watches to a connection.
type TreeAddition struct {
	Key      uint64
	Addition tree.Addition
	Bytes    int
}

// TreeWrite is a numbered write that a connection asks for (X1). Its session is one of the connection's, and its
// attachment and principals are known to the connection: those of Write are not read.
type TreeWrite struct {
	Key   uint64
	Write tree.NumberedWrite
	// Trace is the write's place in a trace, nil if it is in none.
	Trace *Trace
}

// TreeTold is what a client is told next: exactly one of Answer and Events is set, or Lost, or none for a stamp alone.
type TreeTold struct {
	Answer *TreeAnswer
	Events []tree.Event
	// Lost says that events of lasting watches up to Told may be missing (V6).
	Lost bool
	// Told is the newest stamp up to which everything was told, once this is sent (G4): also with an answer or events.
	Told tree.Stamp
}

// TreeAnswer is the answer to a request of a [TreeConnection].
type TreeAnswer struct {
	Key uint64
	// Stamp is that of the node's tree for a read, and for a write its own (G4).
	Stamp tree.Stamp
	// Read is what a read found, Wrote what became of a write; nil of other requests.
	Read  *tree.Answer
	Wrote *tree.Result
	// Removed counts the watches that were removed.
	Removed int
	// Err refuses the request. [ErrOutcomeUnknown]: the result of the write is gone.
	Err error
	// Lost says that added watches are not told all that they are owed (V4).
	Lost bool
	// More is set by the answer to an addition in portions that has told a part and added nothing: how far that went.
	More *tree.Portion
}
