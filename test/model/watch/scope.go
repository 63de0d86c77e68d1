package watch

import (
	"fmt"
	"strings"
)

// Scope bounds what happens in a history. Within the bounds, faults come at any place and in any order.
type Scope struct {
	Name string
	// Entries bounds the log. Shapes are the kinds of its entries: a bit for each.
	Entries, Shapes uint8
	// There says which entries of the tree exist at the beginning: a bit for each.
	There uint8
	// Watches are the client's possible watches.
	Watches kinds
	// Ring bounds the changes of a ring, Feed the unsent events of lasting watches, and Replay the collected events of
	// a watch with due events.
	Ring, Feed, Replay uint8
	// Batch is how many watches a question names at most.
	Batch uint8
	// Most is how many faults and requests of each kind may come.
	Most Counts
}

// Fault is a kind of fault or request whose number a scope bounds.
type Fault uint8

// The kinds of faults and requests.
const (
	Disconnects Fault = iota // the client loses its connection
	Restores                 // a node restores a snapshot
	Restarts                 // a node's process restarts
	Begun                    // a lasting watch begins
	Dropped                  // a lasting watch ends
	Read                     // a read sets a one-shot
	Besides                  // a read through another connection sets one
	faultKinds
)

func (f Fault) String() string {
	return [faultKinds]string{
		"disconnects", "restores", "restarts", "watches begun", "watches ended", "reads", "reads beside",
	}[f]
}

// Counts holds a number for each kind.
type Counts [faultKinds]uint8

// Title is the name of the scope.
func (s *Scope) Title() string { return s.Name }

func (s *Scope) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d entries, ring %d, feed %d, replay %d", s.Name, s.Entries, s.Ring, s.Feed, s.Replay)
	for f, most := range s.Most {
		if most > 0 {
			fmt.Fprintf(&b, ", %d %v", most, Fault(f))
		}
	}
	return b.String()
}
