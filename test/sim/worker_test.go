package sim

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/session"
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

const (
	queuePath = "/yard/queue"
	oncePath  = "/yard/once"
	countPath = "/yard/count"
	groupPath = "/yard/group"
	gatePath  = "/yard/gate"
	meetPath  = "/yard/meet"
	// workers is how many workers a cluster has.
	workers = 3
)

// yard is the state that all workers of a cluster share.
type yard struct {
	*contest
	// key is the number of the newest key that has a job.
	key atomic.Int64
	// met is closed when each worker has met the others after the last fault, missing how many have not.
	met     chan struct{}
	missing atomic.Int64
}

func (w *world) yard() *yard {
	y := &yard{contest: w.contest(), met: make(chan struct{})}
	y.missing.Store(workers)
	return y
}

// staffed reports whether the cluster has workers: in two of seven seeds.
func (w *world) staffed() bool {
	return (w.seed%7 == 2 || w.seed%7 == 5) && !w.narrow() && !without(check.Workers)
}

// worker is a contender that cooperates with others: each of its sessions uses all recipes at once that contenders do
// not use.
type worker struct {
	*contender
	yard *yard
	// expected are the recipes whose last turns the checker waits for.
	expected []string
	// present is the newest view of the group.
	present atomic.Pointer[attendance]
	// metLast reports that the worker has met the others after the last fault.
	metLast bool
}

func (w *world) worker(name string, y *yard) *worker {
	x := &worker{contender: w.contender(name, y.contest), yard: y}
	x.strands = nil
	for _, one := range []struct {
		path   string
		strand strand
	}{
		{queuePath, x.repeat(queuePath, x.job)},
		{oncePath, x.repeat(oncePath, x.errand)},
		{countPath, x.repeat(countPath, x.count)},
		{groupPath, x.attend},
		{gatePath, x.repeat(gatePath, x.pass)},
		{meetPath, x.meet},
	} {
		x.strands, x.expected = append(x.strands, one.strand), append(x.expected, one.path)
	}
	return x
}

// expectTurns records that from now on all activities of the worker must come to an end.
func (x *worker) expectTurns() {
	for _, path := range x.expected {
		x.w.record.Add(history.Event{
			Kind: history.Used, Who: x.name, Use: &history.Use{Path: path, Verb: check.ExpectTurn},
		})
	}
}

// repeat returns the strand that takes one turn after the other. A turn reports whether it has come to its end.
func (x *worker) repeat(path string, turn func(ctx context.Context, s *client.Session, last bool) bool) strand {
	return func(ctx context.Context, s *client.Session) bool {
		for ctx.Err() == nil && s.Err() == nil {
			x.runs()
			last := x.isLast()
			if x.takes(ctx, s, turn, last) && last {
				x.hadLast(s, path)
				return true
			}
			x.rest(ctx, last)
		}
		return false
	}
}

// takes takes a turn. The end of the last fault ends all turns but the last, because other workers may no longer take
// the turn that it waits for.
//
//nolint:revive // flag-parameter: see rest
func (x *worker) takes(
	ctx context.Context, s *client.Session, turn func(context.Context, *client.Session, bool) bool, last bool,
) bool {
	if last {
		return turn(ctx, s, last)
	}
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan struct{})
	defer func() { cancel(); <-ended }()
	go func() {
		defer close(ended)
		select {
		case <-x.last:
			cancel()
		case <-ctx.Done():
		}
	}()
	return turn(ctx, s, last)
}

// rest lets time pass between two turns.
func (x *worker) rest(ctx context.Context, last bool) { //nolint:revive // flag-parameter: it is one of the turn
	if last {
		sleep(ctx, x.between(50*time.Millisecond, 300*time.Millisecond))
	} else {
		x.wait(ctx, x.between(500*time.Millisecond, 5*time.Second))
	}
}

func (x *worker) hadLast(s *client.Session, path string) {
	x.used(s, x.w.record.Now(), history.Use{Path: path, Verb: check.LastTurn}, nil)
}

// used records a call of a recipe, and reports whether it succeeded.
func (x *worker) used(s *client.Session, sent time.Duration, u history.Use, err error) bool {
	e := history.Event{Kind: history.Used, Who: x.name, ID: s.ID(), Sent: sent, Use: &u}
	if err != nil {
		// A write whose result is gone was decided, perhaps with a refusal (X9 writes in the certificate): its caller
		// does not know which.
		e.Text, e.Unknown = err.Error(), errors.Is(err, session.ErrOutcomeUnknown) || errors.Is(err, client.ErrResultGone)
	}
	x.w.record.Add(e)
	return err == nil
}

