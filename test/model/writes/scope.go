package writes

import (
	"fmt"
	"strings"
)

// Scope bounds what happens in a history. Within the bounds, faults come at any place and in any order.
type Scope struct {
	Name string
	// Numbers is the highest number that a process assigns to a write.
	Numbers uint8
	// Window is how many results a session may hold (X3 kept results).
	Window uint8
	// Most is how many faults of each kind may happen.
	Most Counts
}

// Fault is a kind of fault or request whose number a scope bounds.
type Fault uint8

// The kinds of faults and requests.
const (
	Elections   Fault = iota // another node leads, or the same node once more
	Losses                   // a Forward stream breaks
	Refusals                 // the leader refuses a write that it has not appended
	Restores                 // a node restores a snapshot, or skips entries
	Disconnects              // a client loses its connection
	TakeOvers                // a process takes the session over from the other
	Voids                    // a caller gives up
	Ends                     // the session ends
	Acks                     // a node acknowledges for a quiet session
	Admissions               // a node refuses a write (X8 admission of writes)
	faultKinds
)

func (f Fault) String() string {
	return [faultKinds]string{
		"elections", "losses", "refusals", "restores", "disconnects", "take-overs", "voids", "ends", "acknowledgements",
		"admissions",
	}[f]
}

// Counts holds a number for each kind of fault.
type Counts [faultKinds]uint8

// Title is the name of the scope.
func (s *Scope) Title() string { return s.Name }

func (s *Scope) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d numbers, window %d", s.Name, s.Numbers, s.Window)
	for f, most := range s.Most {
		if most > 0 {
			fmt.Fprintf(&b, ", %d %v", most, Fault(f))
		}
	}
	return b.String()
}
