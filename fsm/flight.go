package fsm

import (
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
)

// flight is one entry on its way through Raft.
type flight struct {
	// proposals are those who wait for it, in the order of the entry's commands; nil once they have been told that the
	// outcome is unknown. Only Run's goroutine uses it.
	proposals []*proposal
	deadline  time.Time
	landed    chan landing
}

// landing is Raft's answer.
type landing struct {
	response any
	err      error
}

// landing returns where the answer of f comes; from no flight, none ever does.
func (f *flight) landing() <-chan landing {
	if f == nil {
		return nil
	}
	return f.landed
}

// depart sends the commands that are next in one entry, nil when there are none.
func (p *Proposer) depart() *flight {
	proposals, data := p.board()
	if len(proposals) == 0 {
		return nil
	}
	f := &flight{proposals: proposals, deadline: time.Now().Add(p.cfg.Timeout), landed: make(chan landing, 1)}
	go func() {
		// Raft's timeout covers only the way into its queue, and its future may never be answered while a disk hangs
		// (raft#503): both waits are this goroutine's, and the deadline is Run's. Half of it for Raft's queue: what
		// does not get in is known not to be appended before the deadline makes it unknown.
		future := p.raft.Apply(data, p.cfg.Timeout/2)
		if err := future.Error(); err != nil {
			f.landed <- landing{err: err}
			return
		}
		f.landed <- landing{response: future.Response()}
	}()
	return f
}

// board takes from the queue what fits into one entry, and returns it with the entry's payload.
func (p *Proposer) board() (proposals []*proposal, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	size := frameSize
	var commands [][]byte
	for q := p.queue.next(); q != nil && len(proposals) < p.cfg.MaxCommands; q = p.queue.next() {
		if len(proposals) > 0 && size+len(q.encoded) > p.cfg.MaxBytes {
			break
		}
		p.queue.take(q)
		size += len(q.encoded)
		proposals, commands = append(proposals, q), append(commands, q.encoded)
	}
	if len(proposals) == 0 {
		return nil, nil
	}
	data = frame(commands)
	p.stats.Entries++
	p.stats.Commands += uint64(len(proposals))
	p.stats.Bytes += uint64(len(data))
	return proposals, data
}

// answer tells the caller of q. The caller holds mu.
func (p *Proposer) answer(q *proposal, a answer) {
	p.pending[q.kind]--
	if !q.abandoned && errors.Is(a.err, session.ErrOutcomeUnknown) {
		p.stats.Unknown++
	}
	q.answer <- a
}

// nextDeadline returns when somebody must be told that they have waited too long; zero when nobody waits.
func (p *Proposer) nextDeadline(f *flight) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.queue.deadline()
	if f != nil && f.proposals != nil && (next.IsZero() || f.deadline.Before(next)) {
		next = f.deadline
	}
	return next
}

// expire tells those who have waited too long. The entry of f stays on its way: no other may be sent before it is
// answered.
func (p *Proposer) expire(f *flight) {
	now := time.Now()
	if f != nil && f.proposals != nil && !now.Before(f.deadline) {
		p.cfg.Logger.Warn("entry is unanswered", "commands", len(f.proposals), "after", p.cfg.Timeout)
		p.deliver(f, landing{err: fmt.Errorf("no answer from raft for %v", p.cfg.Timeout)})
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.queue.each(func(q *proposal) bool { return !now.Before(q.deadline) },
		func(q *proposal) { p.answer(q, answer{err: tooLate(p.cfg.Timeout)}) })
}

// deliver tells those who wait for f.
func (p *Proposer) deliver(f *flight, l landing) {
	proposals := f.proposals
	f.proposals = nil
	results, err := l.results(len(proposals))
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, q := range proposals {
		a := answer{err: err}
		if err == nil {
			a.result = results[i]
		}
		p.answer(q, a)
	}
}

// results returns what the state machine did with each command, or what became of all of them.
func (l landing) results(commands int) ([]session.Result, error) {
	if l.err != nil {
		return nil, translate(l.err)
	}
	switch response := l.response.(type) {
	case []session.Result:
		if len(response) == commands {
			return response, nil
		}
	case error:
		// The log has the entry, and this node cannot apply it: the others may.
		return nil, outcomeUnknown(response.Error())
	}
	return nil, outcomeUnknown(fmt.Sprintf("the state machine answered %T to %d commands", l.response, commands))
}

// translate is the only translation of Raft's errors. Those that it gives before it appends are known not to have taken
// effect; every other one, also one that a later version adds, leaves the outcome open (E4).
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

// outcomeUnknown hides the cause's identity: a caller must see no more than that the outcome is unknown.
func outcomeUnknown(cause string) error {
	return fmt.Errorf("proposing: %w: %s", session.ErrOutcomeUnknown, cause)
}

// tooLate refuses a command that was never sent: the entry before it did not come back.
func tooLate(after time.Duration) error {
	return fmt.Errorf("proposing: %w: the log has not moved for %v", session.ErrNoLeader, after)
}

// stop refuses what waits, and all that comes.
func (p *Proposer) stop() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
	p.refuse(session.ErrStopping)
}

// finish gives the entry that is still on its way the rest of its time.
func (p *Proposer) finish(f *flight, timer *time.Timer) {
	if f == nil || f.proposals == nil {
		return
	}
	timer.Reset(time.Until(f.deadline))
	select {
	case l := <-f.landed:
		p.deliver(f, l)
	case <-timer.C:
		p.expire(f)
	}
}
