// Package proposer puts commands into the log, many in one entry (group commit).
//
// A command passes one queue, then an entry, and then its caller gets the result:
//
//	Submit -> queue -> Run -> entry in flight -> Raft -> state machine -> done
//
// One entry is in flight at a time. The commands that come meanwhile wait in three queues, from which the next entry
// takes its share. Each queue has a reason:
//
//   - changes: moves, closes and the leader's own commands. A cluster has about as many of them as it has sessions.
//     Without this queue, resumes and expiries would wait behind all opens of a crowd of new clients, or behind all
//     writes that clients have queued. Moves and closes share one queue: in two, an expiry could overtake the resume of
//     its session, and end a session whose client is active.
//   - opens: opens, upgrades and claims of ids. Without this queue, a storm of expiries or resumes would starve opens.
//     While other commands wait, opens get one in eight sessions of an entry.
//   - writes: writes to the tree, by connection. Without this queue, a client with one write would wait for all writes
//     that 20 other clients have queued, megabytes each (W9 fair turns).
//
// Results come back in the order of the log. When Raft does not answer in time, the callers get
// [session.ErrOutcomeUnknown], and Run sends no further entry before Raft has answered.
package proposer

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/fsm/entry"
	"holdfast/session"
	"holdfast/session/fair"
)

// Defaults of a [Config].
const (
	DefaultTimeout         = 5 * time.Second
	DefaultEntryCommands   = 1024
	DefaultProposalsQueued = 16_384
	DefaultWriteBytes      = 64 << 20
)

// Config is what a [Proposer] needs. Zero values of the numbers mean the defaults.
type Config struct {
	Logger hclog.Logger
	// Timeout bounds the time of a command in its queue, and then the time of its entry in flight. When it has passed,
	// the callers get an error.
	Timeout time.Duration
	// MaxCommands and MaxBytes bound one entry. An entry carries at least one command of any size.
	MaxCommands int
	MaxBytes    int
	// MaxProposals bounds the commands of each kind that are queued or in flight. The kinds are opens (with upgrades
	// and claims), moves, closes, writes to the tree, and the leader's own commands.
	MaxProposals int
	// MaxWriteBytes bounds the bytes of the writes that are queued or in flight, with writeOverhead for each write (W7
	// size bounds). A [fair.Nested] divides them: a principal has at most three times the free bytes, and a connection
	// at most three times the bytes that this leaves its principal.
	MaxWriteBytes int
	// Clocks, if set, returns the leader's clocks for the next entry (D3 log clock). It must not block.
	Clocks func() entry.Clocks
}

// Raft is the part of *raft.Raft that a [Proposer] uses.
type Raft interface {
	Apply(data []byte, timeout time.Duration) raft.ApplyFuture
}

// Proposer appends commands to the log. It alone translates Raft's errors. Safe for concurrent use.
//
// A [session.Configure] begins a term (R5 start of a tracker). The queued commands belong to an earlier term then, so
// the Proposer refuses them as certainly not appended (E4 closing mark). It sends the Configure when Raft has answered
// the entry in flight. In the log the Configure therefore follows every command of this node's earlier trackers.
type Proposer struct {
	cfg  Config
	raft Raft
	// writeBudget is the bytes of queued and in-flight writes, which principals and their connections share.
	writeBudget *fair.Nested[uint64, session.Source]
	wake        chan struct{} // has room for one signal: a queue has changed

	mu            sync.Mutex
	queue         queues     // guarded by mu
	pending       [kinds]int // proposals that are queued or in flight; guarded by mu
	stopped       bool       // guarded by mu
	opensWaitedAt time.Time  // when opens last waited for an entry; guarded by mu
	encoded       [][]byte   // the commands of an entry, reused by nextEntry; guarded by mu
	stats         Stats      // guarded by mu
	unanswered    *inFlight  // the entry that was in flight when Run ended; guarded by mu
}

