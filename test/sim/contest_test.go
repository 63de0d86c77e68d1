package sim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/fence"
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

const (
	lockPath     = "/contest/lock"
	bookPath     = "/contest/book"
	permitsPath  = "/contest/permits"
	electionPath = "/contest/election"
)

// prize is something that contenders compete for.
type prize struct {
	path string
	// recipes are the ways to hold it; each turn draws one.
	recipes []string
	// lines are where contenders and holders queue.
	lines []string
}

func prizes() []prize {
	return []prize{
		{lockPath, []string{check.Lock}, []string{lockPath}},
		{bookPath, []string{check.ReadLock, check.ReadLock, check.Lock}, []string{bookPath}},
		{permitsPath, []string{check.Semaphore}, []string{permitsPath + "/queue", permitsPath + "/permits"}},
		{electionPath, []string{check.Election}, []string{electionPath}},
	}
}

// guarded is how many resources there are at most.
const guarded = 10_000

// contest is the state that all contenders of a cluster share: the resources behind a fence, to which holders write.
type contest struct {
	w     *world
	guard *fence.Guard
	calls atomic.Int64
}

func (w *world) contest() *contest { return &contest{w: w, guard: fence.NewGuard(guarded)} }

// turn is one call for a grant, and its outcome.
type turn struct {
	x       *contender
	s       *client.Session
	claim   history.Claim
	grant   *recipes.Grant
	release func(context.Context) error
	// observations counts the contexts of the grant that were seen alive. seen is the newest.
	observations int
	seen         context.Context //nolint:containedctx // compared with the next
	// quick reports that it is a last turn: after the last fault, patient and short.
	quick bool
}

// strive takes one turn after the other until ctx or the session ends. After the last fault it takes one more, and
// reports that it has had it.
func (x *contender) strive(ctx context.Context, s *client.Session, p prize) bool {
	for ctx.Err() == nil && s.Err() == nil {
		x.runs()
		if !x.isLast() && x.draw(8) == 0 {
			x.breaks(ctx, s, p)
		}
		t := x.turn(s, p.recipes[x.draw(len(p.recipes))], p.path)
		if t.ask(ctx) {
			t.hold(ctx)
			if t.quick {
				return true
			}
		}
		t.pause(ctx, x.between(100*time.Millisecond, 1500*time.Millisecond))
	}
	return false
}

// turn begins a turn.
func (x *contender) turn(s *client.Session, recipe, path string) *turn {
	name := fmt.Sprintf("%s/%d", x.name, x.contest.calls.Add(1))
	t := &turn{x: x, s: s, quick: x.isLast(), claim: history.Claim{Name: name, Recipe: recipe, Path: path}}
	if path == lockPath {
		t.claim.LockDelay = time.Duration(x.draw(3)) * longestDelay / 2
	}
	return t
}

// record records an event of the turn.
func (t *turn) record(k history.Kind, change func(*history.Event)) {
	claim := t.claim
	e := history.Event{Kind: k, Who: t.x.name, ID: t.s.ID(), Claim: &claim}
	if change != nil {
		change(&e)
	}
	t.x.w.record.Add(e)
}

// ask requests a grant, and reports whether the grant was given. Some calls have short limits, and some do not wait.
func (t *turn) ask(ctx context.Context) bool {
	asking, cancel := t.x.withTimeout(ctx, t.quick)
	defer cancel()
	hasty := !t.quick && t.x.draw(6) == 0
	t.record(history.Awaits, nil)
	err := t.call(asking, hasty)
	if err == nil {
		t.claim.Token = t.grant.Token()
		t.record(history.Granted, nil)
		if t.claim.Recipe == check.Queue {
			t.claim.Recipe, t.claim.Path = check.Item, t.grant.Path()
			t.record(history.Granted, nil)
		}
		return true
	}
	t.record(history.GaveUp, func(e *history.Event) {
		e.Text, e.Claim.Broken = err.Error(), errors.Is(err, recipes.ErrBroken)
		busy, late := hasty && errors.Is(err, recipes.ErrBusy), asking.Err() != nil && errors.Is(err, context.Cause(asking))
		e.Unknown = t.s.Err() == nil && !busy && !late
	})
	return false
}

