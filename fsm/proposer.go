package fsm

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/session/fair"
)

// Defaults of a [ProposerConfig].
const (
	DefaultProposeTimeout  = 5 * time.Second
	DefaultEntryCommands   = 1024
	DefaultEntryBytes      = session.EntryBytes
	DefaultProposalsQueued = 16_384
	DefaultWriteBytes      = 64 << 20
)

// ProposerConfig is what a [Proposer] needs. Zero values of the numbers mean the defaults.
type ProposerConfig struct {
	Logger hclog.Logger
	// Timeout is how long a command may wait in the queue, and how long an entry may then stay unanswered. After it the
	// callers get an error.
	Timeout time.Duration
	// MaxCommands and MaxBytes bound one entry. An entry carries at least one command, whatever its size.
	MaxCommands int
	MaxBytes    int
	// MaxProposals bounds the commands of each kind that wait or are on their way. The kinds are opens (with upgrades
	// and claims), moves, closes, writes to the tree, and the leader's own commands.
	MaxProposals int
	// MaxWriteBytes bounds the bytes of the writes to the tree that wait or are on their way, with writeOverhead for each
	// (W7). It is a [fair.Nested]: a principal has at most three times what is free, and a connection three times what
	// that leaves its principal.
	MaxWriteBytes int
	// Clocks, if set, returns the clocks that go into an entry that is being put together (D3). It must not block.
	Clocks func() Clocks
}

// Raft is the part of *raft.Raft that a [Proposer] uses.
type Raft interface {
	Apply(data []byte, timeout time.Duration) raft.ApplyFuture
}

// Proposer appends commands to the log, many in one entry. One entry is on its way at a time, and the commands that
// come meanwhile go into the next (group commit), in the order of [lanes]. Only a Proposer knows Raft's errors. Safe
// for concurrent use.
//
// A [session.Configure] begins a term (R5). The commands that wait at that moment belong to an earlier term, so the
// Proposer refuses them, as certainly not appended (E4). It sends the Configure after the entry on its way has been
// answered. So in the log the Configure follows every command of this node's earlier trackers, of both lanes.
type Proposer struct {
	cfg  ProposerConfig
	raft Raft
	// written is the room for writes, which principals share, and their connections.
	written *fair.Nested[uint64, session.Source]
	wake    chan struct{} // has room for one signal, which says that the queue has changed

	mu      sync.Mutex
	queue   lanes         // guarded by mu
	pending [kinds]int    // proposals in the queue or on their way; guarded by mu
	stopped bool          // guarded by mu
	arrived time.Time     // when arrivals last waited for an entry; guarded by mu
	stats   ProposerStats // guarded by mu
	left    *inFlight     // the entry that was on its way when Run ended; guarded by mu
}

// ProposerStats are totals since the start, and the gauge Pending.
type ProposerStats struct {
	// Entries and Commands count what was given to Raft; Commands/Entries shows the effect of group commit. Bytes
	// counts the bytes of the entries' payloads.
	Entries, Commands, Bytes uint64
	// Unknown counts the commands whose callers were told that the outcome is unknown.
	Unknown uint64
	// Pending is the number of commands that wait or are on their way now.
	Pending int
}

// NewProposer returns a Proposer that appends through r. It starts nothing: commands wait until [Proposer.Run] runs.
func NewProposer(cfg ProposerConfig, r Raft) *Proposer {
	cfg.Timeout = orDefault(cfg.Timeout, DefaultProposeTimeout)
	cfg.MaxCommands = orDefault(cfg.MaxCommands, DefaultEntryCommands)
	cfg.MaxBytes = orDefault(cfg.MaxBytes, DefaultEntryBytes)
	cfg.MaxProposals = orDefault(cfg.MaxProposals, DefaultProposalsQueued)
	cfg.MaxWriteBytes = orDefault(cfg.MaxWriteBytes, DefaultWriteBytes)
	cfg.Logger = cfg.Logger.Named("proposer")
	return &Proposer{
		cfg: cfg, raft: r, wake: make(chan struct{}, 1), written: fair.NewNested[uint64, session.Source](cfg.MaxWriteBytes),
	}
}

func orDefault[T int | time.Duration](v, otherwise T) T {
	if v <= 0 {
		return otherwise
	}
	return v
}

// Submit proposes c and returns at once. It calls done exactly once, without a lock, when this node, which must lead,
// has applied c, or with an error: commands that share an entry are told in the order in which they are applied. done
// must return soon, and must not block; it may be called before Submit returns. After [session.ErrOutcomeUnknown], c
// may have been appended, or may still be. Every other error says that c was not appended and never will be (E4):
// [session.ErrNotLeader]; [session.ErrNoLeader] when another term begins, leadership is being handed over, or the log
// does not move; [session.ErrStopping]; a [session.LimitError]; a [session.FieldError]. Result.Err is the state
// machine's refusal, if it refused.
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