// Stats are totals since the start, and the gauge Pending.
type Stats struct {
	// Entries counts the entries that Raft got, Commands the commands in them: Commands/Entries shows the effect of
	// group commit. Bytes counts the bytes of the entries' payloads.
	Entries, Commands, Bytes uint64
	// Unknown counts the commands whose callers got [session.ErrOutcomeUnknown].
	Unknown uint64
	// Pending is the number of commands that are queued or in flight now.
	Pending int
}

// New returns a Proposer that appends through r. It starts nothing: commands wait until [Proposer.Run] runs.
func New(cfg Config, r Raft) *Proposer {
	cfg.Timeout = orDefault(cfg.Timeout, DefaultTimeout)
	cfg.MaxCommands = orDefault(cfg.MaxCommands, DefaultEntryCommands)
	cfg.MaxBytes = orDefault(cfg.MaxBytes, session.EntryBytes)
	cfg.MaxProposals = orDefault(cfg.MaxProposals, DefaultProposalsQueued)
	cfg.MaxWriteBytes = orDefault(cfg.MaxWriteBytes, DefaultWriteBytes)
	cfg.Logger = cfg.Logger.Named("proposer")
	return &Proposer{
		cfg: cfg, raft: r, wake: make(chan struct{}, 1), writeBudget: fair.NewNested[uint64, session.Source](cfg.MaxWriteBytes),
	}
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Submit proposes c and returns at once. This node must lead. Submit calls done exactly once, without a lock: with the
// result when this node has applied c, or with an error. The commands of one entry get their results in the order of
// the log. done must not block. Submit may call done before it returns.
//
// After [session.ErrOutcomeUnknown], Raft may have appended c, or may still append it. Every other error proves that c
// was not appended and never will be (E4): [session.ErrNotLeader]; [session.ErrNoLeader] when another term begins, when
// leadership is being transferred, or when the log does not move; [session.ErrStopping]; a [session.LimitError]; a
// [session.FieldError]. Result.Err is the refusal of the state machine.
func (p *Proposer) Submit(c session.Command, done func(session.Result, error)) {
	q, err := p.proposal(c)
	if err == nil {
		q.done = done
		err = p.enqueue(q)
	}
	if err != nil {
		done(session.Result{}, fmt.Errorf("proposing: %w", err))
	}
}

// Propose is [Proposer.Submit] for a caller that waits for the result. When ctx ends before the Proposer has sent c, c
// is withdrawn and the error is ctx's. When ctx ends later, the outcome is unknown.
func (p *Proposer) Propose(ctx context.Context, c session.Command) (session.Result, error) {
	if err := ctx.Err(); err != nil {
		return session.Result{}, fmt.Errorf("proposing: %w", err)
	}
	q, err := p.proposal(c)
	if err != nil {
		return session.Result{}, fmt.Errorf("proposing: %w", err)
	}
	answers := make(chan answer, 1)
	q.done = func(result session.Result, err error) { answers <- answer{result, err} }
	if err := p.enqueue(q); err != nil {
		return session.Result{}, fmt.Errorf("proposing: %w", err)
	}
	select {
	case a := <-answers:
		return a.result, a.err
	case <-ctx.Done():
	}
	if err := p.withdraw(ctx, q); err != nil {
		return session.Result{}, err
	}
	a := <-answers // done was called, or is about to be called
	return a.result, a.err
}

// proposal returns the proposal of c, without its done.
func (p *Proposer) proposal(c session.Command) (*proposal, error) {
	_, tick := c.(session.Tick)
	var encoded []byte
	if !tick {
		var err error
		if encoded, err = entry.EncodeCommand(c); err != nil {
			return nil, err
		}
	}
	q := &proposal{
		encoded: encoded, kind: kindOf(c), work: workOf(c), cost: costOf(c),
		weight: weightOf(c), tick: tick, deadline: time.Now().Add(p.cfg.Timeout),
	}
	q.charge = q.work
	if command, ok := c.(session.TreeCommand); ok && q.kind == writes {
		q.writeBytes, q.source, q.share.Value = len(encoded)+writeOverhead, command.Source, q
		q.charge = max(q.price()*p.cfg.MaxCommands/p.cfg.MaxBytes, 1)
	}
	return q, nil
}

// writeOverhead is added to the bytes of each write: the budget then bounds the number of writes as MaxProposals does.
const writeOverhead = 4 << 10

// enqueue queues q. If q begins a term, enqueue first refuses all queued proposals.
func (p *Proposer) enqueue(q *proposal) error {
	former, err := p.push(q)
	former.notify()
	return err
}

// push is the part of enqueue under the lock. It returns the proposals that enqueue refuses.
func (p *Proposer) push(q *proposal) (former refused, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return former, session.ErrStopping
	case q.kind == termStarts:
		former = p.refuseAll(fmt.Errorf("%w: another term begins", session.ErrNoLeader))
	case p.pending[q.kind] >= p.cfg.MaxProposals:
		return former, &session.LimitError{
			Name: q.kind.limit(), Limit: strconv.Itoa(p.cfg.MaxProposals),
			RetryAfter: session.BusyRetryAfter,
		}
	case q.kind == writes:
		if q.member = p.writeBudget.Member(q.source.Principal, q.source); !q.member.Acquire(q.writeBytes) {
			q.member.Close()
			return former, &session.LimitError{
				Name: "write_bytes_in_flight", Limit: strconv.Itoa(p.cfg.MaxWriteBytes), RetryAfter: session.BusyRetryAfter,
			}
		}
	}
	p.queue.push(q)
	p.pending[q.kind]++
	p.signal()
	return former, nil
}

