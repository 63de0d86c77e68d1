package queue

import (
	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// Order decides which requests may run together with a request.
type Order uint8

const (
	// InOrder means that the node answers the request in the order of the session's requests.
	InOrder Order = iota
	// Paged is like InOrder if the request needs one read. If it needs more, later requests wait from then on, and
	// later requests in flight are restarted. So only a Repeatable request starts behind a Paged request.
	Paged
	// Barrier makes later requests wait until the request is answered, because it needs several steps.
	Barrier
	// Exclusive says that the request starts when nothing is in flight, and later requests wait until it is answered.
	Exclusive
)

// Request is a client's request until it is answered.
type Request struct {
	jute.Request
	// Bytes is the approximate memory of the request.
	Bytes int
	Order Order
	// Repeatable: the request changes nothing, not even watches, so its answer may be dropped and requested again.
	Repeatable bool
	// RestoresWatches reports whether the request restores the watches of a client that was away.
	RestoresWatches bool
	// Write is the transaction of a write. The queue numbers and sends it; Send is then unused.
	Write *tree.Transaction
	// Send hands the request to the node under a key. An error ends the connection.
	Send Send
	// Reply makes the reply from the node's answer, or returns the next step. An error ends the connection.
	Reply func(a *session.TreeAnswer) (reply *jute.Encoder, next *Step, err error)

	// charged is the memory that the queue has counted at the node for the request ([Tree.Hold]).
	charged int
}

// Send hands a request to the node. The node's answer has the same key.
type Send func(key uint64) error

// Step is a further request to the node that a request needs before its reply.
type Step struct {
	Send Send
	// Gathered is how many bytes of earlier answers the request keeps meanwhile (G8 request bounds).
	Gathered int
}
