package succession

import (
	"time"

	"holdfast/session"
)

// Probe asks whether the leader still leads. Its finding comes back with the number.
type Probe struct {
	Number uint64
	Leader session.Node
	Term   uint64
	// Until is when an answer is of no use any more.
	Until time.Time
}

// Canvass asks voters to back this node. Their answers come back with the number.
type Canvass struct {
	Number uint64
	Voters []session.Node
	Question
}

// Campaign makes this node campaign, if Raft is still a follower in the term, and knows the leader or none.
type Campaign struct {
	Leader session.Node
	Term   uint64
	// Opened is the number of connections so far of the leader. Another one since then takes the decision back. With
	// the evidence Silent, a heartbeat does: Raft has received nothing for Silence.
	Opened  uint64
	Silence time.Duration
	// Backers are the voters that back this node, without itself. Evidence is why it finds the leader gone.
	Backers  []session.Node
	Evidence Finding
	// Since is when the probe that found the leader gone began: when the other side ended the leader's last connection,
	// or when another voter asked. With the evidence Silent it is the time of the leader's last heartbeat.
	Since time.Time
}

// Current reports whether the reason to campaign is still there.
func (s Campaign) Current(f Facts) bool {
	if !f.Follows || f.Term != s.Term || f.Leader != 0 && f.Leader != s.Leader {
		return false
	}
	if s.Evidence == Silent {
		return f.Silence >= s.Silence
	}
	l := f.Links(s.Leader)
	return l.Open == 0 && l.Opened == s.Opened
}

// Effects are what to do after an event. Everything else that was to be done before still is.
type Effects struct {
	Probe    *Probe
	Canvass  *Canvass
	Campaign *Campaign
	// Wake is when to call [Machine.Wake] at the latest, the zero time for never.
	Wake time.Time
}
