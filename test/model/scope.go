package model

import (
	"fmt"
	"strings"
)

// Scope bounds what happens in a history. The faults it counts are chosen freely within it: when, where and in which
// order.
type Scope struct {
	Name string
	// Voters and Observers are the nodes: n1 leads term 1 when the history begins.
	Voters, Observers uint8
	// Owners says for each session which node owns it when the history begins.
	Owners []uint8
	// Prelude is how every history of the scope begins, in the words of its story; faults in it are not counted.
	Prelude []string
	// Ticks is how long the history lasts; a tick is the interval between two heartbeats.
	Ticks uint8
	// Timeout is that of the sessions, RunFor how long the tracker's clock runs without a good round (A1, 2 intervals),
	// LostAfter how long a heartbeat is unanswered until the member is lost (E1, 3 intervals), all in ticks. What is
	// promised must hold whatever they are; smaller ones bring more within few ticks.
	Timeout, RunFor, LostAfter uint8
	// Rounds is how many rounds a tracker may begin within a tick (R1: one, and more when sessions are due).
	Rounds uint8
	// How many of each may happen: campaigns for a Raft term, streams that break, nodes that stop running for a while,
	// machines whose clock stops meanwhile, processes that restart with their disk, resumes that clients ask for,
	// writes on behalf of a session, closes that Raft refuses before it appends them.
	Elections, Losses, Pauses, Suspends, Restarts, Moves, Writes, Refusals uint8
	// Local has all sessions begin as local ones of their owners; Upgrades is how many upgrades are appended, of all
	// together.
	Local    bool
	Upgrades uint8
	// Remembers is how many answers that are not confirmed a relay remembers, 0 for all.
	Remembers uint8
	// TakeOvers is how many resumes a process asks for that does not have the session, of all together.
	TakeOvers uint8
	// SlowApply lets nodes apply what is committed later than they learn it; otherwise they apply it at once.
	SlowApply bool
	// SlowAnswer lets anything happen between the steps in which a relay answers a heartbeat (R2, T1).
	SlowAnswer bool
}

func (s *Scope) nodes() int    { return int(s.Voters + s.Observers) }
func (s *Scope) sessions() int { return len(s.Owners) }
func (s *Scope) quorum() int   { return int(s.Voters)/2 + 1 }

func (s *Scope) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d voters, %d observers, %d sessions, %d ticks; timeout %d, clock runs for %d, lost after "+
		"%d, %d rounds a tick",
		s.Name, s.Voters, s.Observers, len(s.Owners), s.Ticks, s.Timeout, s.RunFor, s.LostAfter, s.Rounds)
	faults := []struct {
		most uint8
		what string
	}{
		{s.Elections, "elections"},
		{s.Losses, "losses"},
		{s.Pauses, "pauses"},
		{s.Suspends, "suspensions"},
		{s.Restarts, "restarts"},
		{s.Moves, "moves"},
		{s.Writes, "writes"},
		{s.Refusals, "refusals"},
		{s.Upgrades, "upgrades"},
		{s.TakeOvers, "take-overs"},
	}
	for _, f := range faults {
		if f.most > 0 {
			fmt.Fprintf(&b, ", %d %s", f.most, f.what)
		}
	}
	if s.Local {
		b.WriteString(", local at first")
	}
	if s.Remembers > 0 {
		fmt.Fprintf(&b, ", %d answers remembered", s.Remembers)
	}
	if s.SlowApply {
		b.WriteString(", slow apply")
	}
	if s.SlowAnswer {
		b.WriteString(", slow answers")
	}
	return b.String()
}
