package leader

import (
	"context"
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
}

// close proposes to end a batch, and returns what came of it.
func (c *closer) close(ctx context.Context, cause session.Cause, batch []session.Closing) (session.Result, error) {
	result, err := c.log.Propose(ctx, c.command(cause, batch))
	return result, c.conclude(batch, &result, err)
}

// command returns the command that ends a batch.
func (c *closer) command(cause session.Cause, batch []session.Closing) session.CloseSessions {
	return session.CloseSessions{
		Term: c.term.number, Cause: cause, Credited: c.heartbeats.credit(), MS: c.wall.ms(), Sessions: batch,
	}
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
