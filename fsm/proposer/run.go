package proposer

import (
	"context"
	"fmt"
	"time"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/tree"
)

// Run sends commands until ctx ends. It then refuses the queued commands with [session.ErrStopping], waits for the
// entry in flight until its deadline, and returns nil: every caller has its result. If Raft has not answered by then,
// one goroutine of Run stays until Raft answers: see [Proposer.WaitUnanswered]. So stop Run first, then Raft.
func (p *Proposer) Run(ctx context.Context) error {
	timer := time.NewTimer(p.cfg.Timeout)
	defer timer.Stop()
	var f *inFlight
	for {
		if f == nil && ctx.Err() == nil {
			f = p.send()
		}
		if at := p.nextDeadline(f); at.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			p.stop()
			p.finish(f, timer)
			p.keepUnanswered(f)
			return nil
		case <-p.wake:
		case r := <-f.response():
			p.deliver(f, r)
			f = nil
		case <-timer.C:
			p.timeOut(f)
		}
	}
}

// send gives the next commands to Raft in one entry. It returns nil when the queues are empty.
func (p *Proposer) send() *inFlight {
	proposals, data := p.nextEntry()
	if len(proposals) == 0 {
		return nil
	}
	return appendEntry(p.raft, data, proposals, p.cfg.Timeout)
}

// nextEntry removes the commands of the next entry from the queues, and returns them with the entry's payload.
func (p *Proposer) nextEntry() (proposals []*proposal, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := entryLoad{bytes: entry.FrameSize, opensWait: p.opensWait()}
	next := p.queue.next
	for q := next(); q != nil && len(proposals) < p.cfg.MaxCommands; q = next() {
		if len(proposals) > 0 && !has.fits(q, p.cfg.MaxBytes) {
			if q.kind != writes {
				break
			}
			next = p.queue.nextNoWrite // the large write begins the next entry; smaller commands need not wait for it
			continue
		}
		p.queue.removeSent(q)
		has.add(q)
		proposals = append(proposals, q)
	}
	if len(proposals) == 0 {
		return nil, nil
	}
	encoded := p.encoded[:0]
	for _, q := range proposals {
		encoded, q.encoded = append(encoded, q.encoded), nil
	}
	var clocks entry.Clocks
	if p.cfg.Clocks != nil {
		clocks = p.cfg.Clocks()
	}
	data = entry.Join(encoded, clocks)
	clear(encoded)
	p.encoded = encoded
	p.stats.Entries++
	p.stats.Commands += uint64(len(proposals))
	p.stats.Bytes += uint64(len(data))
	return proposals, data
}

// opensWait reports whether opens wait, or waited within opensWaitFor. The caller holds mu.
func (p *Proposer) opensWait() bool {
	if p.queue.opens.length == 0 {
		return time.Since(p.opensWaitedAt) < opensWaitFor
	}
	p.opensWaitedAt = time.Now()
	return true
}

// entryLoad is the load of an entry so far.
type entryLoad struct {
	// cost is the cost of applying the entry, weight its work in the tree (U2 weight), sessions the number of sessions
	// that its changes and writes have.
	bytes, cost, weight, sessions int
	// opensWait says that opens come.
	opensWait bool
}

// fits reports whether the entry has space for q.
func (l *entryLoad) fits(q *proposal, maxBytes int) bool {
	if q.kind != opens && l.opensWait && l.sessions > 0 && l.sessions+q.work > workWithOpens {
		return false
	}
	return l.bytes+len(q.encoded) <= maxBytes && l.cost+q.cost <= entryCost && l.weight+q.weight <= tree.MaxWeight
}

// add adds q.
func (l *entryLoad) add(q *proposal) {
	l.bytes += len(q.encoded)
	l.cost += q.cost
	l.weight += q.weight
	if q.kind != opens {
		l.sessions += q.work
	}
}

// nextDeadline returns the earliest deadline of the queues and of f, or zero when no caller waits.
func (p *Proposer) nextDeadline(f *inFlight) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.queue.deadline()
	if f.awaited() && (next.IsZero() || f.deadline.Before(next)) {
		next = f.deadline
	}
	return next
}

// timeOut answers the callers whose deadline has passed. The entry of f stays in flight: Run sends the next entry only
// after Raft has answered f.
func (p *Proposer) timeOut(f *inFlight) {
	now := time.Now()
	if f.awaited() && !now.Before(f.deadline) {
		p.cfg.Logger.Warn("no answer from raft to an entry", "commands", len(f.proposals), "after", p.cfg.Timeout)
		p.deliver(f, response{err: fmt.Errorf("no answer from raft for %v", p.cfg.Timeout)})
	}
	p.mu.Lock()
	late := p.removeWhile(func(q *proposal) bool { return !now.Before(q.deadline) }, tooLate(p.cfg.Timeout))
	p.mu.Unlock()
	late.notify()
}

// deliver calls done for the proposals of f, in the order of the commands.
func (p *Proposer) deliver(f *inFlight, r response) {
	proposals := f.proposals
	f.proposals = nil
	results, err := r.results(proposals)
	p.mu.Lock()
	for _, q := range proposals {
		p.markAnswered(q, err)
	}
	p.mu.Unlock()
	if err != nil {
		refused{proposals, err}.notify()
		return
	}
	for i, q := range proposals {
		q.done(results[i], nil)
	}
}

// stop refuses the queued commands and all later commands.
func (p *Proposer) stop() {
	p.mu.Lock()
	p.stopped = true
	waiting := p.refuseAll(session.ErrStopping)
	p.mu.Unlock()
	waiting.notify()
}

// finish waits for the entry in flight until its deadline.
func (p *Proposer) finish(f *inFlight, timer *time.Timer) {
	if !f.awaited() {
		return
	}
	timer.Reset(time.Until(f.deadline))
	select {
	case r := <-f.responses:
		p.deliver(f, r)
	case <-timer.C:
		p.timeOut(f)
	}
}

// keepUnanswered keeps the entry that is in flight when Run ends.
func (p *Proposer) keepUnanswered(f *inFlight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unanswered = f
}

// WaitUnanswered waits until Raft has answered the entry that was in flight when Run ended, or until ctx ends. A Raft
// that shuts down never answers an entry that it has committed and not applied: without this wait before the shutdown,
// the goroutine that waits for the entry would stay.
func (p *Proposer) WaitUnanswered(ctx context.Context) {
	p.mu.Lock()
	left := p.unanswered
	p.mu.Unlock()
	if left == nil {
		return
	}
	select {
	case <-left.returned:
	case <-ctx.Done():
	}
}
