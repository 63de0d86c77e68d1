package client

import (
	"cmp"
	"context"
	"errors"
	"iter"
	"maps"
	"slices"
	"strings"
	"sync"

	"holdfast/session"
	"holdfast/tree"
)

// mirrored is the copy of a [Mirror]. One goroutine keeps the copy up to date: it reads each entry that the watch
// names. Reads never go back (G4 stamps of answers), so no entry does. Safe for concurrent use.
type mirrored struct {
	tree  *Tree // without a session: a mirror outlives it
	root  string
	watch *subscription
	stop  context.CancelCauseFunc
	done  chan struct{}

	mu      sync.Mutex
	entries map[string]Entry           // guarded by mu; by path
	names   map[string]map[string]bool // guarded by mu; of the children of each entry that has some
	shown   tree.Stamp                 // guarded by mu; all changes up to it are shown
	change  chan struct{}              // guarded by mu; closed with the next change
	ended   error                      // guarded by mu; set once, after the last change
}

// mirror begins a mirror and fills it.
func (t *Tree) mirror(ctx context.Context, path string) (*mirrored, error) {
	alone := *t
	alone.session = nil
	w, err := alone.subscribe(ctx, path, tree.WatchRecursive)
	if err != nil {
		return nil, err
	}
	running, stop := context.WithCancelCause(context.WithoutCancel(ctx))
	m := &mirrored{
		tree: &alone, root: path, watch: w, stop: stop, done: make(chan struct{}), change: make(chan struct{}),
	}
	go func() {
		defer close(m.done)
		m.end(m.run(running))
	}()
	if err := m.await(ctx, 1); err != nil {
		m.stop(context.Cause(ctx))
		<-m.done
		return nil, m.err() // includes the last obstacle
	}
	return m, nil
}

// await waits until the mirror shows all changes up to a stamp.
func (m *mirrored) await(ctx context.Context, stamp tree.Stamp) error {
	for {
		changed := m.changes()
		switch {
		case m.stamp() >= stamp:
			return nil
		case m.err() != nil:
			return m.err()
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// run keeps the mirror up to date until ctx ends. The error is never nil.
func (m *mirrored) run(ctx context.Context) error {
	defer m.watch.stop()
	for {
		e, err := m.watch.next(ctx)
		if err != nil {
			return err
		}
		batch := append([]WatchEvent{e}, m.watch.unreadNow()...)
		if err := m.apply(ctx, batch); err != nil {
			return err
		}
	}
}

// apply updates the mirror with events of the watch.
func (m *mirrored) apply(ctx context.Context, batch []WatchEvent) error {
	var upTo tree.Stamp
	changed := make(map[string]bool)
	all := false
	for _, e := range batch {
		switch {
		case e.Lost, e.Started && m.stamp() == 0:
			all = true
		case e.Started: // the mark of a wait: all earlier events have arrived
			upTo = max(upTo, e.Stamp)
		default:
			changed[e.Path] = true
		}
	}
	if all {
		return m.fill(ctx)
	}
	for some := range slices.Chunk(slices.Sorted(maps.Keys(changed)), mirrorReads) {
		if err := m.readAnew(ctx, some); err != nil {
			return err
		}
	}
	m.set(func() { m.shown = max(m.shown, upTo) })
	return nil
}

// set changes the mirror, and wakes goroutines that wait for a change.
func (m *mirrored) set(f func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f()
	close(m.change)
	m.change = make(chan struct{})
}

// absent reports whether err says that there is nothing to show at a path.
func absent(err error) bool {
	return errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) ||
		errors.Is(err, &tree.RefusedError{Code: tree.NoPermission})
}

// mirrorReads bounds the concurrent reads of a mirror.
const mirrorReads = 64

// atOnce calls f for each of n, at once, and waits for all. The error is that of the first that has one.
func atOnce(n int, f func(i int) error) error {
	errs := make([]error, n)
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() { errs[i] = f(i) })
	}
	all.Wait()
	return cmp.Or(errs...)
}

// readAnew reads entries concurrently. The mirror shows all results in one change.
func (m *mirrored) readAnew(ctx context.Context, paths []string) error {
	entries, there := make([]Entry, len(paths)), make([]bool, len(paths))
	if err := atOnce(len(paths), func(i int) (err error) {
		entries[i], err = m.tree.Get(ctx, paths[i])
		if there[i] = err == nil; absent(err) {
			return nil
		}
		return err
	}); err != nil {
		return err
	}
	m.set(func() {
		for i, path := range paths {
			if there[i] {
				m.put(path, entries[i])
			} else {
				m.remove(path)
			}
		}
	})
	return nil
}

// put and remove change an entry. Called with mu held.
func (m *mirrored) put(path string, e Entry) {
	m.entries[path] = e
	if path == m.root {
		return
	}
	parent := tree.Parent(path)
	if m.names[parent] == nil {
		m.names[parent] = make(map[string]bool)
	}
	m.names[parent][tree.Name(path)] = true
}

