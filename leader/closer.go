package leader

import (
	"errors"

	"holdfast/session"
)

// closer proposes to end sessions that are marked as closing, and takes their marks back (E4). Safe for concurrent use.
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

// ending says why sessions end. by and why are those of a [session.Story].
type ending struct {
	cause   session.Cause
	by, why string
}

// weightOf returns how much work the end of a session makes (U2).
func (c *closer) weightOf(id session.ID) int { return 1 + c.left(id) }

// submit proposes to end a batch of some weight (U2), and calls done with what came of it, as [Log.Submit] does.
func (c *closer) submit(end ending, batch []session.Closing, weight int, done func(session.Result, error)) {
	c.log.Submit(session.CloseSessions{
		Term: c.term.number, Cause: end.cause, Credited: c.heartbeats.credit(), MS: c.wall.ms(), Sessions: batch,
		By: end.by, Why: end.why, Weight: weight,
	}, func(result session.Result, err error) { done(result, c.conclude(batch, &result, err)) })
}

// conclude takes in what came of a batch. It takes back the marks of sessions that the state machine left alone, and
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
