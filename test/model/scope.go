package model

import (
	"fmt"
	"strings"
)

// Scope bounds what happens in a history. Within the bounds, faults come in any number, at any place and in any order.
type Scope struct {
	Name string
	// Voters and Observers are the numbers of nodes: n1 leads term 1 when the history begins.
	Voters, Observers uint8
	// Owners holds for each session the index of the node that owns it when the history begins.
	Owners []uint8
	// Prelude lists the steps that begin every history of the scope, in the words of its story. The faults in it do not
	// count.
	Prelude []string
	// Ticks is the length of the history. A tick is the interval between two heartbeats.
	Ticks uint8
	// Timeout is the sessions' timeout. RunFor is how long the tracker's clock runs without a good round (A1: 2
	// intervals). LostAfter is how long a heartbeat stays unanswered until the member is lost (E1: 3 intervals). All
	// are in ticks. The promises must hold for any values; small values bring more events within few ticks.
	Timeout, RunFor, LostAfter uint8
	// Rounds is how many rounds a tracker may begin within a tick (R1: one, and more when sessions are due).
	Rounds uint8
	// Most is how many faults of each kind may happen.
	Most Counts
	// Local makes all sessions start as local sessions of their owners.
	Local bool
	// SlowApply lets nodes apply an entry later than they learn of its commit; otherwise they apply it at once.
	SlowApply bool
	// SlowAnswer lets anything happen between the steps in which a relay answers a heartbeat (R2 heartbeat answers, T1
	// atomic swap).
	SlowAnswer bool
}

// Fault is a kind of fault or request whose number a scope bounds.
type Fault uint8

// The kinds of faults and requests.
const (
	Elections Fault = iota // a node campaigns for a Raft term
	Losses                 // a stream breaks
	Pauses                 // a process stops running for a while
	Suspends               // a machine stops for a while, and its clock with it
	Restarts               // a process restarts with its disk
	Moves                  // a client asks a node to resume its session
	Writes                 // a client writes on behalf of its session
	Refusals               // Raft refuses a close before it appends it
	Upgrades               // a leader appends the upgrade of a local session
	TakeOvers              // a process asks to resume a session that another process holds
	faultKinds
)

func (f Fault) String() string {
	return [faultKinds]string{
		"elections", "losses", "pauses", "suspensions", "restarts", "moves", "writes", "refusals", "upgrades",
		"take-overs",
	}[f]
}

// Counts holds a number for each kind of fault.
type Counts [faultKinds]uint8

func (s *Scope) nodes() int    { return int(s.Voters + s.Observers) }
func (s *Scope) sessions() int { return len(s.Owners) }
func (s *Scope) quorum() int   { return int(s.Voters)/2 + 1 }

// stops reports whether processes may stop running for a while.
func (s *Scope) stops() bool { return s.Most[Pauses]+s.Most[Suspends] > 0 }

// Title is the name of the scope.
func (s *Scope) Title() string { return s.Name }

func (s *Scope) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d voters, %d observers, %d sessions, %d ticks; timeout %d, clock runs for %d, lost after "+
		"%d, %d rounds a tick",
		s.Name, s.Voters, s.Observers, len(s.Owners), s.Ticks, s.Timeout, s.RunFor, s.LostAfter, s.Rounds)
	for f, most := range s.Most {
		if most > 0 {
			fmt.Fprintf(&b, ", %d %v", most, Fault(f))
		}
	}
	if s.Local {
		b.WriteString(", local at first")
	}
	if s.SlowApply {
		b.WriteString(", slow apply")
	}
	if s.SlowAnswer {
		b.WriteString(", slow answers")
	}
	return b.String()
}