func (m *mirrored) remove(path string) {
	delete(m.entries, path)
	parent := tree.Parent(path)
	if delete(m.names[parent], tree.Name(path)); len(m.names[parent]) == 0 {
		delete(m.names, parent)
	}
}

// fill reads the whole mirror. Changes meanwhile arrive as events afterwards. The stamp rises, unless the cluster is
// another one: the client then forgets what it has seen.
func (m *mirrored) fill(ctx context.Context) error {
	fresh := &mirrored{root: m.root, entries: make(map[string]Entry), names: make(map[string]map[string]bool)}
	first, err := m.tree.Sync(ctx) // every later read includes this state
	if err != nil {
		return err
	}
	root, err := m.tree.Get(ctx, m.root)
	if err == nil {
		fresh.put(m.root, root)
		err = m.fillBelow(ctx, fresh)
	}
	if err != nil && !absent(err) {
		return err
	}
	m.set(func() { m.entries, m.names, m.shown = fresh.entries, fresh.names, first })
	return nil
}

// fillBelow reads all entries below the root into fresh, level by level and the entries of a level concurrently.
func (m *mirrored) fillBelow(ctx context.Context, fresh *mirrored) error {
	for level := []string{m.root}; len(level) > 0; {
		var next []string
		for some := range slices.Chunk(level, mirrorReads) {
			parents, err := m.fillBelowSome(ctx, fresh, some)
			if err != nil {
				return err
			}
			next = append(next, parents...)
		}
		level = next
	}
	return nil
}

// fillBelowSome reads the children of some entries into fresh, concurrently. It returns the paths of those children
// that have children.
func (m *mirrored) fillBelowSome(ctx context.Context, fresh *mirrored, some []string) (parents []string, err error) {
	children := make([]map[string]Entry, len(some))
	if err := atOnce(len(some), func(i int) (err error) {
		children[i], err = m.childrenOf(ctx, some[i])
		return err
	}); err != nil {
		return nil, err
	}
	for _, all := range children {
		for at, e := range all {
			if fresh.put(at, e); e.Stat.Children > 0 {
				parents = append(parents, at)
			}
		}
	}
	return parents, nil
}

// childrenOf reads the children of an entry, by path: none if the entry has gone meanwhile.
func (m *mirrored) childrenOf(ctx context.Context, parent string) (map[string]Entry, error) {
	all := make(map[string]Entry)
	for child, err := range m.tree.List(ctx, parent, Listing{PageSize: tree.MaxPage, WithData: true}) {
		switch {
		case absent(err):
			return all, nil
		case err != nil:
			return nil, err
		case !child.Hidden:
			all[tree.Join(parent, child.Name)] = Entry{Data: child.Data, Stat: child.Stat}
		}
	}
	return all, nil
}

func (m *mirrored) get(path string) (Entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[path]
	if ok {
		e.Stamp = m.shown
	}
	return e, ok
}

func (m *mirrored) list(path string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Sorted(maps.Keys(m.names[path]))
}

func (m *mirrored) walk(path string) iter.Seq2[string, Entry] {
	return func(yield func(string, Entry) bool) {
		m.mu.Lock()
		shown, entries := m.shown, make(map[string]Entry)
		for at, e := range m.entries {
			if at == path || tree.Below(at, path) {
				entries[at] = e
			}
		}
		m.mu.Unlock()
		for _, at := range slices.SortedFunc(maps.Keys(entries), byDepthFirst) {
			e := entries[at]
			e.Stamp = shown
			if !yield(at, e) {
				return
			}
		}
	}
}

// byDepthFirst orders paths as a walk comes to them: a slash counts less than all that names may have.
func byDepthFirst(x, y string) int {
	return cmp.Compare(strings.ReplaceAll(x, "/", "\x00"), strings.ReplaceAll(y, "/", "\x00"))
}

func (m *mirrored) stamp() tree.Stamp {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.shown
}

// wait makes a read that is at least as new as stamp. All events up to the answer arrived before the answer (G1 order
// per connection), so the mirror has reached the stamp once it has processed the events that have arrived by now.
func (m *mirrored) wait(ctx context.Context, stamp tree.Stamp) error {
	if m.stamp() >= stamp {
		return nil
	}
	asking, cancel := context.WithCancel(ctx)
	var ends sync.WaitGroup
	ends.Go(func() {
		select {
		case <-m.done: // nothing comes any more
			cancel()
		case <-asking.Done():
		}
	})
	now, err := m.tree.syncBeyond(asking, stamp)
	cancel()
	ends.Wait()
	switch ended := m.err(); {
	case ended != nil && ctx.Err() == nil:
		return ended
	case err != nil:
		return err
	}
	m.watch.mark(now)
	return m.await(ctx, stamp)
}

func (m *mirrored) changes() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.change
}

func (m *mirrored) err() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ended
}

// end notes why the mirror has ended.
func (m *mirrored) end(err error) {
	if errors.Is(err, session.ErrClosed) {
		err = session.ErrClosed
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ended = err
	close(m.change) // for good
}

func (m *mirrored) close() {
	m.stop(session.ErrClosed)
	<-m.done
}
