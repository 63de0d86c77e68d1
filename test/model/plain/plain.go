// Package plain is the tree as a map: the effects of a transaction, of the end of a session and of a Reap, as plainly
// as rules D, W, U, P and H of docs/tree.md describe them. It shares no code with package store. A checker replays a
// log on it.
//
// It knows no limits except permissions and quotas: a replay of a log with other limits must not expect their refusals.
// Nor does it show the counts of quotas.
package plain

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"holdfast/tree"
)

// Tree is the tree. Not safe for concurrent use.
type Tree struct {
	nodes map[string]*Node
	// OpenQuotas lets sessions other than Super write quotas. Set it before the first change.
	OpenQuotas bool
	// limits are all paths that ever had a quota's limits.
	limits []string
	// undo has the former states of the paths that the running transaction has changed; nil for no entry.
	undo []former
	// changes are the running transaction's changes for watches. lists are the access lists that decide who receives
	// them, and committed those of the changes before, since the last call of Lists.
	changes          []tree.Change
	lists, committed []Lists
	// touched are the paths that were changed since the last call of Touched.
	touched []string
}

// Node is an entry. It never changes: a change of the tree replaces it.
type Node struct {
	// Stat has neither wall-clock times, nor Due, nor ChildrenVersion; Due returns the due time, Shown all but the
	// times.
	Stat tree.Stat
	Data []byte
	// ACL is the entry's own list; nil: the list of the nearest entry above with a list applies (P2 access lists).
	ACL tree.ACL
	// creates counts the children that there ever were. life is the TTL or the lock-delay, due when the entry ends on
	// its own on the log clock; 0 for never.
	creates   int64
	life, due time.Duration
}

type former struct {
	path string
	node *Node
}

// At is the time of an event, and its session.
type At struct {
	Stamp tree.Stamp
	// Clock is the log clock. Session is the owner of new ephemerals; 0 for a will.
	Clock   time.Duration
	Session uint64
	// Principals are those that the session's node has authenticated (P1 principals).
	Principals []tree.Principal
}

// Will is a session's will, with the principals of the write that set it (U3 wills).
type Will struct {
	Transaction tree.Transaction
	Principals  []tree.Principal
}

// New returns the initial tree (W8 feature level).
func New(stamp tree.Stamp) *Tree {
	t := &Tree{nodes: make(map[string]*Node)}
	stat := tree.Stat{Created: stamp, Modified: stamp, ChildrenModified: stamp, Kind: tree.Persistent}
	for _, path := range []string{tree.Root, tree.ReservedPath, tree.QuotaPath} {
		one := &Node{Stat: stat}
		if path != tree.QuotaPath {
			one.creates, one.Stat.Children = 1, 1
		}
		if path == tree.Root {
			one.ACL = tree.Open()
		}
		t.nodes[path] = one
		t.touched = append(t.touched, path)
	}
	return t
}

// Get returns an entry; false if there is none.
func (t *Tree) Get(path string) (*Node, bool) {
	n, ok := t.nodes[path]
	return n, ok
}

// Paths returns all paths, sorted.
func (t *Tree) Paths() []string { return slices.Sorted(maps.Keys(t.nodes)) }

// Shown returns the stat as a write's result has it, but for the times of wall clocks.
func (n *Node) Shown() tree.Stat {
	s := n.Stat
	s.Bytes, s.ChildrenVersion = len(n.Data), 2*n.creates-int64(s.Children)
	if s.Children == 0 {
		s.Due = n.due
	}
	return s
}

// Owned returns the paths of a session's ephemerals, in the order in which its end removes them: parents first.
func (t *Tree) Owned(session uint64) (all []string) {
	for path, n := range t.nodes {
		if n.Stat.Owner == session {
			all = append(all, path)
		}
	}
	slices.SortFunc(all, byDepth)
	return all
}

func byDepth(a, b string) int {
	return cmp.Or(cmp.Compare(tree.Depth(a), tree.Depth(b)), strings.Compare(a, b))
}

// Do carries out a transaction (W6 transactions): all of it, or nothing.
func (t *Tree) Do(at At, x tree.Transaction) (tree.Outcome, []tree.Change) {
	for _, c := range x.If {
		if !t.May(c.Path, tree.Read, at.Principals) {
			return tree.Outcome{
				Refused: &tree.RefusedError{Code: tree.NoPermission, Verb: "compare", Path: c.Path}, At: -1,
			}, nil
		}
	}
	outcome := tree.Outcome{Else: !t.hold(x.If)}
	ops := x.Then
	if outcome.Else {
		ops = x.Else
	}
	for i, op := range ops {
		done, code := t.one(at, op)
		if code != 0 {
			t.rollBack()
			return tree.Outcome{
				Else: outcome.Else, Refused: &tree.RefusedError{Code: code, Verb: op.Verb(), Path: op.Target()}, At: i,
			}, nil
		}
		outcome.Ops = append(outcome.Ops, done)
	}
	return outcome, t.commit()
}