// Propose is [Proposer.Submit] for a caller that waits for the answer. When ctx ends before c was sent, c never will be
// and the error is ctx's; when ctx ends later, the outcome is unknown.
func (p *Proposer) Propose(ctx context.Context, c session.Command) (session.Result, error) {
	if err := ctx.Err(); err != nil {
		return session.Result{}, fmt.Errorf("proposing: %w", err)
	}
	q, err := p.proposal(c)
	if err != nil {
		return session.Result{}, fmt.Errorf("proposing: %w", err)
	}
	told := make(chan answer, 1)
	q.done = func(result session.Result, err error) { told <- answer{result, err} }
	if err := p.enqueue(q); err != nil {
		return session.Result{}, fmt.Errorf("proposing: %w", err)
	}
	select {
	case a := <-told:
		return a.result, a.err
	case <-ctx.Done():
	}
	if err := p.abandon(ctx, q); err != nil {
		return session.Result{}, err
	}
	a := <-told // it is there, or is being told
	return a.result, a.err
}

// proposal returns the proposal of c, without whom to tell.
func (p *Proposer) proposal(c session.Command) (*proposal, error) {
	_, tick := c.(session.Tick)
	var encoded []byte
	if !tick {
		var err error
		if encoded, err = encodeCommand(c); err != nil {
			return nil, err
		}
	}
	q := &proposal{
		encoded: encoded, kind: kindOf(c), work: workOf(c), cost: costOf(c),
		weight: weightOf(c), tick: tick, deadline: time.Now().Add(p.cfg.Timeout),
	}
	q.passes = q.work
	if command, ok := c.(session.TreeCommand); ok && q.kind == writes {
		q.written, q.source, q.turn.Value = len(encoded)+writeOverhead, command.Source, q
		q.passes = max(q.price()*p.cfg.MaxCommands/p.cfg.MaxBytes, 1)
	}
	return q, nil
}

// writeOverhead is what each write counts beside its command: the room has no more writes than the queue has places.
const writeOverhead = 4 << 10

// enqueue queues q. If q begins a term, enqueue first refuses every proposal in the queue.
func (p *Proposer) enqueue(q *proposal) error {
	former, err := p.push(q)
	former.tell()
	return err
}

// push is enqueue without telling the callers that it refuses.
func (p *Proposer) push(q *proposal) (former refused, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.stopped:
		return former, session.ErrStopping
	case q.kind == termStarts:
		former = p.refuse(fmt.Errorf("%w: another term begins", session.ErrNoLeader))
	case p.pending[q.kind] >= p.cfg.MaxProposals:
		return former, &session.LimitError{
			Name: q.kind.limit(), Limit: strconv.Itoa(p.cfg.MaxProposals),
			RetryAfter: session.BusyRetryAfter,
		}
	case q.kind == writes:
		if q.member = p.written.Member(q.source.Principal, q.source); !q.member.Take(q.written) {
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

// signal wakes Run. It never blocks: a signal that Run has not taken yet is enough.
func (p *Proposer) signal() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// abandon is called when the ctx of a caller has ended. It takes back a command that has not been sent, and returns
// ctx's error. The outcome of a command that has been sent is unknown. It returns nil if the answer is there or is
// being told.
func (p *Proposer) abandon(ctx context.Context, q *proposal) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if q.answered {
		return nil
	}
	if q.queued {
		p.queue.remove(q)
		p.leave(q)
		return fmt.Errorf("proposing: %w", ctx.Err())
	}
	q.abandoned = true
	p.stats.Unknown++
	return outcomeUnknown(ctx.Err().Error() + " while the entry was on its way")
}

// Waiting reports whether commands wait for another entry than the one on its way.
func (p *Proposer) Waiting() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queue.next() != nil
}

// Stats returns the totals and the gauge.
func (p *Proposer) Stats() ProposerStats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	for _, n := range p.pending {
		s.Pending += n
	}
	return s
}

// refuse takes every proposal out of the queue: none was appended or ever will be (E4). The caller holds mu, and tells
// the callers afterwards.
func (p *Proposer) refuse(err error) refused {
	return p.expel(func(*proposal) bool { return true }, fmt.Errorf("proposing: %w", err))
}

// expel takes proposals from the front of each lane as long as they are wanted. The caller holds mu, and tells the
// callers afterwards.
func (p *Proposer) expel(wanted func(*proposal) bool, err error) refused {
	r := refused{err: err}
	p.queue.each(wanted, func(q *proposal) {
		p.settle(q, err)
		r.proposals = append(r.proposals, q)
	})
	return r
}

// settle notes that the caller of q, which must have left the queue, is about to be told. The caller of settle holds
// mu.
func (p *Proposer) settle(q *proposal, err error) {
	p.leave(q)
	q.answered = true
	if !q.abandoned && errors.Is(err, session.ErrOutcomeUnknown) {
		p.stats.Unknown++
	}
}

// leave gives back what q takes of the bounds. The caller holds mu.
func (p *Proposer) leave(q *proposal) {
	p.pending[q.kind]--
	if q.member != nil {
		q.member.Give(q.written)
		q.member.Close()
	}
}
