package store

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"holdfast/tree"
)

// remove deletes an entry without children.
func (t *Tree) remove(at At, d tree.Delete) (tree.OpOutcome, *tree.RefusedError) {
	e, refused := t.mayDelete(at, d.Path)
	switch {
	case refused != nil:
		return tree.OpOutcome{}, refused
	case d.Version != tree.Any && d.Version != e.version:
		return tree.OpOutcome{}, versionRefused(e.version, d.Version)
	case e.children > 0:
		return tree.OpOutcome{}, &tree.RefusedError{
			Code: tree.NotEmpty, Detail: fmt.Sprintf("has %d children", e.children),
		}
	}
	t.removeEntry(at, d.Path)
	return tree.OpOutcome{Removed: 1}, nil
}

// removeTree deletes an entry and all entries below, the deepest first, so that every entry has a parent at each
// moment.
func (t *Tree) removeTree(at At, d tree.DeleteTree) (tree.OpOutcome, *tree.RefusedError) {
	if _, refused := t.mayDelete(at, d.Path); refused != nil {
		return tree.OpOutcome{}, refused
	}
	paths := append([]string{d.Path}, t.below(d.Path, tree.MaxDeleteTree)...)
	for _, path := range paths {
		t.removed += tree.DeletionWeight(path)
	}
	if len(paths) > tree.MaxDeleteTree || t.removed > tree.DeleteTreeWeight {
		return tree.OpOutcome{}, &tree.RefusedError{
			Code: tree.OverLimit, Detail: fmt.Sprintf("a transaction deletes at most %d entries this way, and fewer "+
				"with paths of 64 bytes or 16 names and more; delete parts first", tree.MaxDeleteTree),
		}
	}
	for _, path := range slices.Backward(paths) {
		if refused := t.permitted(at, tree.Parent(path), tree.DeleteChild); refused != nil {
			return tree.OpOutcome{}, refused
		}
		t.deleteRecord(at, keyOf(path))
	}
	t.childrenRemoved(at, tree.Parent(d.Path), 1) // the other parents are removed too
	return tree.OpOutcome{Removed: len(paths)}, nil
}

// mayDelete returns the entry at path, or a refusal.
func (t *Tree) mayDelete(at At, path string) (*entry, *tree.RefusedError) {
	e, refused := t.existing(path, tree.Any)
	switch {
	case refused != nil:
		return nil, refused
	case path == tree.Root, path == tree.ReservedPath, path == tree.QuotaPath:
		return nil, &tree.RefusedError{Code: tree.Reserved, Detail: "belongs to the tree itself"}
	}
	if refused := t.mayWriteQuotas(at, path); refused != nil {
		return nil, refused
	}
	return e, t.permitted(at, tree.Parent(path), tree.DeleteChild)
}

// below returns the paths of at most n entries below path, the nearest levels first.
func (r *Root) below(path string, n int) (paths []string) {
	for levels := 1; levels <= tree.MaxDepth-tree.Depth(path) && len(paths) < n; levels++ {
		before := len(paths)
		r.walk(belowKey(path, levels), func(key string, _ *entry) bool {
			paths = append(paths, pathOf(key))
			return len(paths) < n
		})
		if len(paths) == before {
			break
		}
	}
	return paths
}

// walk calls f for the entries whose keys begin with prefix, in their order, until f returns false.
func (r *Root) walk(prefix string, f func(key string, e *entry) bool) {
	r.entries.Ascend(prefix, func(key string, e *entry) bool {
		return strings.HasPrefix(key, prefix) && f(key, e)
	})
}

// removeEntry removes an entry without children, and updates its parent.
func (t *Tree) removeEntry(at At, path string) {
	t.deleteRecord(at, keyOf(path))
	t.childrenRemoved(at, tree.Parent(path), 1)
}

// deleteRecord removes an entry. The caller updates the parent.
func (t *Tree) deleteRecord(at At, key string) {
	t.recordChange(at, tree.Deleted, pathOf(key))
	t.drop(key)
}

// childrenRemoved updates the entry at path after n of its children were removed.
func (t *Tree) childrenRemoved(at At, path string, n uint32) {
	t.change(keyOf(path), func(e *entry) {
		e.children -= n
		e.childrenModified = at.Stamp
		if e.kind == tree.Container && e.children == 0 {
			e.dueMS = (at.L + tree.ContainerIdle).Milliseconds()
		}
	})
}

// ownedBy calls f for the keys of a session's entries, in their order, until f returns false.
func (r *Root) ownedBy(owner uint64, f func(key string) bool) {
	r.owned.Ascend(numbered(owner, ""), func(indexed string, _ struct{}) bool {
		n, key := numberedParts(indexed)
		return n == owner && f(key)
	})
}

// Reapable is an entry that was due when the leader searched, with its stamps at that time (D5 TTLs and containers).
type Reapable struct {
	Path                                string
	Created, Modified, ChildrenModified tree.Stamp
}

// Due returns at most n entries that are due at l (D5): first entries whose lock-delay is over, then expiring entries,
// then containers; within each kind the earliest first.
func (r *Root) Due(l time.Duration, n int) (due []Reapable) {
	for _, turn := range [...]uint64{lockDelayTurn, expiringTurn, containerTurn} {
		last := turn + uint64(max(l.Milliseconds(), 0)) //nolint:gosec // not negative
		r.dueSoon.Ascend(numbered(turn, ""), func(indexed string, _ struct{}) bool {
			at, key := numberedParts(indexed)
			if at > last || len(due) == n {
				return false
			}
			e := r.get(key)
			due = append(due, Reapable{
				Path: pathOf(key), Created: e.created, Modified: e.modified, ChildrenModified: e.childrenModified,
			})
			return true
		})
	}
	return due
}

// NextReap returns the first entries that are due at l, as many as one Reap may remove, with their weight. more says
// that further entries may be due.
func (r *Root) NextReap(l time.Duration) (due []Reapable, weight int, more bool) {
	due = r.Due(l, tree.MaxReap)
	for i, one := range due {
		heavier := weight + tree.RemovalWeight(one.Path)
		if heavier > tree.MaxReapWeight {
			return due[:i], weight, true
		}
		weight = heavier
	}
	return due, weight, len(due) == tree.MaxReap
}

// Ending reports whether any entry will end by itself unless it changes.
func (r *Root) Ending() bool { return r.dueSoon.Len() > 0 }

// Reap removes an entry if it is due, has no children, and has not changed since the leader searched (D5).
func (t *Tree) Reap(at At, r Reapable) (reaped bool, changes []tree.Change) {
	e := t.get(keyOf(r.Path))
	if e == nil || !e.ends() || e.dueMS > at.L.Milliseconds() || e.created != r.Created || e.modified != r.Modified ||
		e.childrenModified != r.ChildrenModified {
		return false, nil
	}
	t.removeEntry(at, r.Path)
	return true, t.finish()
}