// rollBack undoes the running transaction, from the last change to the first.
func (t *Tree) rollBack() {
	for _, f := range slices.Backward(t.undo) {
		if f.node == nil {
			delete(t.nodes, f.path)
		} else {
			t.nodes[f.path] = f.node
		}
	}
	t.undo, t.changes, t.lists = nil, nil, nil
}

// commit ends the running transaction, and returns its changes for watches.
func (t *Tree) commit() []tree.Change {
	changes := t.changes
	for _, f := range t.undo {
		t.touched = append(t.touched, f.path)
	}
	t.committed = append(t.committed, t.lists...)
	t.undo, t.changes, t.lists = nil, nil, nil
	return changes
}

// Lists are the access lists that were in force at a change (V8 events need READ): that of the entry, and, unless only
// data were set, that of the entry above.
type Lists struct{ Own, Parent tree.ACL }

// Lists returns the lists of the changes since the last call, in the order of the changes.
func (t *Tree) Lists() []Lists {
	committed := t.committed
	t.committed = nil
	return committed
}

// Touched returns the paths whose entries may have changed since the last call.
func (t *Tree) Touched() []string {
	slices.Sort(t.touched)
	touched := slices.Compact(t.touched)
	t.touched = nil
	return touched
}

func (t *Tree) hold(all []tree.Condition) bool {
	for _, c := range all {
		if !t.holds(c) {
			return false
		}
	}
	return true
}

func (t *Tree) holds(c tree.Condition) bool {
	n, has := t.nodes[c.Path], uint64(0)
	if n == nil && c.Property != tree.Exists {
		return false
	}
	if n != nil {
		has = map[tree.Property]uint64{
			tree.Exists: 1, tree.DataVersion: uint64(n.Stat.Version), tree.OwnerID: n.Stat.Owner,
			tree.CreatedStamp: uint64(n.Stat.Created), tree.ModifiedStamp: uint64(n.Stat.Modified),
			tree.ChildCount: uint64(n.Stat.Children),
		}[c.Property]
	}
	order := cmp.Compare(has, c.Value)
	return map[tree.Comparison]bool{
		tree.Equal: order == 0, tree.NotEqual: order != 0, tree.Less: order < 0, tree.Greater: order > 0,
	}[c.Is]
}

// one carries out an operation.
func (t *Tree) one(at At, op tree.Op) (tree.OpOutcome, tree.Code) {
	x := execution{tree: t, at: at}
	op.Visit(&x)
	return x.outcome, x.code
}

// execution carries out an operation.
type execution struct {
	tree    *Tree
	at      At
	outcome tree.OpOutcome
	code    tree.Code
}

// Create implements [tree.Visitor].
func (x *execution) Create(op tree.Create) { x.outcome, x.code = x.tree.create(x.at, op) }

// Set implements [tree.Visitor].
func (x *execution) Set(op tree.Set) { x.outcome, x.code = x.tree.set(x.at, op) }

// Delete implements [tree.Visitor].
func (x *execution) Delete(op tree.Delete) { x.outcome, x.code = x.tree.remove(x.at, op) }

// DeleteTree implements [tree.Visitor].
func (x *execution) DeleteTree(op tree.DeleteTree) { x.outcome, x.code = x.tree.removeTree(x.at, op) }

// SetACL implements [tree.Visitor].
func (x *execution) SetACL(op tree.SetACL) { x.outcome, x.code = x.tree.setACL(x.at, op) }

// Check implements [tree.Visitor].
func (x *execution) Check(op tree.Check) {
	if !x.tree.May(op.Path, tree.Read, x.at.Principals) {
		x.code = tree.NoPermission
		return
	}
	_, x.code = x.tree.existing(op.Path, op.Version)
}

// existing returns the entry at path if it has the version.
func (t *Tree) existing(path string, version int64) (*Node, tree.Code) {
	n := t.nodes[path]
	switch {
	case n == nil:
		return nil, tree.NoNode
	case version != tree.Any && version != n.Stat.Version:
		return nil, tree.BadVersion
	default:
		return n, 0
	}
}

