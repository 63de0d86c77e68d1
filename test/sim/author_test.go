package sim

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"holdfast/client"
	"holdfast/test/sim/history"
	"holdfast/tree"
)

// deskPath is the part of the tree that authors write to.
const deskPath = "/desk"

// firstTag is above all values with which a condition could be about anything else.
const firstTag = 1 << 32

// desk is the state that authors share.
type desk struct {
	mu sync.Mutex
	// tags and handles count the transactions and the handles of sessions. versions are the last known versions of
	// entries. guarded by mu
	tags, handles uint64
	versions      map[string]int64
}

func (d *desk) tag() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.tags++
	return firstTag + d.tags
}

func (d *desk) handle() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.handles++
	return d.handles
}

func (d *desk) version(path string) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.versions[path]
}

func (d *desk) note(path string, version int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.versions[path] = version
}

// author is a tenant that writes in bursts: with many transactions of its session in flight, some of which it gives up.
// Another author sometimes takes the session over in the middle of a burst.
type author struct {
	*tenant
	desk *desk

	mu sync.Mutex
	// waits are the unanswered calls that are not given up, by their tags. guarded by mu
	waits map[uint64]history.Event
}

func (w *world) author(name string, d *desk) *author {
	x := w.absent(name)
	x.digests = []string{password(name)}
	x.start(w.Host(name))
	return &author{tenant: x, desk: d, waits: make(map[uint64]history.Event)}
}

// hand is a session in an author's hands.
type hand struct {
	*client.Session
	number uint64
}

func (x *author) take(s *client.Session) hand { return hand{Session: s, number: x.desk.handle()} }

// work holds one session after the other until ctx ends, and writes in bursts with each.
func (x *author) work(ctx context.Context, other *author) {
	for ctx.Err() == nil {
		s := x.open(ctx, 30*time.Second)
		if s == nil {
			sleep(ctx, 500*time.Millisecond) // the open may have been refused at once
			continue
		}
		h := x.take(s)
		for range 3 + x.draw(6) {
			if ctx.Err() != nil || s.Err() != nil {
				break
			}
			var with *author
			if x.draw(3) == 0 {
				with = other
			}
			x.burst(ctx, h, with)
			x.w.awaitFault(ctx, x.between(300*time.Millisecond, 3*time.Second))
		}
		if ctx.Err() == nil && x.draw(2) == 0 {
			x.close(ctx, s)
		}
	}
}

// burst makes many transactions at once, with a few reads between them, and waits for all. In the middle another
// author, if one is given, takes the session over and writes; sometimes the first author takes it back.
func (x *author) burst(ctx context.Context, h hand, other *author) {
	var all sync.WaitGroup
	defer all.Wait()
	size, volley := 3+x.draw(12), x.draw(2) == 0
	taken := x.draw(size)
	for i := range size {
		if i == taken && other != nil {
			all.Go(func() { x.lend(ctx, h, other) })
		}
		if x.draw(6) == 0 {
			all.Go(func() { x.find(ctx, h) })
		} else {
			all.Go(func() { x.call(ctx, h) })
		}
		if !volley && x.draw(3) == 0 {
			sleep(ctx, x.between(time.Millisecond, 20*time.Millisecond))
		} else {
			sleep(ctx, x.between(time.Microsecond, 200*time.Microsecond)) // so that the order of the calls is known
		}
	}
}

// lend makes another author take a session over and write with it.
func (x *author) lend(ctx context.Context, h hand, other *author) {
	s := other.steal(ctx, h.Token())
	if s == nil {
		return
	}
	lent := other.take(s)
	other.burst(ctx, lent, nil)
	if x.draw(2) == 0 {
		other.close(ctx, s)
		return
	}
	if back := x.steal(ctx, s.Token()); back != nil {
		x.burst(ctx, x.take(back), nil)
	}
}

// patiently returns a context for a call. Some callers give up early, the others never do.
func (x *author) patiently(ctx context.Context) (context.Context, context.CancelFunc) {
	if x.draw(6) == 0 {
		return context.WithTimeout(ctx, x.between(200*time.Microsecond, 60*time.Millisecond))
	}
	return context.WithCancel(ctx)
}

// begins records a call that is not given up. ends records its end.
func (x *author) begins(e history.Event) (ends func()) {
	waiting := *e.Call
	waiting.Fate, e.Call = history.Waiting, &waiting
	x.mu.Lock()
	defer x.mu.Unlock()
	x.waits[waiting.Tag] = e
	return func() {
		x.mu.Lock()
		defer x.mu.Unlock()
		delete(x.waits, waiting.Tag)
	}
}

// conclude waits until the calls that were made before the last fault ended have their answers (I18 an answer).
func (x *author) conclude(ctx context.Context) {
	made := x.w.record.Now() - recovery
	for begun := time.Now(); ; sleep(ctx, 500*time.Millisecond) {
		late := x.waitsSince(made)
		switch {
		case len(late) == 0:
			return
		case time.Since(begun) > recovery:
			for _, e := range late {
				x.w.record.Add(e)
			}
			return
		}
	}
}

