package sim

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/learner/tree/pending" //nolint:depguard // node.Platform names its types
	"holdfast/node"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/tree"
	"holdfast/tree/writers"
)

// What a cluster with small bounds can hold. The clients that are there beside the heavy one need less than a third
// of each, but for sessions and bytes of the tree, of which there are no shares.
const (
	smallSessions = 200
	smallTree     = 256 << 10
	smallWills    = 96 << 10
	smallWatches  = 24 << 10
	smallResults  = 24
	smallWindow   = 8
)

// narrow reports whether the nodes have small bounds, and one client uses all that it can get: every twelfth seed from
// 6 on. These have three nodes, calm spells, in which it is known how soon all must be served, and nodes that apply
// slowly. Authors and recipes are left out, because they need space in the tree.
func (w *world) narrow() bool { return w.seed%12 == 6 }

// smallBounds are the bounds of narrow's nodes that are no settings.
func (w *world) smallBounds(o *node.Platform) {
	if !w.narrow() {
		return
	}
	o.WatchLimits.Watches, o.WatchLimits.AllWatches = 2*smallWatches, smallWatches
	queue := pending.DefaultLimits()
	queue.Unanswered, queue.Bytes, queue.NodeBytes = smallWindow, 256<<10, 512<<10
	o.Bounds = node.Bounds{
		TreeBytes: smallTree, Writes: queue,
		Writers: writers.Limits{
			Results: smallResults, Bytes: 8 << 10, AllResults: 64 << 10, AllWills: smallWills, Spare: 256, Large: 4 << 10,
		},
	}
}

// heavyHost and nextHost have addresses, so each of the two is a separate principal. All other hosts share one.
const (
	heavyHost = "192.0.2.7"
	nextHost  = "192.0.2.8"
	heavyPath = "/heavy"
	nextPath  = "/next"
)

// heavy is a tenant that fills one budget after the other, holds it for a while, and releases it.
type heavy struct {
	*tenant
	// last is closed when the last fault is over: then the last round ends, and done is closed.
	last, done chan struct{}
	made       int
}

func (w *world) heavy() *heavy {
	return &heavy{tenant: w.tenant(heavyHost), last: make(chan struct{}), done: make(chan struct{})}
}

// round is a heavy client's work with one budget. fill asks for more until it is refused, and returns the refusal; nil
// if there is none within a while. Then the client holds the budget; empty releases it. again asks for a part of it.
type round struct {
	budget history.Budget
	fill   func(ctx context.Context, h *holding) error
	empty  func(ctx context.Context, h *holding)
	again  func(ctx context.Context, h *holding) error
}

// holding is what is held in a round.
type holding struct {
	s        *client.Session
	sessions []*client.Session
	watches  context.CancelFunc
	watching sync.WaitGroup
	end      context.Context //nolint:containedctx // the life of the watches
}

// Times of a heavy client.
const (
	fills     = 8 * time.Second
	holds     = 1500 * time.Millisecond
	gone      = 3 * time.Second // the TTL of its entries
	roomWaits = 2 * recovery
)

func (x *heavy) rounds() []round {
	return []round{
		{
			budget: history.Budget{Name: "max_tree_bytes", Limit: fmt.Sprint(smallTree), Within: gone + 3*time.Second},
			fill:   x.growing, empty: func(context.Context, *holding) {}, again: x.growOnce,
		},
		{
			budget: history.Budget{Name: "will", Limit: "at most", Within: 2 * time.Second},
			fill:   x.bequeathing, empty: x.closing, again: func(ctx context.Context, h *holding) error {
				return x.bequeath(ctx, h.s)
			},
		},
		{
			budget: history.Budget{Name: "watch_bytes_per_node", Limit: fmt.Sprint(smallWatches), Within: 2 * time.Second},
			fill:   x.watchingAll, empty: x.unwatching, again: x.watchOnce,
		},
		{
			budget: history.Budget{
				Name: "max_sessions", Limit: fmt.Sprint(smallSessions), Within: 4 * time.Second,
				Closed: []history.Op{history.Open},
			},
			fill: x.opening, empty: x.closing, again: x.openOnce,
		},
		{
			budget: history.Budget{Name: "transaction", Limit: fmt.Sprint(tree.MaxWeight), Within: time.Second},
			fill:   x.tooHeavy, empty: func(context.Context, *holding) {}, again: x.growAndCut,
		},
		{
			budget: history.Budget{Name: "unanswered_writes", Within: 4 * time.Second},
			fill:   x.volley, empty: func(_ context.Context, h *holding) { h.watching.Wait() },
			again: func(ctx context.Context, h *holding) error { return x.put(ctx, h.s, heavyPath, nil) },
		},
	}
}