func (t *Tree) create(at At, c tree.Create) (tree.OpOutcome, tree.Code) {
	above := tree.Parent(c.Path)
	if c.Sequential && strings.HasSuffix(c.Path, "/") {
		above = cmp.Or(strings.TrimSuffix(c.Path, "/"), tree.Root)
	}
	if above == "" {
		return tree.OpOutcome{}, tree.NodeExists
	}
	if c.Parents && t.nodes[above] == nil {
		if _, code := t.create(at, tree.Create{Path: above, Kind: tree.Persistent, Parents: true}); code != 0 {
			return tree.OpOutcome{}, code
		}
	}
	parent, path := t.nodes[above], c.Path
	switch {
	case parent == nil:
		return tree.OpOutcome{}, tree.NoParent
	case parent.Stat.Kind == tree.Ephemeral || parent.Stat.Kind == tree.InLockDelay:
		return tree.OpOutcome{}, tree.EphemeralParent
	case !t.May(above, tree.CreateChild, at.Principals):
		return tree.OpOutcome{}, tree.NoPermission
	}
	if c.Sequential {
		path += fmt.Sprintf("%010d", parent.creates)
	}
	switch {
	case t.nodes[path] != nil:
		return tree.OpOutcome{}, tree.NodeExists
	case c.Kind == tree.Ephemeral && at.Session == 0:
		return tree.OpOutcome{}, tree.Reserved
	case t.quotaProtected(at, path):
		return tree.OpOutcome{}, tree.NoPermission
	}
	if code := t.room(path, 1, len(c.Data), c.Data); code != 0 {
		return tree.OpOutcome{}, code
	}
	one := &Node{Data: c.Data, ACL: c.ACL, Stat: tree.Stat{
		Created: at.Stamp, Modified: at.Stamp, ChildrenModified: at.Stamp, Kind: c.Kind,
	}}
	switch c.Kind {
	case tree.Ephemeral:
		one.Stat.Owner, one.life = at.Session, c.LockDelay
	case tree.Container:
		one.due = at.Clock + tree.NewContainerIdle
	case tree.Expiring:
		one.life, one.due = c.TTL, at.Clock+c.TTL
	case tree.Persistent, tree.InLockDelay:
	}
	t.edit(above, func(p *Node) {
		p.creates++
		p.Stat.Children++
		p.Stat.ChildrenModified = at.Stamp
	})
	t.put(path, one)
	t.addChange(at, tree.Created, path)
	return tree.OpOutcome{Path: path, Stat: one.Shown()}, 0
}

func (t *Tree) set(at At, s tree.Set) (tree.OpOutcome, tree.Code) {
	was, code := t.existing(s.Path, tree.Any)
	switch {
	case code != 0:
		return tree.OpOutcome{}, code
	case t.quotaProtected(at, s.Path) || !t.May(s.Path, tree.Write, at.Principals):
		return tree.OpOutcome{}, tree.NoPermission
	case s.Version != tree.Any && s.Version != was.Stat.Version:
		return tree.OpOutcome{}, tree.BadVersion
	}
	if code := t.room(s.Path, 0, len(s.Data)-len(was.Data), s.Data); code != 0 {
		return tree.OpOutcome{}, code
	}
	now := t.edit(s.Path, func(n *Node) {
		n.Data, n.Stat.Modified = s.Data, at.Stamp
		n.Stat.Version++
		if n.Stat.Kind == tree.Expiring {
			n.due = at.Clock + n.life
		}
	})
	t.addChange(at, tree.DataSet, s.Path)
	return tree.OpOutcome{Stat: now.Shown()}, 0
}

func (t *Tree) setACL(at At, s tree.SetACL) (tree.OpOutcome, tree.Code) {
	n, code := t.existing(s.Path, tree.Any)
	switch {
	case code != 0:
		return tree.OpOutcome{}, code
	case s.ACL == nil && s.Path == tree.Root:
		return tree.OpOutcome{}, tree.Reserved
	case t.quotaProtected(at, s.Path) || !t.May(s.Path, tree.Admin, at.Principals):
		return tree.OpOutcome{}, tree.NoPermission
	case s.Version != tree.Any && s.Version != n.Stat.ACLVersion:
		return tree.OpOutcome{}, tree.BadVersion
	}
	now := t.edit(s.Path, func(n *Node) {
		n.ACL = s.ACL
		n.Stat.ACLVersion++
	})
	return tree.OpOutcome{Stat: now.Shown()}, 0
}

// edit replaces an entry by a changed copy.
func (t *Tree) edit(path string, how func(*Node)) *Node {
	now := *t.nodes[path]
	how(&now)
	t.put(path, &now)
	return &now
}

func (t *Tree) put(path string, n *Node) {
	t.undo = append(t.undo, former{path, t.nodes[path]})
	if limited(path) && !slices.Contains(t.limits, path) {
		t.limits = append(t.limits, path)
	}
	if n == nil {
		delete(t.nodes, path)
	} else {
		t.nodes[path] = n
	}
}

func (t *Tree) addChange(at At, kind tree.ChangeKind, path string) {
	t.changes = append(t.changes, tree.Change{Stamp: at.Stamp, Kind: kind, Path: path})
	lists := Lists{Own: t.ListOf(path)}
	if kind != tree.DataSet { // the root is never made or deleted
		lists.Parent = t.ListOf(tree.Parent(path))
	}
	t.lists = append(t.lists, lists)
}
