package store

import (
	"fmt"
	"math"
	"time"

	"holdfast/tree"
)

// Record is an entry in a snapshot (D7 tree snapshots), with every field that the state keeps of the entry.
type Record struct {
	Path string
	// Data is nil for null.
	Data                                []byte
	Created, Modified, ChildrenModified tree.Stamp
	// CreatedMS and ModifiedMS are in Unix milliseconds.
	CreatedMS, ModifiedMS int64
	Owner                 uint64
	// Creates counts the children that the entry has ever had, Children its present children.
	Creates             uint64
	Children            uint32
	Version, ACLVersion int64
	// LifeMS is the TTL or the lock-delay, DueMS the end of the entry on the log clock; both in milliseconds.
	LifeMS, DueMS int64
	Kind          tree.Kind
	// ACL is nil for an inherited list.
	ACL tree.ACL
}

// Records calls f for all entries, parents before their children, until f returns false. The record's list must not be
// modified.
func (r *Root) Records(f func(Record) bool) {
	r.entries.Scan(func(key string, e *entry) bool {
		one := Record{
			Path: pathOf(key), Data: e.bytes(), Created: e.created, Modified: e.modified,
			ChildrenModified: e.childrenModified, CreatedMS: e.createdMS, ModifiedMS: e.modifiedMS, Owner: e.owner,
			Creates: e.creates, Children: e.children, Version: e.version, ACLVersion: e.aclVersion, LifeMS: e.lifeMS,
			DueMS: e.dueMS, Kind: e.kind,
		}
		if e.acl != nil {
			one.ACL = e.acl.list
		}
		return f(one)
	})
}

// Restorer builds a tree from the records of a snapshot, and refuses records that no tree can have (D7).
type Restorer struct {
	tree     *Tree
	last     string
	children siblings
	// alive reports whether a session exists: a snapshot has the sessions before the tree.
	alive func(owner uint64) bool
}

// NewRestorer returns a restorer without records. alive reports whether a session exists.
func NewRestorer(digest Digest, limits tree.Limits, alive func(owner uint64) bool) *Restorer {
	t := empty(digest, limits)
	return &Restorer{tree: t, children: siblings{root: &t.Root}, alive: alive}
}

// Add adds the next record, in the order of [Root.Records].
func (r *Restorer) Add(one Record) error {
	if err := tree.CheckPath(one.Path); err != nil {
		return fmt.Errorf("tree entry: %w", err)
	}
	key := keyOf(one.Path)
	if err := r.check(key, one); err != nil {
		return fmt.Errorf("tree entry %q: %w", one.Path, err)
	}
	e := &entry{
		created: one.Created, modified: one.Modified,
		childrenModified: one.ChildrenModified, createdMS: one.CreatedMS, modifiedMS: one.ModifiedMS, owner: one.Owner,
		creates: one.Creates, children: one.Children, version: one.Version, aclVersion: one.ACLVersion,
		lifeMS: one.LifeMS, dueMS: one.DueMS, kind: one.Kind, acl: r.tree.lists.intern(one.ACL),
	}
	e.set(one.Data)
	r.tree.entries.Load(key, e)
	r.tree.count(key, nil, e)
	r.last = key
	r.children.declared += uint64(one.Children)
	return nil
}

// check says what is wrong with a record.
func (r *Restorer) check(key string, one Record) error {
	switch {
	case key <= r.last:
		return fmt.Errorf("comes after %q", pathOf(r.last))
	case one.Kind < tree.Persistent || one.Kind > tree.InLockDelay:
		return fmt.Errorf("has kind %d", one.Kind)
	case (one.Owner != 0) != (one.Kind == tree.Ephemeral):
		return fmt.Errorf("is %v and has owner %#x", one.Kind, one.Owner)
	case one.Owner != 0 && !r.alive(one.Owner):
		return fmt.Errorf("has owner %#x, which does not exist", one.Owner)
	case uint64(one.Children) > one.Creates:
		return fmt.Errorf("has %d children and has had %d", one.Children, one.Creates)
	case one.Version < 0, one.ACLVersion < 0:
		return fmt.Errorf("has a negative version")
	case len(one.Data) > tree.MaxRequest:
		return fmt.Errorf("has %d bytes of data: at most %d", len(one.Data), tree.MaxRequest)
	case one.Path == tree.Root && one.ACL == nil:
		return fmt.Errorf("has no access list")
	}
	if err := one.ACL.Check(); err != nil {
		return err
	}
	if err := one.checkTimes(); err != nil {
		return err
	}
	if one.Path == tree.Root {
		return nil
	}
	return r.children.child(keyOf(tree.Parent(one.Path)))
}

// checkTimes says what is wrong with the stamps of a record, or with the time when its entry ends (D5 TTLs and
// containers, H2 lock-delay).
func (one Record) checkTimes() error {
	var minimum, maximum time.Duration // of the TTL or the lock-delay
	ends := true
	switch one.Kind {
	case tree.Container:
	case tree.Expiring:
		minimum, maximum = tree.MinTTL, tree.MaxTTL
	case tree.InLockDelay:
		minimum, maximum = time.Millisecond, tree.MaxLockDelay
	case tree.Ephemeral:
		maximum, ends = tree.MaxLockDelay, false
	case tree.Persistent:
		ends = false
	}
	switch {
	case one.Created > one.Modified || one.Created > one.ChildrenModified:
		return fmt.Errorf("has changed before it was made: at %v and %v, made at %v", one.Modified, one.ChildrenModified,
			one.Created)
	case one.Modified > math.MaxInt64 || one.ChildrenModified > math.MaxInt64:
		return fmt.Errorf("has a stamp above %v", tree.Stamp(math.MaxInt64))
	case one.LifeMS < minimum.Milliseconds() || one.LifeMS > maximum.Milliseconds():
		return fmt.Errorf("is %v and lives for %d ms: must be %d to %d", one.Kind, one.LifeMS, minimum.Milliseconds(),
			maximum.Milliseconds())
	case one.DueMS < 0 || one.DueMS > maxDueMS || (one.DueMS > 0) != ends:
		return fmt.Errorf("is %v and ends at %d ms", one.Kind, one.DueMS)
	}
	return nil
}

// maxDueMS is the last moment of the log clock in milliseconds.
const maxDueMS = int64(math.MaxInt64 / time.Millisecond)

// Tree returns the tree after the last record.
func (r *Restorer) Tree() (*Tree, error) {
	for _, path := range []string{tree.Root, tree.ReservedPath, tree.QuotaPath} {
		if r.tree.get(keyOf(path)) == nil {
			return nil, fmt.Errorf("tree: there is no entry %q", path)
		}
	}
	if err := r.children.end(); err != nil {
		return nil, err
	}
	nonstop := func() error { return nil }
	if err := r.tree.tally.recount(&r.tree.Root, r.tree.digest, nonstop); err != nil {
		return nil, err
	}
	return r.tree, nil
}