// work fills one budget after the other, until the last fault is over or ctx ends.
func (x *heavy) work(ctx context.Context) {
	defer close(x.done)
	all := x.rounds()
	for n := x.draw(len(all)); ctx.Err() == nil && !x.isLast(); n++ {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		x.round(ctx, all[n%len(all)], s)
		x.close(ctx, s)
	}
}

func (x *heavy) isLast() bool {
	select {
	case <-x.last:
		return true
	default:
		return false
	}
}

// conclude ends the last round.
func (x *heavy) conclude() {
	close(x.last)
	<-x.done
}

func (x *heavy) round(ctx context.Context, r round, s *client.Session) {
	h := &holding{s: s}
	h.end, h.watches = context.WithCancel(ctx)
	defer func() {
		h.watches()
		h.watching.Wait()
	}()
	defer func() {
		if ctx.Err() == nil && s.Err() != nil {
			x.w.record.Add(history.Event{Kind: history.BudgetAbandoned, Who: x.name, Budget: &r.budget})
		}
	}()
	sent := x.w.record.Now()
	filling, cancel := context.WithTimeout(ctx, fills)
	err := r.fill(filling, h)
	cancel()
	if err == nil && r.budget.Limit != "" { // a fault was in the way
		r.empty(ctx, h)
		return
	}
	e := history.Event{Kind: history.BudgetExhausted, Who: x.name, Sent: sent, Budget: &r.budget}
	if err != nil {
		e.Text = err.Error()
	}
	x.w.record.Add(e)
	sleep(ctx, holds)
	r.empty(ctx, h)
	e = history.Event{Kind: history.BudgetReleased, Who: x.name, Budget: &r.budget}
	if ctx.Err() != nil || s.Err() != nil {
		return
	}
	x.w.record.Add(e)
	emptied := x.w.record.Now()
	for begun := time.Now(); ctx.Err() == nil && time.Since(begun) < roomWaits; sleep(ctx, 250*time.Millisecond) {
		trying, cancel := context.WithTimeout(ctx, 5*time.Second)
		err = r.again(trying, h)
		cancel()
		if err == nil {
			x.w.record.Add(history.Event{Kind: history.BudgetAvailable, Who: x.name, Sent: emptied, Budget: &r.budget})
			return
		}
		if s.Err() != nil {
			return
		}
	}
}

// refused returns err if a bound caused it.
func refused(err error) error {
	if refusal, ok := errors.AsType[*tree.WriteError](err); ok && refusal.Refused.Code == tree.OverLimit {
		return err
	}
	return nil
}

func (x *heavy) grown(n int) (ops []tree.Op) {
	for range n {
		ops = append(ops, tree.Create{
			Path: heavyPath + "/x-", Sequential: true, Parents: true, Kind: tree.Expiring, TTL: gone,
			Data: make([]byte, 2<<10),
		})
	}
	return ops
}

// growing fills the tree with entries that end on their own.
func (x *heavy) growing(ctx context.Context, h *holding) error {
	for ctx.Err() == nil {
		_, err := h.s.Tree().Transact(ctx, tree.Transaction{Then: x.grown(12)})
		if refused(err) != nil {
			return err
		}
	}
	return nil
}

