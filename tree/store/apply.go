package store

import (
	"fmt"
	"time"

	"holdfast/tree"
)

// At is the time and the author of a change in the log.
type At struct {
	Stamp tree.Stamp
	// L is the log clock (D3 log clock), MS the leader's wall clock in Unix milliseconds.
	L  time.Duration
	MS int64
	// Session is the owner of new ephemerals.
	Session uint64
	// Principals are the principals that the session's node has verified (P1 principals).
	Principals []tree.Principal
}

// Do carries out a transaction (W6 transactions), and returns its outcome and its changes for watches. A refused
// transaction changes nothing.
func (t *Tree) Do(at At, x tree.Transaction) (tree.Outcome, []tree.Change) {
	for _, c := range x.If {
		if refused := t.permitted(at, c.Path, tree.Read); refused != nil {
			refused.Verb = "compare"
			return tree.Outcome{Refused: refused, At: -1}, nil
		}
	}
	outcome := tree.Outcome{Else: !t.hold(x.If)}
	ops := x.Then
	if outcome.Else {
		ops = x.Else
	}
	outcome.Ops = make([]tree.OpOutcome, 0, len(ops))
	t.run = execution{tree: t, at: at}
	defer func() { t.run = execution{} }()
	for i, op := range ops {
		done, refused := t.run.do(op)
		if refused != nil {
			t.rollBack()
			return tree.Outcome{Else: outcome.Else, Refused: refused, At: i}, nil
		}
		outcome.Ops = append(outcome.Ops, done)
	}
	return outcome, t.finish()
}

// execution carries out the operations of a transaction.
type execution struct {
	tree    *Tree
	at      At
	done    tree.OpOutcome
	refused *tree.RefusedError
}

// do carries out one operation.
func (x *execution) do(op tree.Op) (tree.OpOutcome, *tree.RefusedError) {
	x.done, x.refused = tree.OpOutcome{}, nil
	op.Visit(x)
	if x.refused != nil {
		x.refused.Verb = op.Verb()
		if x.refused.Path == "" {
			x.refused.Path = op.Target()
		}
	}
	return x.done, x.refused
}

// Create implements [tree.Visitor].
func (x *execution) Create(op tree.Create) { x.done, x.refused = x.tree.create(x.at, op) }

// Set implements [tree.Visitor].
func (x *execution) Set(op tree.Set) { x.done, x.refused = x.tree.set(x.at, op) }

// Delete implements [tree.Visitor].
func (x *execution) Delete(op tree.Delete) { x.done, x.refused = x.tree.remove(x.at, op) }

// DeleteTree implements [tree.Visitor].
func (x *execution) DeleteTree(op tree.DeleteTree) { x.done, x.refused = x.tree.removeTree(x.at, op) }

// SetACL implements [tree.Visitor].
func (x *execution) SetACL(op tree.SetACL) { x.done, x.refused = x.tree.setACL(x.at, op) }

// Check implements [tree.Visitor].
func (x *execution) Check(op tree.Check) { x.refused = x.tree.check(x.at, op) }

// existing returns the entry at path if its version matches.
func (t *Tree) existing(path string, version int64) (*entry, *tree.RefusedError) {
	e := t.get(keyOf(path))
	if e == nil {
		return nil, &tree.RefusedError{Code: tree.NoNode}
	}
	if version != tree.Any && version != e.version {
		return nil, versionRefused(e.version, version)
	}
	return e, nil
}

// check returns a refusal unless the entry exists and its version matches.
func (t *Tree) check(at At, c tree.Check) *tree.RefusedError {
	if refused := t.permitted(at, c.Path, tree.Read); refused != nil {
		return refused
	}
	_, refused := t.existing(c.Path, c.Version)
	return refused
}

func versionRefused(has, wanted int64) *tree.RefusedError {
	return &tree.RefusedError{Code: tree.BadVersion, Detail: fmt.Sprintf("version is %d, expected %d", has, wanted)}
}

