package roles

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/members"
	"holdfast/session"
)

// terms leads the terms of this node, one after the other. Each term has a tracker of its own. Only follow, forward,
// tracker and tree are safe for concurrent use; the rest belongs to the goroutine of the role loop.
type terms struct {
	cfg  Config
	tree *leaderTree

	// newest is the newest round of the newest term that this node led.
	newest ledRounds
	// tracker is the tracker of the term that this node leads, and the sums of all terms.
	tracker ledTerms
	// awaited is closed and replaced after tracker has changed.
	awaited awaited
}

func newTerms(cfg Config) *terms {
	t := &terms{cfg: cfg}
	t.tree = &leaderTree{state: cfg.State, tracker: t.tracker.Load, wall: cfg.Clock}
	return t
}

func (t *terms) setTracker(tracker *leader.Tracker) {
	t.tracker.store(tracker)
	t.awaited.happened()
	t.cfg.Announce(tracker != nil)
}

// awaited tells waiters that something has happened. The zero value is valid. Safe for concurrent use.
type awaited struct {
	mu   sync.Mutex
	next chan struct{} // guarded by mu
}

// soon returns a channel that is closed when the next thing happens.
func (a *awaited) soon() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next == nil {
		a.next = make(chan struct{})
	}
	return a.next
}

func (a *awaited) happened() {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.next != nil {
		close(a.next)
		a.next = nil
	}
}