// conclude waits until all workers have had their last turns, and checks the rest.
func (y *yard) conclude(ctx context.Context, all []*worker) {
	ctx, cancel := context.WithTimeout(ctx, bounds(len(y.w.names)).Turn)
	defer cancel()
	var contenders []*contender
	for _, x := range all {
		contenders = append(contenders, x.contender)
	}
	if !allDone(ctx, contenders) {
		return
	}
	for _, path := range []string{
		queuePath + "/claims", queuePath + "/workers", countPath + "/adding", meetPath + "/inside",
	} {
		y.empty(ctx, all[0].contender, path)
	}
	y.takeRoll(ctx, all)
}

// job puts an item into the queue now and then, and takes one.
//
//nolint:revive // flag-parameter: see rest
func (x *worker) job(ctx context.Context, s *client.Session, last bool) bool {
	q := recipes.NewQueue(s, queuePath)
	if (last || x.draw(2) == 0) && !x.put(ctx, s, q, last) {
		return false
	}
	t := x.turn(s, check.Queue, queuePath)
	if !t.ask(ctx) {
		return false
	}
	t.hold(ctx)
	return true
}

// backlog is how many items a worker finds who puts no more.
const backlog = 6

//
//nolint:revive // flag-parameter: see rest
func (x *worker) put(ctx context.Context, s *client.Session, q *recipes.Queue, last bool) bool {
	asking, cancel := x.withTimeout(ctx, last)
	defer cancel()
	if n, err := q.Len(asking); !last && (err != nil || n > backlog) {
		return true
	}
	sent, data := x.w.record.Now(), fmt.Sprintf("%s item %d", x.name, x.contest.calls.Add(1))
	err := q.Put(asking, []byte(data))
	return x.used(s, sent, history.Use{Path: queuePath, Verb: check.Put, Data: data}, err) || !last
}

// take takes an item, and finishes it or sometimes returns it.
func (t *turn) take(ctx context.Context) error {
	c, err := recipes.NewQueue(t.s, t.claim.Path).Take(ctx)
	if err != nil {
		return err
	}
	t.grant, t.claim.Data = c.Grant, string(c.Data)
	t.release = c.Return
	if t.quick || t.x.draw(4) > 0 {
		t.release = func(ctx context.Context) error { return t.finish(ctx, c) }
	}
	return nil
}

// finish finishes an item, and retries as long as that may help.
func (t *turn) finish(ctx context.Context, c *recipes.Claim) error {
	for {
		sent := t.x.w.record.Now()
		err := c.Finish(ctx)
		e := history.Event{
			Kind: history.Used, Who: t.x.name, ID: t.s.ID(), Sent: sent,
			Use: &history.Use{Path: queuePath, Verb: check.Finish, Data: t.claim.Data, Token: t.claim.Token},
		}
		if err != nil {
			e.Text, e.Unknown = err.Error(), c.Err() == nil
		}
		t.x.w.record.Add(e)
		if err == nil || c.Err() != nil {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(err, c.Return(ctx)) // the removal continues
		}
		sleep(ctx, 100*time.Millisecond)
	}
}

var errErrand = errors.New("the job has failed")

// errand does the job of a key, or learns its result: of the newest key, or of one before it.
func (x *worker) errand(ctx context.Context, s *client.Session, last bool) bool {
	newest := x.yard.key.Load()
	key := max(newest-max(int64(x.draw(8))-4, 0), 0)
	path := fmt.Sprintf("%s/%d", oncePath, key)
	t := x.turn(s, check.Once, path)
	asking, cancel := x.withTimeout(ctx, last)
	defer cancel()
	sent := x.w.record.Now()
	result, first, err := recipes.NewOnce(s, oncePath).Do(asking, fmt.Sprint(key), t.run)
	x.used(s, sent, history.Use{Path: path, Verb: check.Do, Data: string(result), First: first}, err)
	if err != nil {
		return false
	}
	if first && string(result) != t.claim.Name {
		x.w.failAbout(s.ID(), "%s: %q is the result, and not of this call", t.claim.Name, result)
	}
	x.yard.key.CompareAndSwap(key, key+1)
	return true
}

// run is the job of a key. Some fail.
func (t *turn) run(ctx context.Context, token tree.Stamp) ([]byte, error) {
	t.claim.Token = token
	x := t.x
	if !t.sees(ctx) {
		return nil, context.Cause(ctx)
	}
	t.record(history.Granted, nil)
	for range 1 + x.draw(3) {
		t.pause(ctx, x.between(20*time.Millisecond, 700*time.Millisecond))
		x.runs()
		t.write()
	}
	if !t.quick && x.draw(6) == 0 {
		return nil, errErrand
	}
	return []byte(t.claim.Name), nil
}