// create creates an entry, and the missing entries above if requested.
func (t *Tree) create(at At, c tree.Create) (tree.OpOutcome, *tree.RefusedError) {
	parentPath := tree.Parent(c.Path)
	if c.Sequential && c.Path[len(c.Path)-1] == '/' {
		parentPath = c.Path[:len(c.Path)-1]
		if parentPath == "" {
			parentPath = tree.Root
		}
	}
	if parentPath == "" {
		return tree.OpOutcome{}, &tree.RefusedError{Code: tree.NodeExists}
	}
	if c.Parents {
		if refused := t.makeParents(at, parentPath); refused != nil {
			return tree.OpOutcome{}, refused
		}
	}
	parentKey := keyOf(parentPath)
	parent := t.get(parentKey)
	if refused := t.mayCreate(at, parentPath, parent); refused != nil {
		return tree.OpOutcome{}, refused
	}
	path := c.Path
	if c.Sequential {
		if parent.creates > tree.MaxSequence {
			return tree.OpOutcome{}, &tree.RefusedError{
				Code: tree.OverLimit, Path: parentPath,
				Detail: fmt.Sprintf("has had %d children, and a sequence number is at most %d", parent.creates,
					uint64(tree.MaxSequence)),
			}
		}
		path += tree.SequenceSuffix(parent.creates)
	}
	key := keyOf(path)
	if t.get(key) != nil {
		return tree.OpOutcome{}, &tree.RefusedError{Code: tree.NodeExists, Path: path}
	}
	if refused := t.mayHold(at, path, c); refused != nil {
		return tree.OpOutcome{}, refused
	}
	e := t.made(at, c)
	if refused := t.mayKeep(path, e.kept(key)+t.lists.more(e.acl)); refused != nil {
		return tree.OpOutcome{}, refused
	}
	t.childAdded(parentKey, parent, at)
	t.put(key, e)
	t.recordChange(at, tree.Created, path)
	return tree.OpOutcome{Path: path, Stat: e.stat()}, nil
}

// mayCreate refuses a child of parent, or a child without a parent (nil).
func (t *Tree) mayCreate(at At, path string, parent *entry) *tree.RefusedError {
	switch {
	case parent == nil:
		return &tree.RefusedError{Code: tree.NoParent, Path: path}
	case !parent.mayHaveChildren():
		return &tree.RefusedError{Code: tree.EphemeralParent, Path: path, Detail: "is " + parent.kind.String()}
	case int(parent.children) >= t.limits.Children:
		return &tree.RefusedError{
			Code: tree.OverLimit, Path: path, Detail: fmt.Sprintf("max_children of an entry is %d", t.limits.Children),
		}
	}
	return t.permitted(at, path, tree.CreateChild)
}

// mayHold refuses a new entry at path that exceeds a limit of its session or a quota, or that the path does not permit.
func (t *Tree) mayHold(at At, path string, c tree.Create) *tree.RefusedError {
	switch {
	case c.Kind == tree.Ephemeral && at.Session == 0: // a will's transaction has no session (U3 wills)
		return &tree.RefusedError{Code: tree.Reserved, Path: path, Detail: "an ephemeral needs a session"}
	case c.Kind == tree.Ephemeral && t.ephemeralsOf(at.Session).count >= t.limits.Ephemerals:
		return &tree.RefusedError{
			Code: tree.OverLimit, Path: path, Detail: fmt.Sprintf("max_ephemerals of a session is %d", t.limits.Ephemerals),
		}
	case c.Kind == tree.Ephemeral && t.ephemeralsOf(at.Session).weight+tree.RemovalWeight(path) > tree.MaxOwnedWeight:
		return &tree.RefusedError{
			Code: tree.OverLimit, Path: path, Detail: fmt.Sprintf("ephemerals of a session with paths this long are at "+
				"most %d", tree.MaxOwnedWeight/tree.RemovalWeight(path)),
		}
	}
	if refused := t.mayWriteQuotas(at, path); refused != nil {
		return refused
	}
	if refused := t.tally.mayGrow(path, 1, int64(len(c.Data))); refused != nil {
		return refused
	}
	return t.tally.mayDefine(&t.Root, path, c.Data)
}

// makeParents creates the missing entries of a path, from the top.
func (t *Tree) makeParents(at At, path string) *tree.RefusedError {
	if t.get(keyOf(path)) != nil {
		return nil
	}
	if refused := t.makeParents(at, tree.Parent(path)); refused != nil {
		return refused
	}
	_, refused := t.create(at, tree.Create{Path: path, Kind: tree.Persistent})
	if refused != nil && refused.Path == "" {
		refused.Path = path
	}
	return refused
}

