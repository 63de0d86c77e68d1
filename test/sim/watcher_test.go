package sim

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/client"
	"holdfast/test/sim/check"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// watcher is a tenant that watches the tree, with sessions or without. It watches in spells: each starts some watches,
// reads for a while, and ends them. A watcher with sessions also keeps a mirror, and a watcher without also watches
// sessions.
type watcher struct {
	*tenant
	// holds: it holds sessions. Without sessions it breaks its own connections.
	holds bool
	// as are its principals, besides anyone.
	as    []tree.Principal
	names atomic.Int64
	// last is closed when the last fault is over: then the last spell ends, and done is closed.
	last, done chan struct{}
}

// knownWatcher is the watcher that lists may name; the others are anonymous.
const knownWatcher, otherWatcher = "o1", "o2"

func (w *world) watcher(name string, holds bool) *watcher {
	x := &watcher{holds: holds, last: make(chan struct{}), done: make(chan struct{})}
	if name == knownWatcher {
		x.tenant, x.as = w.known(name), []tree.Principal{principal(name)}
	} else {
		x.tenant = w.tenant(name)
	}
	return x
}

// keepsToTell returns how many changes a node keeps for watches, and how many events may be unsent to a connection; 0
// is the default. Where it keeps little, a burst is more than a connection may have unsent, and clients that come back
// find that the ring has gone on.
func (w *world) keepsToTell() (changes, unsent int) {
	switch w.seed % 3 {
	case 0:
		return 0, 0
	case 1:
		return 40, 0
	default:
		return 200, 10
	}
}

// work watches in one spell after the other, until the last fault is over or ctx ends.
func (x *watcher) work(ctx context.Context) {
	defer close(x.done)
	for ctx.Err() == nil && !x.isLast() {
		if _, err := x.client.Tree().Sync(ctx); err == nil {
			break
		}
		x.wait(ctx, 500*time.Millisecond) // no node has applied the founding yet
	}
	var beside sync.WaitGroup
	defer beside.Wait()
	if x.holds {
		beside.Go(func() { x.mirror(ctx) })
	} else {
		beside.Go(func() { x.hearSessions(ctx) })
	}
	for ctx.Err() == nil {
		t := x.client.Tree()
		if x.holds {
			s := x.open(ctx, 30*time.Second)
			if s == nil {
				x.wait(ctx, 500*time.Millisecond) // the open may have been refused at once
				if x.isLast() {
					return // testify finds that no session can be opened
				}
				continue
			}
			t = s.Tree()
		}
		x.spell(ctx, t)
		if x.isLast() {
			return
		}
		if held := x.all(); len(held) > 2 {
			x.close(ctx, held[0])
		}
	}
}

// wait waits, and no longer than until the last fault is over.
func (x *watcher) wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	case <-x.last:
	}
}

func (x *watcher) isLast() bool {
	select {
	case <-x.last:
		return true
	default:
		return false
	}
}

// name returns the name of a new watch.
func (x *watcher) newName() string { return fmt.Sprintf("%s/%d", x.name, x.names.Add(1)) }

// watchers of a spell.
type spell struct {
	x       *watcher
	t       *client.Tree
	lasting []*lasting
	waits   []*waiting
	running sync.WaitGroup
}

// lasting is a lasting watch. slow reports that its reader stops reading now and then.
type lasting struct {
	name  string
	slow  bool
	began atomic.Bool
}

// waiting is a one-shot that has not fired.
type waiting struct {
	name string
	once *client.OneShot
}

// spell watches for a while.
func (x *watcher) spell(ctx context.Context, t *client.Tree) {
	watching, end := context.WithCancel(ctx)
	defer end()
	p := &spell{x: x, t: t}
	for range 1 + x.draw(3) {
		p.begin(watching)
	}
	for range 6 + x.draw(12) {
		if ctx.Err() != nil || x.isLast() {
			break
		}
		p.read(ctx)
		x.trouble(ctx)
		x.wait(ctx, x.between(50*time.Millisecond, 1200*time.Millisecond))
	}
	p.end(ctx, end)
}

// trouble breaks the connections of a watcher without a session, or cuts it off for a while.
func (x *watcher) trouble(ctx context.Context) {
	if x.holds || x.isLast() {
		return
	}
	switch x.draw(10) {
	case 0, 1:
		for _, n := range x.w.names {
			x.w.Network.Reset(x.name, n)
		}
	case 2:
		x.silence(func() { x.wait(ctx, x.between(100*time.Millisecond, 5*time.Second)) })
	}
}

