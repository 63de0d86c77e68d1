package learner

import (
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// health is what keeps clients from being sure that their touches count.
type health uint8

const (
	// plightNone: good rounds are heard of.
	healthy health = iota
	// plightJeopardy: none was for long enough that touches may not count (S4).
	healthJeopardy
	// plightReadOnly: and the node has become read-only since (N1).
	healthReadOnly
)

// jeopardyIntervals is how many intervals without a good round put clients in jeopardy (S4).
const jeopardyIntervals = 3

// judge looks at the node's health and tells it to every connection that was told otherwise. Only Run calls it, so
// clients hear of its changes in order.
func (s *Server) judge(now time.Duration) {
	readOnly := s.mode(now) == session.ModeReadOnly
	s.mu.Lock()
	quiet, _ := s.standing.quiet(now)
	is := healthJeopardy
	switch {
	case quiet <= s.jeopardyAfter(): // also when a good round was heard of since the mode was looked at
		is = healthy
	case readOnly:
		is = healthReadOnly
	}
	since, known, was := s.goodAt, s.goodRound > 0, s.health
	s.health = is
	var tell []*connection
	for c := range s.connections {
		if c.told != is {
			c.told = is
			tell = append(tell, c)
		}
	}
	s.mu.Unlock()

	// A node that has just started has lost nothing yet.
	if was != is && (known || len(tell) > 0 || is == healthReadOnly || was == healthReadOnly) {
		s.logPlight(was, is, "good", since, "connections", len(tell))
	}
	for _, c := range tell {
		if is == healthy {
			c.events.JeopardyEnded()
		} else {
			c.events.Jeopardy(since, s.cfg.Try())
		}
	}
}

func (s *Server) logPlight(was, is health, args ...any) {
	level, word := hclog.Info, "jeopardy is over"
	switch {
	case is == healthReadOnly:
		level, word = hclog.Warn,
			"read-only: no good round for long: reads of the applied state are served, writes are refused"
	case is == healthJeopardy && was == healthReadOnly:
		level, word = hclog.Warn, "no longer read-only, and no good round: clients are in jeopardy"
	case is == healthJeopardy:
		level, word = hclog.Warn, "no good round: clients are in jeopardy"
	case was == healthReadOnly:
		word = "no longer read-only: jeopardy is over"
	}
	s.cfg.Logger.Log(level, word, args...)
}