func (x *heavy) growOnce(ctx context.Context, h *holding) error {
	_, err := h.s.Tree().Transact(ctx, tree.Transaction{Then: x.grown(60)})
	return err
}

// bequeathing sets large wills until the budget is full.
func (x *heavy) bequeathing(ctx context.Context, h *holding) error {
	for ctx.Err() == nil {
		s := x.open(ctx, 2*time.Second)
		if s == nil {
			continue
		}
		h.sessions = append(h.sessions, s)
		if err := x.bequeath(ctx, s); refused(err) != nil {
			return err
		}
	}
	return nil
}

// bequeath sets a will that the end of the session carries out.
func (x *heavy) bequeath(ctx context.Context, s *client.Session) error {
	will := tree.Will{OnClose: true, Transaction: tree.Transaction{Then: []tree.Op{
		tree.Set{Path: heavyPath, Version: tree.Any, Data: make([]byte, 14<<10)},
	}}}
	return x.put(ctx, s, heavyPath, nil, client.WithWill(will))
}

// put creates an entry with data, or sets its data.
func (*heavy) put(
	ctx context.Context, s *client.Session, path string, data []byte, with ...client.WriteOption,
) error {
	_, err := s.Tree().Transact(ctx, tree.Transaction{
		If:   []tree.Condition{{Path: path, Property: tree.Exists, Is: tree.Equal, Value: 1}},
		Then: []tree.Op{tree.Set{Path: path, Version: tree.Any, Data: data}},
		Else: []tree.Op{tree.Create{Path: path, Kind: tree.Persistent, Data: data}},
	}, with...)
	return err
}

// watchingAll watches one path after the other until the budget is full.
func (x *heavy) watchingAll(ctx context.Context, h *holding) error {
	for ctx.Err() == nil {
		if err := x.watchOnce(ctx, h); err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// watchOnce watches a path until the round ends.
func (x *heavy) watchOnce(ctx context.Context, h *holding) error {
	x.made++
	path := fmt.Sprintf("%s/%s%d", heavyPath, strings.Repeat("w", 160), x.made)
	began := make(chan error, 1)
	h.watching.Go(func() {
		for e, err := range h.s.Tree().Watch(h.end, path, tree.WatchPersistent) {
			if err != nil || e.Started {
				select {
				case began <- err:
				default:
				}
			}
		}
	})
	select {
	case err := <-began:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (*heavy) unwatching(ctx context.Context, h *holding) {
	h.watches()
	h.watching.Wait()
	h.end, h.watches = context.WithCancel(ctx)
}

// opening opens sessions until the budget is full. The SDK retries until ctx ends, and reports why.
func (x *heavy) opening(ctx context.Context, h *holding) error {
	for ctx.Err() == nil {
		trying, cancel := context.WithTimeout(ctx, 1500*time.Millisecond)
		s, err := x.tries(trying)
		cancel()
		if errors.Is(err, session.ErrLimit) {
			return err
		}
		if err != nil { // a fault is in the way
			continue
		}
		h.sessions = append(h.sessions, s)
	}
	return nil
}

func (x *heavy) openOnce(ctx context.Context, h *holding) error {
	s, err := x.tries(ctx)
	if err == nil {
		x.close(ctx, s)
	}
	return err
}

// tries is open with its error.
func (x *tenant) tries(ctx context.Context) (*client.Session, error) {
	sent := x.w.record.Now()
	s, err := x.client.Open(ctx, client.SessionOptions{Timeout: x.timeout()})
	if err != nil {
		x.w.record.Add(history.Event{
			Kind: history.Refused, Who: x.name, Sent: sent, Op: history.Open, Unknown: true, Text: err.Error(),
		})
		return nil, err
	}
	x.w.record.Add(x.event(history.Opened, s, sent))
	x.hold(s)
	return s, nil
}

// closing closes the sessions that the round has opened.
func (x *heavy) closing(ctx context.Context, h *holding) {
	var all sync.WaitGroup
	for _, s := range h.sessions {
		all.Go(func() { x.close(ctx, s) })
	}
	all.Wait()
}

// tooHeavy asks for a transaction that weighs more than any may.
func (x *heavy) tooHeavy(ctx context.Context, h *holding) error {
	quota := tree.QuotaPath + heavyPath + "/" + tree.QuotaLimitsName
	_, err := h.s.Tree().Transact(ctx, tree.Transaction{Then: []tree.Op{
		tree.Create{Path: quota, Kind: tree.Persistent, Parents: true}, tree.DeleteTree{Path: heavyPath},
	}})
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the run is over
	}
	return err
}

// growAndCut creates a subtree and removes it: the heaviest possible entries of the log.
func (x *heavy) growAndCut(ctx context.Context, h *holding) error {
	var ops []tree.Op
	for n := range 300 {
		ops = append(ops, tree.Create{
			Path: fmt.Sprintf("%s/d/%d", heavyPath, n), Kind: tree.Persistent, Parents: true,
		})
	}
	_, err := h.s.Tree().Transact(ctx, tree.Transaction{Then: append(ops, tree.DeleteTree{Path: heavyPath + "/d"})})
	return err
}

// volley has more writes in flight than a node accepts of a session, and than may have results.
func (x *heavy) volley(ctx context.Context, h *holding) error {
	for range 6 * smallWindow {
		h.watching.Go(func() { _ = x.put(ctx, h.s, heavyPath, make([]byte, 1<<10)) })
	}
	return nil
}

// neighbour is a client that holds little. It makes a request each half second, and records its duration.
type neighbour struct{ *tenant }

func (x *neighbour) work(ctx context.Context) {
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond)
			continue
		}
		x.founds(ctx, s)
		var beside sync.WaitGroup
		beside.Go(func() { x.every(ctx, s, 0, func(ctx context.Context) error { return x.set(ctx, s) }) })
		x.every(ctx, s, history.Open, x.visit)
		beside.Wait()
	}
}

