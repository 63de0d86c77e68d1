package session

import (
	"errors"
	"fmt"
)

// Errors of a node that is being drained, or is not to be.
var (
	// ErrDraining: see [DrainingError].
	ErrDraining = errors.New("node is being drained")
	// ErrDrainRefused: see [DrainRefusedError].
	ErrDrainRefused = errors.New("node is not drained")
)

// DrainingError is [ErrDraining]: the node is about to be taken away, takes no opens and no resumes of global sessions,
// and did nothing. A client goes elsewhere.
type DrainingError struct {
	// Try are client addresses of nodes that can take the client, in the order in which to try them.
	Try []string
	// DiskFull says that the node stays, and sends its clients away because its disk is full (O5). It takes those that
	// come all the same.
	DiskFull bool
}

func (e *DrainingError) Error() string {
	if e.DiskFull {
		return "the disk of the node is full, and others have room"
	}
	return ErrDraining.Error()
}

// Is makes e an [ErrDraining].
func (e *DrainingError) Is(target error) bool { return target == ErrDraining }

// DrainRefusedError is [ErrDrainRefused]: a node is not drained, because of the others.
type DrainRefusedError struct {
	// Why is the reason, in words.
	Why string
}

func (e *DrainRefusedError) Error() string {
	return fmt.Sprintf("%v: %s; to drain it all the same, force it", ErrDrainRefused, e.Why)
}

// Is makes e an [ErrDrainRefused].
func (e *DrainRefusedError) Is(target error) bool { return target == ErrDrainRefused }

// Aside are the members of a cluster to which no client is sent, as the leader knows them.
type Aside struct {
	// Unheard are those that the leader has not heard lately, Draining those that are being drained, and Full the others
	// whose disks are full (O5). A client is sent to one of Full only if there is no other node.
	Unheard, Draining, Full []Node
}