// withTimeout draws how long a call waits. After the last fault it waits for its turn.
func (x *contender) withTimeout(ctx context.Context, quick bool) ( //nolint:revive // flag-parameter: a turn is the last
	context.Context, context.CancelFunc,
) {
	if quick {
		return context.WithCancel(ctx)
	}
	switch x.draw(8) {
	case 0:
		return context.WithTimeout(ctx, x.between(time.Millisecond, 20*time.Millisecond))
	case 1:
		return context.WithTimeout(ctx, x.between(20*time.Millisecond, 4*time.Second))
	default:
		return context.WithCancel(ctx)
	}
}

// call calls the recipe.
func (t *turn) call(ctx context.Context, hasty bool) error {
	var h *recipes.Hold
	var err error
	named, delay := recipes.WithHolder(t.claim.Name), recipes.WithLockDelay(t.claim.LockDelay)
	switch t.claim.Recipe {
	case check.Semaphore:
		return t.acquire(ctx, hasty)
	case check.Queue:
		return t.take(ctx)
	case check.Election:
		var l *recipes.Leadership
		if l, err = recipes.NewElection(t.s, t.claim.Path).Campaign(ctx, []byte(t.claim.Name)); err == nil {
			t.grant, t.release = l.Grant, l.Resign
		}
		return err
	case check.Lock:
		l := recipes.NewLock(t.s, t.claim.Path, named, delay)
		h, err = either(hasty, l.TryLock, l.Lock)(ctx)
	case check.ReadLock:
		l := recipes.NewLock(t.s, t.claim.Path, named)
		h, err = either(hasty, l.TryRLock, l.RLock)(ctx)
	}
	if err == nil {
		t.grant, t.release = h.Grant, h.Unlock
	}
	return err
}

func (t *turn) acquire(ctx context.Context, hasty bool) error {
	s := recipes.NewSemaphore(t.s, t.claim.Path, check.Permits, recipes.WithHolder(t.claim.Name))
	p, err := either(hasty, s.TryAcquire, s.Acquire)(ctx)
	if err == nil {
		t.grant, t.release = p.Grant, p.Release
	}
	return err
}

func either[F any](first bool, one, other F) F { //nolint:revive // flag-parameter: a drawn value
	if first {
		return one
	}
	return other
}

// hold works under the grant for a while, or until it is lost, and gives it up. Some holders write once more after
// that.
func (t *turn) hold(ctx context.Context) {
	x := t.x
	t.observe() // also in a frozen process: the cluster must respect the context
	till := time.Now().Add(x.between(200*time.Millisecond, 2500*time.Millisecond))
	if t.quick {
		till = time.Now().Add(x.between(50*time.Millisecond, 300*time.Millisecond))
	}
	for t.grant.Err() == nil && ctx.Err() == nil {
		t.work(ctx)
		if !time.Now().Before(till) || !t.quick && x.isLast() {
			break
		}
		t.pause(ctx, x.between(50*time.Millisecond, 500*time.Millisecond))
	}
	t.cede(ctx)
	if !t.quick && x.draw(4) == 0 {
		x.wait(ctx, x.between(0, 4*time.Second))
		t.write()
		t.vouch(ctx)
	}
}

// pause lets time pass between two pieces of work. The end of the last fault ends the pauses of turns before the last.
func (t *turn) pause(ctx context.Context, d time.Duration) {
	if t.quick {
		sleep(ctx, d)
	} else {
		t.x.wait(ctx, d)
	}
}

