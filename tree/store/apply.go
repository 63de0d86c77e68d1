package store

import (
	"fmt"
	"time"

	"holdfast/tree"
)

// At is when, and for whom, the log makes a change.
type At struct {
	Stamp tree.Stamp
	// L is the log clock (D3), MS the leader's wall clock in Unix milliseconds.
	L  time.Duration
	MS int64
	// Session becomes the owner of ephemerals.
	Session uint64
	// Principals are whom the session's node has vouched for (P1).
	Principals []tree.Principal
}

// Do carries out a transaction (W6). It returns what came of it, and what watches see of it. A refused transaction
// changes nothing.
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
	for i, op := range ops {
		done, refused := t.do(at, op)
		if refused != nil {
			t.rollBack()
			return tree.Outcome{Else: outcome.Else, Refused: refused, At: i}, nil
		}
		outcome.Ops = append(outcome.Ops, done)
	}
	return outcome, t.finish()
}

// do carries out one operation.
func (t *Tree) do(at At, op tree.Op) (done tree.OpOutcome, refused *tree.RefusedError) {
	switch op := op.(type) {
	case tree.Create:
		done, refused = t.create(at, op)
	case tree.Set:
		done, refused = t.set(at, op)
	case tree.Delete:
		done, refused = t.remove(at, op)
	case tree.DeleteTree:
		done, refused = t.removeTree(at, op)
	case tree.SetACL:
		done, refused = t.setACL(at, op)
	case tree.Check:
		refused = t.check(at, op)
	default:
		panic(fmt.Sprintf("no such operation: %T", op))
	}
	if refused != nil {
		refused.Verb = op.Verb()
		if refused.Path == "" {
			refused.Path = op.Target()
		}
	}
	return done, refused
}

// existing returns the entry at path if it has the version.
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

// check refuses unless the entry exists and has the version.
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

// create makes an entry, with the missing ones above it if that is asked for.
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
	t.born(parentKey, parent, at)
	t.put(key, e)
	t.tell(at, tree.Created, path)
	return tree.OpOutcome{Path: path, Stat: e.stat()}, nil
}

// mayCreate refuses a child of parent, which is nil if there is no such entry.
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

// mayHold refuses a new entry at path that its session, a quota, or the place may not have.
func (t *Tree) mayHold(at At, path string, c tree.Create) *tree.RefusedError {
	switch {
	case c.Kind == tree.Ephemeral && at.Session == 0: // of a will (U3)
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

// makeParents makes the missing entries of a path, from the top.
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

// made returns the entry that a create makes.
func (t *Tree) made(at At, c tree.Create) *entry {
	e := &entry{
		created: at.Stamp, modified: at.Stamp, childrenModified: at.Stamp,
		createdMS: at.MS, modifiedMS: at.MS, kind: c.Kind, acl: t.lists.intern(c.ACL),
	}
	e.set(c.Data)
	switch c.Kind {
	case tree.Ephemeral:
		e.owner, e.lifeMS = at.Session, c.Linger.Milliseconds()
	case tree.Container:
		e.dueMS = (at.L + tree.NewContainerIdle).Milliseconds()
	case tree.Expiring:
		e.lifeMS = c.TTL.Milliseconds()
		e.dueMS = at.L.Milliseconds() + e.lifeMS
	case tree.Persistent, tree.Lingering:
	}
	return e
}

// born counts a child that is made below the entry with a key.
func (t *Tree) born(key string, parent *entry, at At) {
	now := *parent
	now.creates++
	now.children++
	now.childrenModified = at.Stamp
	t.put(key, &now)
}

// change puts a changed copy of an existing entry in its place, and returns it.
func (t *Tree) change(key string, how func(*entry)) *entry {
	now := *t.get(key)
	how(&now)
	t.put(key, &now)
	return &now
}

// set replaces an entry's data. An expiring entry then has its whole TTL again.
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
	t.tell(at, tree.DataSet, s.Path)
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