// made returns the entry of a create.
func (t *Tree) made(at At, c tree.Create) *entry {
	e := &entry{
		created: at.Stamp, modified: at.Stamp, childrenModified: at.Stamp,
		createdMS: at.MS, modifiedMS: at.MS, kind: c.Kind, acl: t.lists.intern(c.ACL),
	}
	e.set(c.Data)
	switch c.Kind {
	case tree.Ephemeral:
		e.owner, e.lifeMS = at.Session, c.LockDelay.Milliseconds()
	case tree.Container:
		e.dueMS = (at.L + tree.NewContainerIdle).Milliseconds()
	case tree.Expiring:
		e.lifeMS = c.TTL.Milliseconds()
		e.dueMS = at.L.Milliseconds() + e.lifeMS
	case tree.Persistent, tree.InLockDelay:
	}
	return e
}

// childAdded counts a new child of the entry with a key.
func (t *Tree) childAdded(key string, parent *entry, at At) {
	now := *parent
	now.creates++
	now.children++
	now.childrenModified = at.Stamp
	t.put(key, &now)
}

// change replaces an entry by a changed copy, and returns the copy.
func (t *Tree) change(key string, how func(*entry)) *entry {
	now := *t.get(key)
	how(&now)
	t.put(key, &now)
	return &now
}

// set replaces an entry's data. The TTL of an expiring entry starts again.
func (t *Tree) set(at At, s tree.Set) (tree.OpOutcome, *tree.RefusedError) {
	if _, refused := t.existing(s.Path, tree.Any); refused != nil {
		return tree.OpOutcome{}, refused
	}
	if refused := t.mayWrite(at, s.Path, tree.Write); refused != nil {
		return tree.OpOutcome{}, refused
	}
	was, refused := t.existing(s.Path, s.Version)
	if refused != nil {
		return tree.OpOutcome{}, refused
	}
	more := int64(len(s.Data)) - int64(len(was.data))
	if refused := t.tally.mayGrow(s.Path, 0, more); refused != nil {
		return tree.OpOutcome{}, refused
	}
	if refused := t.mayKeep(s.Path, more); refused != nil {
		return tree.OpOutcome{}, refused
	}
	if refused := t.tally.mayDefine(&t.Root, s.Path, s.Data); refused != nil {
		return tree.OpOutcome{}, refused
	}
	e := t.change(keyOf(s.Path), func(e *entry) {
		e.set(s.Data)
		e.modified, e.modifiedMS = at.Stamp, at.MS
		e.version++
		if e.kind == tree.Expiring {
			e.dueMS = at.L.Milliseconds() + e.lifeMS
		}
	})
	t.recordChange(at, tree.DataSet, s.Path)
	return tree.OpOutcome{Stat: e.stat()}, nil
}

// setACL replaces an entry's access list.
func (t *Tree) setACL(at At, s tree.SetACL) (tree.OpOutcome, *tree.RefusedError) {
	e, refused := t.existing(s.Path, tree.Any)
	switch {
	case refused != nil:
		return tree.OpOutcome{}, refused
	case s.ACL == nil && s.Path == tree.Root:
		return tree.OpOutcome{}, &tree.RefusedError{Code: tree.Reserved, Detail: "the root has nothing to inherit from"}
	}
	if refused := t.mayWrite(at, s.Path, tree.Admin); refused != nil {
		return tree.OpOutcome{}, refused
	}
	if s.Version != tree.Any && s.Version != e.aclVersion {
		return tree.OpOutcome{}, versionRefused(e.aclVersion, s.Version)
	}
	list := t.lists.intern(s.ACL)
	more := t.lists.more(list) - t.lists.less(e.acl)
	switch {
	case list != nil && e.acl == nil:
		more += listedBytes
	case list == nil && e.acl != nil:
		more -= listedBytes
	}
	if refused := t.mayKeep(s.Path, more); refused != nil {
		return tree.OpOutcome{}, refused
	}
	now := t.change(keyOf(s.Path), func(e *entry) {
		e.acl = list
		e.aclVersion++
	})
	return tree.OpOutcome{Stat: now.stat()}, nil
}