// work writes to the resource if the grant's context lives. Sometimes the holder is delayed between the check of its
// context and the write.
func (t *turn) work(ctx context.Context) {
	t.x.runs()
	if !t.observe() {
		return
	}
	if !t.quick && t.x.draw(8) == 0 {
		t.x.wait(ctx, t.x.between(300*time.Millisecond, 4*time.Second))
	}
	t.x.runs()
	t.write()
	if t.x.draw(5) == 0 {
		t.vouch(ctx)
	}
}

// observe reports whether the grant's context lives, and records when each of its contexts ends.
func (t *turn) observe() bool {
	return t.sees(t.grant.Context())
}

// sees is observe for a context.
func (t *turn) sees(now context.Context) bool {
	if now.Err() != nil {
		return false
	}
	if now == t.seen {
		return true
	}
	t.seen = now
	t.observations++
	name := fmt.Sprintf("%s.%d", t.claim.Name, t.observations)
	t.record(history.Works, func(e *history.Event) { e.Claim.Name = name })
	context.AfterFunc(now, func() {
		t.record(history.Rests, func(e *history.Event) { e.Claim.Name, e.Text = name, context.Cause(now).Error() })
	})
	return true
}

// write writes to the resource, unless the grant is shared with others: a token does not protect a shared resource.
func (t *turn) write() {
	if t.claim.Recipe == check.ReadLock || t.claim.Recipe == check.Semaphore {
		return
	}
	err := t.x.contest.guard.Do(context.Background(), t.claim.Path, fence.Token(t.claim.Token),
		func(context.Context) error {
			t.record(history.Stored, nil)
			return nil
		})
	stale, refused := errors.AsType[*fence.StaleError](err)
	switch {
	case refused:
		t.record(history.Fenced, func(e *history.Event) { e.Claim.Newest = tree.Stamp(stale.Newest) })
	case err != nil:
		t.x.w.failAbout(t.s.ID(), "%s: %v", t.claim.Name, err)
	}
}

// vouch asks the cluster whether the token is that of the present holder.
func (t *turn) vouch(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	sent := t.x.w.record.Now()
	holds, err := t.x.client.Tree().CheckFence(ctx, t.grant.Path(), t.claim.Token)
	if err == nil {
		t.record(history.FenceChecked, func(e *history.Event) { e.Sent, e.Claim.Holds = sent, holds })
	}
}

// cede gives the grant up. Text stays empty if the cluster has said that it did.
func (t *turn) cede(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), givesUp)
	defer cancel()
	err := t.release(ctx)
	t.record(history.Released, func(e *history.Event) {
		if err != nil {
			e.Text, e.Claim.Broken = err.Error(), errors.Is(err, recipes.ErrBroken)
		}
	})
}

// conclude waits until all contenders have had their last turns, and then checks the lines.
func (c *contest) conclude(ctx context.Context, all []*contender) {
	ctx, cancel := context.WithTimeout(ctx, bounds(c.w.report.Nodes).Turn)
	defer cancel()
	if !allDone(ctx, all) {
		return
	}
	for _, p := range prizes() {
		for _, path := range p.lines {
			c.empty(ctx, all[0], path)
		}
	}
}

// allDone waits until all contenders have had their last turns. It reports false if ctx ends first.
func allDone(ctx context.Context, all []*contender) bool {
	for _, x := range all {
		select {
		case <-x.done:
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// empty waits until the line is empty, and records whether an entry is left.
func (c *contest) empty(ctx context.Context, x *contender, path string) {
	for ctx.Err() == nil {
		page, err := x.client.Tree().ListPage(ctx, path, client.Listing{PageSize: tree.MaxPage}, client.Linearizable())
		gone := errors.Is(err, &tree.RefusedError{Code: tree.NoNode})
		if err == nil || gone {
			claim := &history.Claim{Path: path}
			for _, child := range page.Children {
				claim.Left = append(claim.Left, child.Name)
			}
			c.w.record.Add(history.Event{Kind: history.QueueRead, Who: x.name, Claim: claim})
			if len(claim.Left) == 0 {
				return
			}
		}
		sleep(ctx, 500*time.Millisecond)
	}
}
