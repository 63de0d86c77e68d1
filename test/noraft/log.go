package noraft

import (
	"context"
	"errors"
	"strconv"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
	"holdfast/fsm/entry"
	"holdfast/session"
)

// waiting bounds the proposals that wait for an entry. A proposal beyond it waits until there is room.
const waiting = 1 << 16

// log makes entries of commands and applies them to the state: the [leader.Log] of a cluster in which nothing fails. An
// entry takes commit from the first proposal in it to its end, and holds up to batch commands.
type log struct {
	state     *fsm.State
	commit    time.Duration
	batch     int
	proposals chan *proposal // nil when commit is 0

	// mu makes Apply calls come one after the other, as Raft's apply goroutine does. It is held across Apply and the
	// observers that Apply calls, which is safe because no observer proposes.
	mu    sync.Mutex
	index uint64 // guarded by mu; of the newest entry

	failure sync.Mutex
	failed  error // guarded by failure; why the state has halted
}

// proposal is a command that waits for its entry, and whom to tell what came of it.
type proposal struct {
	command session.Command
	done    func(session.Result, error)
}

func newLog(cfg Config) *log {
	l := &log{commit: cfg.Commit, batch: max(cfg.Batch, 1)}
	if l.commit > 0 {
		l.proposals = make(chan *proposal, waiting)
	}
	l.state = fsm.New(fsm.Config{Logger: cfg.Logger, Fatal: l.halt})
	return l
}

// halt notes why the state has halted. The state calls it, inside of apply.
func (l *log) halt(reason error) {
	l.failure.Lock()
	defer l.failure.Unlock()
	l.failed = reason
}

// halted returns why the state has halted, nil when it has not.
func (l *log) halted() error {
	l.failure.Lock()
	defer l.failure.Unlock()
	return l.failed
}

// apply applies one entry of commands.
func (l *log) apply(commands []session.Command) ([]session.Result, error) {
	data, err := entry.Encode(commands)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.index++
	results, ok := l.state.Apply(&raft.Log{Index: l.index, Term: Term, Data: data}).([]session.Result)
	if !ok {
		return nil, errors.Join(errors.New("apply an entry: the state has halted"), l.halted())
	}
	return results, nil
}

// Propose returns when the command has been applied. Without a commit time the caller's goroutine applies it at once.
// With a commit time the command waits for its entry. When ctx ends meanwhile, the error is
// [session.ErrOutcomeUnknown]; when ctx ends while there is no room to wait, it is that of ctx, and the command never
// enters the log.
func (l *log) Propose(ctx context.Context, c session.Command) (session.Result, error) {
	if l.commit <= 0 {
		return l.one(c)
	}
	type outcome struct {
		result session.Result
		err    error
	}
	told := make(chan outcome, 1)
	p := &proposal{c, func(result session.Result, err error) { told <- outcome{result, err} }}
	select {
	case l.proposals <- p:
	case <-ctx.Done():
		return session.Result{}, ctx.Err()
	}
	select {
	case o := <-told:
		return o.result, o.err
	case <-ctx.Done():
		return session.Result{}, session.ErrOutcomeUnknown
	}
}

// Submit is Propose without a caller that waits. It refuses the command when there is no room to wait.
func (l *log) Submit(c session.Command, done func(session.Result, error)) {
	if l.commit <= 0 {
		done(l.one(c))
		return
	}
	select {
	case l.proposals <- &proposal{c, done}:
	default:
		done(session.Result{}, &session.LimitError{
			Name: "commands", Limit: strconv.Itoa(waiting), RetryAfter: session.BusyRetryAfter,
		})
	}
}

// one applies an entry of one command.
func (l *log) one(c session.Command) (session.Result, error) {
	results, err := l.apply([]session.Command{c})
	if err != nil {
		return session.Result{}, err
	}
	return results[0], nil
}

// run makes entries of the proposals until ctx ends. Without a commit time it has nothing to do.
func (l *log) run(ctx context.Context) {
	if l.commit <= 0 {
		return
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	<-timer.C
	for {
		var waiting []*proposal
		select {
		case p := <-l.proposals:
			waiting = append(waiting, p)
		case <-ctx.Done():
			return
		}
		timer.Reset(l.commit)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		for len(waiting) < l.batch && len(l.proposals) > 0 {
			waiting = append(waiting, <-l.proposals)
		}
		l.conclude(waiting)
	}
}

// conclude applies one entry of proposals, and calls done of each.
func (l *log) conclude(proposals []*proposal) {
	commands := make([]session.Command, len(proposals))
	for i, p := range proposals {
		commands[i] = p.command
	}
	results, err := l.apply(commands)
	for i, p := range proposals {
		if err != nil {
			p.done(session.Result{}, err)
			continue
		}
		p.done(results[i], nil)
	}
}