// waitsSince returns the calls without an answer that were made before a moment.
func (x *author) waitsSince(made time.Duration) (late []history.Event) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, e := range x.waits {
		if e.Sent < made {
			late = append(late, e)
		}
	}
	return late
}

// believed is how long after losing its session a client may need to learn of the loss.
const believed = 3 * time.Second

// call makes a transaction, and records its outcome.
func (x *author) call(ctx context.Context, h hand) {
	ctx, cancel := x.patiently(ctx)
	defer cancel()
	c := &history.Call{Tag: x.desk.tag(), Handle: h.number}
	var about string
	c.Transaction, about = x.draft(h, c.Tag)
	var with []client.WriteOption
	if x.draw(12) == 0 {
		with = append(with, client.WithWill(x.will(c.Tag)))
	}
	e := history.Event{Kind: history.Called, Who: x.name, ID: h.ID(), Sent: x.w.record.Now(), Call: c}
	if _, hurried := ctx.Deadline(); !hurried {
		c.Patient = true
		defer x.begins(e)()
	}
	done, err := h.Tree().Transact(ctx, c.Transaction, with...)
	_, refused := errors.AsType[*tree.WriteError](err)
	switch {
	case err == nil || refused:
		c.Fate, c.Result = history.Answered, tree.Result{Stamp: done.Stamp, Outcome: done.Outcome}
		x.learn(about, done.Outcome)
	case errors.Is(err, client.ErrNoEffect):
		c.Fate = history.NoEffect
	case errors.Is(err, client.ErrResultGone):
		c.Fate = history.ResultGone
	default:
		c.Fate = history.InDoubt
	}
	if err != nil {
		e.Text = err.Error()
	}
	if c.Fate == history.InDoubt && c.Patient && ctx.Err() == nil {
		sleep(ctx, believed)
		c.Kept = h.Err() == nil && ctx.Err() == nil
	}
	x.w.record.Add(e)
}

// learn notes the version that an entry has now.
func (x *author) learn(path string, o tree.Outcome) {
	for _, op := range o.Ops {
		if op.Stat.Kind != 0 && (op.Path == "" || op.Path == path) {
			x.desk.note(path, op.Stat.Version)
		}
	}
}

// find reads the authors' entries, and records the answers. An answer about a missing entry has no stamp.
func (x *author) find(ctx context.Context, h hand) {
	ctx, cancel := x.patiently(ctx)
	defer cancel()
	e := history.Entry{Linearizable: x.draw(2) == 0, Exists: true, Handle: h.number, As: x.known()}
	sent, t := x.w.record.Now(), h.Tree()
	var err error
	switch x.draw(5) {
	case 0, 1, 2:
		e.Path = []string{x.register(), x.blindPath(), x.locked()}[x.draw(3)]
		var found client.Entry
		found, err = t.Get(ctx, e.Path, how(e.Linearizable)...)
		e.Data, e.Stat, e.Stamp = string(found.Data), found.Stat, found.Stamp
		if err == nil {
			x.desk.note(e.Path, e.Stat.Version)
		} else if errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			e.Exists, err = false, nil
		}
	case 3:
		e.Path, e.Lists = []string{deskPath, deskPath + "/line", deskPath + "/own", vaultPath}[x.draw(4)], true
		var found client.Children
		found, err = t.ListPage(ctx, e.Path, client.Listing{PageSize: tree.MaxPage}, how(e.Linearizable)...)
		for _, c := range found.Children {
			e.Names = append(e.Names, c.Name)
		}
		e.Stat, e.Stamp = found.Stat, found.Stamp
		if found.More {
			x.w.failf("%s: more than %d children of %s", x.name, tree.MaxPage, e.Path)
		}
	default:
		e.Owner = h.ID()
		var found client.Ephemerals
		found, err = t.EphemeralsPage(ctx, client.EphemeralsOf{Session: h.ID(), PageSize: tree.MaxPage},
			how(e.Linearizable)...)
		e.Names, e.Stamp = found.Paths, found.Stamp
	}
	if errors.Is(err, &tree.RefusedError{Code: tree.NoPermission}) {
		e.Denied, err = true, nil
	}
	if err == nil {
		x.w.record.Add(history.Event{Kind: history.Found, Who: x.name, ID: h.ID(), Sent: sent, Entry: &e})
	}
}

// whole returns the whole tree of a node, in the order of the paths.
func (w *world) whole(now tree.Frozen) []history.Leaf {
	stat, _ := now.Stat(tree.Root)
	all := w.leaves(now.As(everything()), []history.Leaf{{Path: tree.Root, Stat: stat}})
	slices.SortFunc(all, func(a, b history.Leaf) int { return cmp.Compare(a.Path, b.Path) })
	return all
}