// begin begins a lasting watch.
func (p *spell) begin(ctx context.Context) {
	all := beds()
	l := &lasting{name: p.x.newName(), slow: p.x.draw(3) == 0}
	spec := tree.WatchSpec{Path: all[p.x.draw(len(all))], Kind: tree.WatchRecursive}
	switch p.x.draw(3) {
	case 0:
		spec.Kind = tree.WatchPersistent
	case 1:
		spec.Path = plotPath
	}
	if veiled := veiledBeds(); p.x.draw(3) == 0 {
		spec.Path = append(veiled, check.VeiledPath, check.VeiledPath)[p.x.draw(len(veiled)+2)]
	}
	p.lasting = append(p.lasting, l)
	p.running.Go(func() { p.x.receive(ctx, p.t, l, spec) })
}

// receive records the events of a lasting watch until ctx ends. A watch ends with its context, whatever is unread. But
// the checker expects everything that its client had received by the end of ctx, so the watch ends a moment later: in
// the time of a bubble that is when the reader, who makes no pauses any more, waits for more.
func (x *watcher) receive(ctx context.Context, t *client.Tree, l *lasting, spec tree.WatchSpec) {
	watching, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(time.Millisecond, cancel) })()
	for e, err := range t.Watch(watching, spec.Path, spec.Kind) {
		watched := &history.Watched{Name: l.name, Stamp: e.Stamp}
		event := history.Event{Kind: history.WatchReceived, Who: x.name, Watched: watched}
		switch {
		case err != nil:
			if ctx.Err() == nil {
				x.w.failf("%s: the watch %s ended: %v", x.name, l.name, err)
			}
			return
		case e.Started:
			event.Kind, watched.Specs, watched.As = history.WatchBegan, []tree.WatchSpec{spec}, x.as
			l.began.Store(true)
		case e.Lost:
			event.Kind, watched.Newest = history.WatchLost, x.w.plot.applied()
		default:
			watched.Stamp, watched.Event = 0, e.Event
		}
		x.w.record.Add(event)
		if l.slow && x.draw(4) == 0 {
			sleep(ctx, x.between(time.Second, 6*time.Second))
		}
	}
}

// read reads once, perhaps with a one-shot watch, and records up to where watches must be complete by then.
func (p *spell) read(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, givesUp)
	defer cancel()
	all := beds()
	path := all[p.x.draw(len(all))]
	if veiled := veiledBeds(); p.x.draw(3) == 0 {
		path = append(veiled, check.VeiledPath)[p.x.draw(len(veiled)+1)]
	}
	var once *client.OneShot
	if p.x.draw(3) == 0 {
		once = client.NewOneShot()
	}
	var stamp tree.Stamp
	switch p.x.draw(3) {
	case 0:
		stamp = p.get(ctx, path, once)
	case 1:
		stamp = p.list(ctx, path, once)
	default:
		p.exists(ctx, path, once)
	}
	if stamp != 0 {
		p.progress(stamp)
	}
}

// options returns those of a read.
func (p *spell) options(once *client.OneShot) (all []client.ReadOption) {
	if p.x.draw(3) == 0 {
		all = append(all, client.Linearizable())
	}
	if once != nil {
		all = append(all, client.WithWatch(once))
	}
	return all
}

// get gets an entry, and list lists its children. They return the stamp of the answer, 0 if there was none.
func (p *spell) get(ctx context.Context, path string, once *client.OneShot) tree.Stamp {
	found, err := p.t.Get(ctx, path, p.options(once)...)
	if err != nil {
		return 0
	}
	p.viewed(history.Entry{Path: path, Exists: true, Stat: found.Stat, Stamp: found.Stamp})
	p.wait(once, tree.WatchSpec{Path: path, Kind: tree.WatchData}, found.Stamp, 0)
	return found.Stamp
}

func (p *spell) list(ctx context.Context, path string, once *client.OneShot) tree.Stamp {
	page, err := p.t.ListPage(ctx, path, client.Listing{PageSize: tree.MaxPage, WithStat: true}, p.options(once)...)
	if err != nil {
		return 0
	}
	p.viewed(history.Entry{Path: path, Exists: true, Stat: page.Stat, Stamp: page.Stamp})
	for _, c := range page.Children {
		p.viewed(history.Entry{Path: tree.Join(path, c.Name), Exists: true, Stat: c.Stat, Stamp: page.Stamp})
	}
	p.wait(once, tree.WatchSpec{Path: path, Kind: tree.WatchChild}, page.Stamp, 0)
	return page.Stamp
}

