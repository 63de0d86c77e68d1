package session

import (
	"errors"
	"fmt"
)

// Errors of a node that is being drained, or must not be.
var (
	// ErrDraining: see [DrainingError].
	ErrDraining = errors.New("node is being drained")
	// ErrDrainRefused: see [DrainRefusedError].
	ErrDrainRefused = errors.New("node is not drained")
)

// DrainingError is [ErrDraining]: the node is being drained and has refused the request, an open or resume of a global
// session. A client moves to another node.
type DrainingError struct {
	// Try are client addresses of nodes that can serve the client, in the order in which to try them.
	Try []string
	// DiskFull says that the node stays, and sends its clients away because its disk is full (O5 full disks). It still
	// serves clients that stay.
	DiskFull bool
}

func (e *DrainingError) Error() string {
	if e.DiskFull {
		return "the node's disk is full, and other nodes have space: use one of them"
	}
	return ErrDraining.Error()
}

// Is makes e an [ErrDraining].
func (e *DrainingError) Is(target error) bool { return target == ErrDraining }

// DrainRefusedError is [ErrDrainRefused]: a node is not drained because of the state of the others.
type DrainRefusedError struct {
	// Why is the reason, for people.
	Why string
}

func (e *DrainRefusedError) Error() string {
	return fmt.Sprintf("%v: %s; to drain it all the same, force it", ErrDrainRefused, e.Why)
}

// Is makes e an [ErrDrainRefused].
func (e *DrainRefusedError) Is(target error) bool { return target == ErrDrainRefused }

// Excluded are the members of a cluster to which no client is sent, as far as the leader knows.
type Excluded struct {
	// Unreachable are the unresponsive members, Draining the members that are being drained, and Full the other members
	// with full disks (O5). Clients move to a node of Full only if no other node is left.
	Unreachable, Draining, Full []Node
}