// signal wakes Run without blocking: one pending signal is enough.
func (p *Proposer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// withdraw ends the wait of a caller whose ctx has ended. It removes a queued command and returns ctx's error. If the
// command is in flight, the outcome is unknown. It returns nil if done was called or is about to be called.
func (p *Proposer) withdraw(ctx context.Context, q *proposal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.answered {
		return nil
	}
	if q.queued {
		p.queue.remove(q)
		p.release(q)
		return fmt.Errorf("proposing: %w", ctx.Err())
	}
	q.abandoned = true
	p.stats.Unknown++
	return outcomeUnknown(ctx.Err().Error() + " while the entry was in flight")
}

// Waiting reports whether commands are queued for the next entry.
func (p *Proposer) Waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.next() != nil
}

// Stats returns the totals and the gauge.
func (p *Proposer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for _, n := range p.pending {
		s.Pending += n
	}
	return s
}

// refuseAll removes all queued proposals: none was appended or ever will be (E4). The caller holds mu, and calls notify
// afterwards.
func (p *Proposer) refuseAll(err error) refused {
	return p.removeWhile(func(*proposal) bool { return true }, fmt.Errorf("proposing: %w", err))
}

// removeWhile removes proposals from the front of each queue while wanted reports true. The caller holds mu, and calls
// notify afterwards.
func (p *Proposer) removeWhile(wanted func(*proposal) bool, err error) refused {
	r := refused{err: err}
	p.queue.popWhile(wanted, func(q *proposal) {
		p.markAnswered(q, err)
		r.proposals = append(r.proposals, q)
	})
	return r
}

// markAnswered records that done of q is about to be called. q must have left its queue. The caller holds mu.
func (p *Proposer) markAnswered(q *proposal, err error) {
	p.release(q)
	q.answered = true
	if !q.abandoned && errors.Is(err, session.ErrOutcomeUnknown) {
		p.stats.Unknown++
	}
}

// release gives the places and bytes of q back to the bounds. The caller holds mu.
func (p *Proposer) release(q *proposal) {
	p.pending[q.kind]--
	if q.member != nil {
		q.member.Release(q.writeBytes)
		q.member.Close()
	}
}
