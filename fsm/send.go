package fsm

import (
	"context"
	"fmt"
	"time"

	"holdfast/session"
	"holdfast/tree"
)

// Run sends commands until ctx ends. It then refuses the commands in the queue with [session.ErrStopping], gives the
// entry on its way the rest of its time to be answered, and returns nil: no caller is left waiting. When Raft has not
// answered by then, one goroutine of Run stays until Raft does: see [Proposer.Settle]. So stop Run first, then Raft.
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
			p.keep(f)
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

// send gives the next commands of the queue to Raft in one entry; nil when the queue is empty.
func (p *Proposer) send() *inFlight {
	proposals, data := p.nextEntry()
	if len(proposals) == 0 {
		return nil
	}
	return appendEntry(p.raft, data, proposals, p.cfg.Timeout)
}

// nextEntry takes from the queue what fits into one entry, and returns it with the entry's payload.
func (p *Proposer) nextEntry() (proposals []*proposal, data []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	has := load{bytes: frameSize, crowded: p.crowded()}
	next := p.queue.next
	for q := next(); q != nil && len(proposals) < p.cfg.MaxCommands; q = next() {
		if len(proposals) > 0 && !has.roomFor(q, p.cfg.MaxBytes) {
			if q.kind != writes {
				break
			}
			next = p.queue.nextOther // a large write begins the next entry, and what is small need not wait for it
			continue
		}
		p.queue.take(q)
		has.add(q)
		proposals = append(proposals, q)
	}
	if len(proposals) == 0 {
		return nil, nil
	}
	data = make([]byte, frameSize, has.bytes+clocksSize)
	for _, q := range proposals {
		data = append(data, q.encoded...)
		q.encoded = nil
	}
	if p.cfg.Clocks != nil {
		data = p.cfg.Clocks().append(data)
	}
	seal(data)
	p.stats.Entries++
	p.stats.Commands += uint64(len(proposals))
	p.stats.Bytes += uint64(len(data))
	return proposals, data
}

// crowded reports whether arrivals wait, or did lately. The caller holds mu.
func (p *Proposer) crowded() bool {
	if p.queue.arriving.length == 0 {
		return time.Since(p.arrived) < crowdedFor
	}
	p.arrived = time.Now()
	return true
}

// load is what an entry carries so far.
type load struct {
	// cost is that of applying it, weight its work in the tree (U2), standing the number of sessions in commands that are
	// no arrivals.
	bytes, cost, weight, standing int
	// crowded says that arrivals come.
	crowded bool
}

// roomFor reports whether q fits in.
func (l *load) roomFor(q *proposal, maxBytes int) bool {
	if q.kind != arrivals && l.crowded && l.standing > 0 && l.standing+q.work > crowdedWork {
		return false
	}
	return l.bytes+len(q.encoded) <= maxBytes && l.cost+q.cost <= entryCost && l.weight+q.weight <= tree.MaxWeight
}

// add adds q.
func (l *load) add(q *proposal) {
	l.bytes += len(q.encoded)
	l.cost += q.cost
	l.weight += q.weight
	if q.kind != arrivals {
		l.standing += q.work
	}
}

// nextDeadline returns the earliest deadline of the queue and of f; zero when no caller waits.
func (p *Proposer) nextDeadline(f *inFlight) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	next := p.queue.deadline()
	if f.awaited() && (next.IsZero() || f.deadline.Before(next)) {
		next = f.deadline
	}
	return next
}

// timeOut answers the callers whose deadline has passed. The entry of f stays on its way: Run sends no other before
// Raft has answered this one.
func (p *Proposer) timeOut(f *inFlight) {
	now := time.Now()
	if f.awaited() && !now.Before(f.deadline) {
		p.cfg.Logger.Warn("entry is unanswered", "commands", len(f.proposals), "after", p.cfg.Timeout)
		p.deliver(f, response{err: fmt.Errorf("no answer from raft for %v", p.cfg.Timeout)})
	}
	p.mu.Lock()
	late := p.expel(func(q *proposal) bool { return !now.Before(q.deadline) }, tooLate(p.cfg.Timeout))
	p.mu.Unlock()
	late.tell()
}

// deliver tells the callers that wait for f, in the order of the commands.
func (p *Proposer) deliver(f *inFlight, r response) {
	proposals := f.proposals
	f.proposals = nil
	results, err := r.results(proposals)
	p.mu.Lock()
	for _, q := range proposals {
		p.settle(q, err)
	}
	p.mu.Unlock()
	if err != nil {
		refused{proposals, err}.tell()
		return
	}
	for i, q := range proposals {
		q.done(results[i], nil)
	}
}

// stop refuses the commands in the queue, and all that come later.
func (p *Proposer) stop() {
	p.mu.Lock()
	p.stopped = true
	waiting := p.refuse(session.ErrStopping)
	p.mu.Unlock()
	waiting.tell()
}

// finish gives the entry on its way the rest of its time.
func (p *Proposer) finish(f *inFlight, timer *time.Timer) {
	if !f.awaited() {
		return
	}
	timer.Reset(time.Until(f.deadline))
	select {
	case r := <-f.answered:
		p.deliver(f, r)
	case <-timer.C:
		p.timeOut(f)
	}
}

// keep keeps the entry that is on its way when Run ends.
func (p *Proposer) keep(f *inFlight) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = f
}

// Settle waits until Raft has answered the entry that it had not answered when Run ended, or ctx ends. A Raft that
// shuts down answers no entry that it has committed and not applied yet: the goroutine that waits for it would stay.
func (p *Proposer) Settle(ctx context.Context) {
	p.mu.Lock()
	left := p.left
	p.mu.Unlock()
	if left == nil {
		return
	}
	select {
	case <-left.settled:
	case <-ctx.Done():
	}
}
