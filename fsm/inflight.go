package fsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// inFlight is one entry on its way through Raft. Only the goroutine of [Proposer.Run] uses it. A nil inFlight is no
// entry.
type inFlight struct {
	// proposals wait for the entry, in the order of its commands. They are nil once their callers have been told that
	// the outcome is unknown.
	proposals []*proposal
	// deadline is when the callers are told so.
	deadline time.Time
	// answered has room for Raft's one response.
	answered chan response
	// settled is closed once Raft has answered.
	settled chan struct{}
}

// response is Raft's response to an entry: what the state machine returned, or Raft's error.
type response struct {
	value any
	err   error
}

// appendEntry gives an entry to Raft and returns at once; half of timeout is for the entry's way into Raft's queue.
func appendEntry(r Raft, data []byte, proposals []*proposal, timeout time.Duration) *inFlight {
	f := &inFlight{
		proposals: proposals, deadline: time.Now().Add(timeout),
		answered: make(chan response, 1), settled: make(chan struct{}),
	}
	go func() {
		defer close(f.settled)
		// Raft's timeout covers only the way into its queue, and its future may stay unanswered while a disk hangs
		// (raft#503). So this goroutine waits for both, and Run watches the deadline. An entry that misses Raft's queue
		// is certainly not appended; Raft says so at half of the time, before the deadline makes the outcome unknown.
		future := r.Apply(data, timeout/2)
		if err := future.Error(); err != nil {
			f.answered <- response{err: err}
			return
		}
		f.answered <- response{value: future.Response()}
	}()
	return f
}

// response returns the channel that carries Raft's response, nil when there is no entry.
func (f *inFlight) response() <-chan response {
	if f == nil {
		return nil
	}
	return f.answered
}

// awaited reports whether callers wait for the entry.
func (f *inFlight) awaited() bool { return f != nil && f.proposals != nil }

// results returns one result for each proposal of the entry, or an error that holds for all of them.
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
		// The log has the entry and this node cannot apply it, but the other nodes may.
		return nil, outcomeUnknown(value.Error())
	}
	return nil, outcomeUnknown(fmt.Sprintf("the state machine answered %T to %d commands", r.value, commands))
}

// withTicks puts empty results between those of an entry's commands, for proposals that put no command into it.
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

// translate is the only translation of Raft's errors. The errors that Raft returns before it appends an entry say that
// the commands take no effect. Every other error leaves the outcome open (E4), also one that a later version of Raft
// adds.
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

// outcomeUnknown returns [session.ErrOutcomeUnknown] with the text of the cause, and nothing that errors.Is could find
// besides: a caller acts on the unknown outcome alone.
func outcomeUnknown(cause string) error {
	return fmt.Errorf("proposing: %w: %s", session.ErrOutcomeUnknown, cause)
}

// tooLate refuses a command that was never sent, because the entry before it got no response.
func tooLate(after time.Duration) error {
	return fmt.Errorf("proposing: %w: the log has not moved for %v", session.ErrNoLeader, after)
}
