package proposer

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// inFlight is one entry in flight: Raft has the entry and has not answered. Only the goroutine of [Proposer.Run] uses
// an inFlight. A nil inFlight is no entry.
type inFlight struct {
	// proposals wait for the entry, in the order of its commands. They are nil once their callers have got
	// [session.ErrOutcomeUnknown].
	proposals []*proposal
	// deadline is the moment at which the callers get that error.
	deadline time.Time
	// responses carries Raft's one response, and has space for it.
	responses chan response
	// returned is closed once Raft has answered.
	returned chan struct{}
}

// response is Raft's response to an entry: the value of the state machine, or Raft's error.
type response struct {
	value any
	err   error
}

// appendEntry gives an entry to Raft and returns at once. Half of timeout is for the entry's way into Raft's queue.
func appendEntry(r Raft, data []byte, proposals []*proposal, timeout time.Duration) *inFlight {
	f := &inFlight{
		proposals: proposals, deadline: time.Now().Add(timeout),
		responses: make(chan response, 1), returned: make(chan struct{}),
	}
	go func() {
		defer close(f.returned)
		// Raft's timeout covers only the way into Raft's queue, and Raft's future may stay unanswered while a disk
		// hangs (raft#503). So this goroutine waits for both, and Run watches the deadline. Raft never appends an entry
		// that misses its queue. Raft reports the miss at half of the time, before the deadline makes the outcome
		// unknown.
		future := r.Apply(data, timeout/2)
		if err := future.Error(); err != nil {
			f.responses <- response{err: err}
			return
		}
		f.responses <- response{value: future.Response()}
	}()
	return f
}

// response returns the channel of Raft's response, or nil when no entry is in flight.
func (f *inFlight) response() <-chan response {
	if f == nil {
		return nil
	}
	return f.responses
}

// awaited reports whether callers wait for the entry.
func (f *inFlight) awaited() bool { return f != nil && f.proposals != nil }

// results returns one result for each proposal of the entry, or one error for all proposals.
func (r response) results(proposals []*proposal) ([]session.Result, error) {
	if r.err != nil {
		return nil, translate(r.err)
	}
	commands := 0
	for _, q := range proposals {
		if !q.tick {
			commands++
		}
	}
	switch value := r.value.(type) {
	case []session.Result:
		if len(value) == commands {
			return withTicks(proposals, value), nil
		}
	case error:
		// The log has the entry. This node cannot apply it, but other nodes may.
		return nil, outcomeUnknown(value.Error())
	}
	return nil, outcomeUnknown(fmt.Sprintf("the state machine answered %T to %d commands", r.value, commands))
}

// withTicks adds an empty result for each proposal without a command to the results of the commands.
func withTicks(proposals []*proposal, results []session.Result) []session.Result {
	if len(results) == len(proposals) {
		return results
	}
	all := make([]session.Result, len(proposals))
	for i, q := range proposals {
		if !q.tick {
			all[i], results = results[0], results[1:]
		}
	}
	return all
}

// translate is the only translation of Raft's errors. The errors that Raft returns before it appends an entry prove
// that the commands take no effect. Every other error leaves the outcome open (E4 closing mark), also an error that a
// later version of Raft adds.
func translate(err error) error {
	switch {
	case errors.Is(err, raft.ErrNotLeader):
		return fmt.Errorf("proposing: %w", session.ErrNotLeader)
	case errors.Is(err, raft.ErrLeadershipTransferInProgress), errors.Is(err, raft.ErrEnqueueTimeout):
		return fmt.Errorf("proposing: %w: %s", session.ErrNoLeader, err.Error())
	default:
		return outcomeUnknown(err.Error())
	}
}

// outcomeUnknown returns [session.ErrOutcomeUnknown] with the text of the cause. It does not wrap the cause: callers
// act on the unknown outcome alone.
func outcomeUnknown(cause string) error {
	return fmt.Errorf("proposing: %w: %s", session.ErrOutcomeUnknown, cause)
}

// tooLate refuses a command that the Proposer never sent, because Raft did not answer the entry before.
func tooLate(after time.Duration) error {
	return fmt.Errorf("proposing: %w: the log has not moved for %v", session.ErrNoLeader, after)
}