// begun returns the tracker of the term that this node leads, nil when it leads none. Followers learn of a new leader
// before it has committed the command that begins its tracker (R5 start of a tracker). A stream that comes so early
// waits: refused, it would come back a fraction of an interval later, and its node would serve no open meanwhile.
func (t *terms) begun(ctx context.Context) *leader.Tracker {
	ticker := time.NewTicker(t.cfg.Interval / retryFraction)
	defer ticker.Stop()
	for {
		news := t.awaited.soon()
		tracker := t.tracker.Load()
		if tracker != nil || t.cfg.Raft.State() != raft.Leader || t.cfg.Stalled() != nil {
			return tracker
		}
		select {
		case <-news:
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// lead begins a term with a command of its own (R5), and runs its tracker and this node's relay to it until the term
// ends.
func (t *terms) lead(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	begun, err := t.begin(ctx)
	if err != nil {
		return err
	}
	tracker := leader.New(t.configure(begun.Term), t.cfg.Tracer.Log(t.cfg.Log), t.viewOf(begun.Term))
	frozen, cancelObserving := t.cfg.State.Observe(tracker)
	defer cancelObserving()

	t.cfg.Logger.Info("leads", "term", begun.Term)
	t.cfg.Observers.Leads(begun.Term)
	t.setTracker(tracker)
	defer t.setTracker(nil)
	var wg sync.WaitGroup
	wg.Go(func() { t.followSelf(ctx, tracker) })
	wg.Go(func() { members.NewReconciler(t.cfg.Operator, tracker).Run(ctx) })
	wg.Go(func() { t.proposeCapacity(ctx) })
	wg.Go(func() { t.cfg.WatchRounds(ctx, tracker.Good) })
	wg.Go(func() {
		t.awaitLoss(ctx)
		cancel()
	})
	err = tracker.Run(ctx, frozen)
	cancel()
	wg.Wait()
	t.newest = ledRounds{begun.Term, tracker.Newest()}
	return err
}

// configure returns what the tracker of a term is made from.
func (t *terms) configure(term uint64) leader.Config {
	cfg := leader.Config{
		Node:           t.cfg.Node,
		Term:           term,
		After:          t.newest.after(term),
		Interval:       t.cfg.Interval,
		ExpiryInterval: t.cfg.ExpiryInterval,
		Limits:         t.cfg.Limits,
		CheckCapacity:  t.cfg.State.CheckCapacity,
		Part:           t.cfg.State.PartOfRequests,
		Tree: leader.Tree{
			RunningClock: t.tree.time().Running(), Now: t.tree.time, Kept: t.tree.kept,
			Reap: t.tree.reap, Weight: t.tree.weight,
		},
		Logger: t.cfg.Logger,
		Clock:  t.cfg.Clock,
		Ask:    t.cfg.NewestStream,
		Writes: trackerWrites(),
	}
	cfg.OnAnswer = func(from session.Node, sent time.Time) {
		t.cfg.Observers.OnAnswer(term, from, sent)
	}
	cfg.Expires = func(found []session.Closing, late []time.Duration) {
		t.cfg.Tracer.Expired(found, late)
		t.cfg.Observers.Expires(term, found, late)
	}
	return cfg
}

// ledRounds is the newest round of a term that this process led. A leader that stalls for less than the others take to
// elect leads the same term again, with another tracker. No other process does.
type ledRounds struct{ term, newest uint64 }

// after returns the round that a tracker of a term counts on from.
func (l ledRounds) after(term uint64) uint64 {
	if l.term != term {
		return 0
	}
	return l.newest
}

var errRefused = errors.New("the state machine refused the term's first command")

// begin proposes the command that shows this node its term, with this node's limits of the tree. The first command of a
// cluster brings the key of its credentials and its feature level (W8 feature level).
func (t *terms) begin(ctx context.Context) (session.Result, error) {
	begin := session.Configure{Level: session.FeatureLevel, Limits: t.cfg.TreeLimits}
	var nonce [8]byte
	if _, err := rand.Read(begin.Key[:]); err != nil {
		return session.Result{}, err
	}
	if _, err := rand.Read(nonce[:]); err != nil {
		return session.Result{}, err
	}
	begin.Nonce = binary.LittleEndian.Uint64(nonce[:])
	result, err := t.cfg.Log.Propose(ctx, begin)
	switch {
	case err != nil:
		return session.Result{}, err
	case result.Err != nil:
		return session.Result{}, errors.Join(errRefused, result.Err)
	}
	return result, nil
}

// awaitLoss returns when this node leads no more, or stalls. A tracker also finds out by its own rounds (R3 good
// rounds), when leadership is lost and regained between two looks.
func (t *terms) awaitLoss(ctx context.Context) {
	ticker := t.cfg.Pulse.Ticker(t.cfg.Interval) // in case that a signal was lost
	defer ticker.Stop()
	for t.cfg.Raft.State() == raft.Leader && t.cfg.Stalled() == nil {
		select {
		case <-t.cfg.Changed:
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// followSelf keeps this node's relay on its own tracker until ctx ends.
func (t *terms) followSelf(ctx context.Context, tracker *leader.Tracker) {
	for ctx.Err() == nil {
		err := t.followPipe(ctx, tracker)
		if ctx.Err() == nil {
			t.cfg.Logger.Debug("link to the own tracker ended", "error", err)
			_ = session.Sleep(ctx, t.cfg.Interval/retryFraction) // the loop checks ctx
		}
	}
}

func (t *terms) followPipe(ctx context.Context, tracker *leader.Tracker) error {
	p := newPipe(ctx)
	var wg sync.WaitGroup
	var served error
	hello := t.cfg.Streams.next()
	wg.Go(func() {
		served = errors.Join(tracker.Follow(p.ctx, hello, t.cfg.Tracer.FromNode(leaderEnd{p})), p.Close())
	})
	forward := session.ForwardHello{Node: hello.Node, Incarnation: hello.Incarnation, Term: tracker.Term()}
	own := tracedToLeader(t.cfg.Tracer, ownLink{learnerEnd{p}, t.cfg.Tracer, tracker, forward})
	err := errors.Join(t.cfg.Learner.Follow(own), p.Close())
	wg.Wait()
	return errors.Join(err, served)
}

// follow hands the stream of a member to the tracker of the term that this node leads.
func (t *terms) follow(ctx context.Context, hello session.Hello, link leader.Link) error {
	tracker := t.begun(ctx)
	if tracker == nil {
		return &session.NotLeaderError{}
	}
	err := tracker.Follow(ctx, hello, t.cfg.Tracer.FromNode(link))
	switch {
	case errors.Is(err, leader.ErrTermOver):
		return &session.NotLeaderError{}
	case errors.Is(err, leader.ErrDirectory):
		return &session.FieldError{
			Field: "hello.directory",
			Limit: fmt.Sprintf("the data directory that the configuration names for node %d; a node on a new one is "+
				"taken in by the leader", hello.Node),
		}
	case errors.Is(err, leader.ErrSuperseded):
		return &session.FieldError{
			Field: "hello.incarnation",
			Limit: fmt.Sprintf("above that of the newest stream of node %d; if no second process runs on a copy of "+
				"its data directory, an older copy was put back, which has forgotten votes: empty it", hello.Node),
		}
	}
	return err
}

// proposeCapacity has the log say this node's bounds (O4 state limits) while this node leads. It looks again in each
// heartbeat interval, because a proposal may fail. No proposal of a former leader comes after one of this term.
func (t *terms) proposeCapacity(ctx context.Context) {
	want := t.cfg.Capacity
	ticker := t.cfg.Pulse.Ticker(t.cfg.Interval)
	defer ticker.Stop()
	for {
		if t.cfg.State.Usage().Capacity != want {
			t.setCapacity(ctx, want)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (t *terms) setCapacity(ctx context.Context, want session.Capacity) {
	if _, err := t.cfg.Log.Propose(ctx, session.SetCapacity{Capacity: want}); err != nil {
		t.cfg.Logger.Debug("capacity not set", "error", err)
		return
	}
	t.cfg.Logger.Info("capacity set", "max_sessions", want.MaxSessions, "max_state_bytes", want.MaxBytes)
}