// exists reads whether an entry exists. The answer has no stamp: it is between what the client had seen before and has
// seen after.
func (p *spell) exists(ctx context.Context, path string, once *client.OneShot) {
	before := p.x.client.SeenStamp()
	_, exists, err := p.t.Exists(ctx, path, p.options(once)...)
	if err != nil {
		return
	}
	spec := tree.WatchSpec{Path: path, Kind: tree.WatchExists}
	if exists {
		spec.Kind = tree.WatchData // as the node has registered it (V4 resumed watches)
	}
	p.wait(once, spec, before, p.x.client.SeenStamp())
}

// viewed records what a read has shown of the part of the tree that watchers watch.
func (p *spell) viewed(e history.Entry) {
	if e.Path != plotPath && !tree.Below(e.Path, plotPath) {
		return
	}
	p.x.w.record.Add(history.Event{Kind: history.Viewed, Who: p.x.name, Entry: &e})
}

// wait records a one-shot that a read has set.
func (p *spell) wait(once *client.OneShot, spec tree.WatchSpec, stamp, upper tree.Stamp) {
	if once == nil {
		return
	}
	name := p.x.newName()
	p.waits = append(p.waits, &waiting{name, once})
	p.x.w.record.Add(history.Event{Kind: history.WatchBegan, Who: p.x.name, Watched: &history.Watched{
		Name: name, Specs: []tree.WatchSpec{spec}, As: p.x.as, Stamp: stamp, Upper: upper,
	}})
}

// progress records that all watches must be complete up to the stamp of an answer. Events of one-shots have arrived;
// the readers of the other watches process theirs when time continues.
func (p *spell) progress(stamp tree.Stamp) {
	p.waits = slices.DeleteFunc(p.waits, func(one *waiting) bool { return p.fired(one, stamp) })
	time.Sleep(time.Nanosecond)
	for _, l := range p.lasting {
		if !l.slow && l.began.Load() {
			p.x.everything(l.name, stamp)
		}
	}
}

// everything records that a watch must be complete up to a stamp.
func (x *watcher) everything(name string, stamp tree.Stamp) {
	x.w.record.Add(history.Event{
		Kind: history.WatchProgress, Who: x.name, Watched: &history.Watched{Name: name, Stamp: stamp},
	})
}

// fired reports whether a one-shot has fired, and records that it has, or that it has not.
func (p *spell) fired(one *waiting, stamp tree.Stamp) bool {
	now, cancel := context.WithCancel(context.Background())
	cancel()
	e, err := one.once.Wait(now)
	if err != nil {
		p.x.everything(one.name, stamp)
		return false
	}
	one.once.Stop()
	p.x.w.record.Add(history.Event{Kind: history.WatchReceived, Who: p.x.name, Watched: &history.Watched{
		Name: one.name, Event: e, Upper: stamp,
	}})
	return true
}

// end ends the spell with a last read. Its watches receive nothing after that.
func (p *spell) end(ctx context.Context, stop func()) {
	stamp := p.lastRead(ctx)
	stop()
	p.running.Wait()
	for _, l := range p.lasting {
		switch {
		case !l.began.Load() && p.x.isLast():
			p.x.w.failf("%s: the watch %s is not in place, long after the last fault", p.x.name, l.name)
		case l.began.Load() && stamp != 0:
			p.x.everything(l.name, stamp)
		}
	}
	for _, one := range p.waits {
		if stamp == 0 || !p.fired(one, stamp) {
			one.once.Stop()
		}
	}
}

// lastRead asks for everything that was committed anywhere. It returns 0 if no node answers soon. After the last fault
// a node must answer.
func (p *spell) lastRead(ctx context.Context) tree.Stamp {
	timeout := givesUp
	if p.x.isLast() {
		timeout = recovery
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	stamp, err := p.t.Sync(ctx)
	if err != nil && p.x.isLast() {
		p.x.w.failf("%s: the tree could not be read within %v, long after the last fault: %v", p.x.name, recovery, err)
	}
	if err != nil {
		return 0
	}
	return stamp
}

// conclude ends the last spell: its watches must have received every change by then.
func (x *watcher) conclude() {
	close(x.last)
	<-x.done
}
