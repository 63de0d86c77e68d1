package leader

import (
	"errors"

	"holdfast/session"
)

// closer proposes to end sessions that are marked as closing, and removes marks (E4 closing mark). Safe for concurrent
// use.
type closer struct {
	log        Log
	term       *term
	heartbeats *heartbeats
	registry   *registry
	wall       *wallClock
	stats      *counters
	// left is [Tree.Weight].
	left func(session.ID) int
}

// ending says why sessions end. by and why become part of a [session.Story].
type ending struct {
	cause   session.Cause
	by, why string
}

// weightOf returns the weight of a session's end (U2 weight).
func (c *closer) weightOf(id session.ID) int { return 1 + c.left(id) }

// submit proposes to end a batch of the given weight (U2), and calls done with the outcome, as [Log.Submit] does.
func (c *closer) submit(end ending, batch []session.Closing, weight int, done func(session.Result, error)) {
	c.log.Submit(session.CloseSessions{
		Term: c.term.number, Cause: end.cause, Credited: c.heartbeats.credit(), MS: c.wall.ms(), Sessions: batch,
		By: end.by, Why: end.why, Weight: weight,
	}, func(result session.Result, err error) { done(result, c.conclude(batch, &result, err)) })
}

// conclude processes the outcome of a batch. It removes the marks of sessions that the state machine did not end, and
// all marks if the command certainly never takes effect. While the outcome is unknown the marks stay, until the log
// decides or the term ends.
func (c *closer) conclude(batch []session.Closing, result *session.Result, err error) error {
	if errors.Is(err, session.ErrOutcomeUnknown) {
		c.stats.unknown.Add(uint64(len(batch)))
		return err
	}
	if err == nil {
		err = result.Err
	}
	for i, one := range batch {
		if err != nil || i >= len(result.Closed) || !result.Closed[i] {
			c.registry.unmark(one)
			c.stats.returned.Add(1)
		}
	}
	return err
}
