package plain

import (
	"slices"

	"holdfast/tree"
)

// reserved reports whether a path is one of the tree's own.
func reserved(path string) bool {
	return path == tree.Root || path == tree.ReservedPath || path == tree.QuotaPath
}

func (t *Tree) remove(at At, d tree.Delete) (tree.OpOutcome, tree.Code) {
	n, code := t.existing(d.Path, tree.Any)
	switch {
	case code != 0:
		return tree.OpOutcome{}, code
	case reserved(d.Path):
		return tree.OpOutcome{}, tree.Reserved
	case !t.mayDelete(at, d.Path):
		return tree.OpOutcome{}, tree.NoPermission
	case d.Version != tree.Any && d.Version != n.Stat.Version:
		return tree.OpOutcome{}, tree.BadVersion
	case n.Stat.Children > 0:
		return tree.OpOutcome{}, tree.NotEmpty
	}
	t.die(at, d.Path)
	return tree.OpOutcome{Removed: 1}, 0
}

// removeTree removes an entry and all entries below, the deepest first.
func (t *Tree) removeTree(at At, d tree.DeleteTree) (tree.OpOutcome, tree.Code) {
	if _, code := t.existing(d.Path, tree.Any); code != 0 {
		return tree.OpOutcome{}, code
	}
	if reserved(d.Path) {
		return tree.OpOutcome{}, tree.Reserved
	}
	if !t.mayDelete(at, d.Path) {
		return tree.OpOutcome{}, tree.NoPermission
	}
	var all []string
	for path := range t.nodes {
		if path == d.Path || tree.Below(path, d.Path) {
			all = append(all, path)
		}
	}
	if len(all) > tree.MaxDeleteTree {
		return tree.OpOutcome{}, tree.OverLimit
	}
	slices.SortFunc(all, byDepth)
	for _, path := range slices.Backward(all) {
		if !t.mayDelete(at, path) {
			return tree.OpOutcome{}, tree.NoPermission
		}
		t.die(at, path)
	}
	return tree.OpOutcome{Removed: len(all)}, 0
}

// die removes an entry without children, and updates its parent.
func (t *Tree) die(at At, path string) {
	t.addChange(at, tree.Deleted, path)
	t.put(path, nil)
	t.edit(tree.Parent(path), func(p *Node) {
		p.Stat.Children--
		p.Stat.ChildrenModified = at.Stamp
		if p.Stat.Kind == tree.Container && p.Stat.Children == 0 {
			p.due = at.Clock + tree.ContainerIdle
		}
	})
}

// End removes a session's ephemerals (U1 ephemerals end with the session), except those that a lock-delay keeps when
// the session has expired (H2 lock-delay). Then it carries out the will, whole or not at all (U3 wills); nil for none.
//
//nolint:revive // flag-parameter: from the certificate
func (t *Tree) End(at At, session uint64, expired bool, will *Will) []tree.Change {
	for _, path := range t.Owned(session) {
		if n := t.nodes[path]; expired && n.life > 0 {
			t.edit(path, func(n *Node) {
				n.Stat.Kind, n.Stat.Owner, n.due = tree.InLockDelay, 0, at.Clock+n.life
			})
			continue
		}
		t.die(at, path)
	}
	changes := t.commit()
	if will != nil {
		at.Session, at.Principals = 0, will.Principals
		_, willed := t.Do(at, will.Transaction)
		changes = append(changes, willed...)
	}
	return changes
}

// Reap removes a temporary entry that is due and has no children (D5 TTLs and containers). It reports false if there is
// no such entry.
func (t *Tree) Reap(at At, path string) ([]tree.Change, bool) {
	n := t.nodes[path]
	if n == nil || n.Stat.Children > 0 || n.due == 0 || n.due > at.Clock {
		return nil, false
	}
	t.die(at, path)
	return t.commit(), true
}