// every repeats one request while a session lasts.
func (x *neighbour) every(ctx context.Context, s *client.Session, op history.Op, do func(context.Context) error) {
	for ctx.Err() == nil && s.Err() == nil {
		x.probe(ctx, op, do)
		sleep(ctx, 500*time.Millisecond)
	}
}

func (*neighbour) set(ctx context.Context, s *client.Session) error {
	_, err := s.Tree().Transact(ctx, tree.Transaction{Then: []tree.Op{
		tree.Set{Path: nextPath, Version: tree.Any, Data: []byte("12345678")},
	}})
	return err
}

// visit opens a session and closes it.
func (x *neighbour) visit(ctx context.Context) error {
	s, err := x.tries(ctx)
	if err == nil {
		x.close(ctx, s)
	}
	return err
}

// founds makes the entry that is set later.
func (x *neighbour) founds(ctx context.Context, s *client.Session) {
	for ctx.Err() == nil && s.Err() == nil {
		_, err := s.Tree().Transact(ctx, tree.Transaction{Then: []tree.Op{
			tree.Create{Path: nextPath, Kind: tree.Persistent, Data: []byte("12345678")},
		}})
		if err == nil || errors.Is(err, &tree.RefusedError{Code: tree.NodeExists}) {
			return
		}
		sleep(ctx, 500*time.Millisecond)
	}
}

// probe records the outcome of a request. A request that the end of the run or of a session interrupts counts for
// nothing.
func (x *neighbour) probe(ctx context.Context, op history.Op, do func(ctx context.Context) error) {
	asking, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	sent := x.w.record.Now()
	err := do(asking)
	if ctx.Err() != nil {
		return
	}
	e := history.Event{Kind: history.Probed, Who: x.name, Sent: sent, Op: op}
	if err != nil {
		e.Text = err.Error()
	}
	x.w.record.Add(e)
}
