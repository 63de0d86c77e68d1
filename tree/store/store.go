package store

import (
	"slices"

	"github.com/tidwall/btree"

	"holdfast/tree"
)

// Digest is a digest of a set of byte strings. It does not keep the strings.
type Digest interface {
	Add(canonical []byte)
	Remove(canonical []byte)
}

// Tree is the writable tree of the goroutine that applies the log. Not safe for concurrent use.
//
// All changes go through put and drop, also the rollback of a refused transaction. So the indexes, the counts and the
// digest always match the entries (W6 transactions).
type Tree struct {
	Root
	digest Digest
	lists  lists
	// rootList is the root's access list.
	rootList *interned
	// listed has the entries with their own access lists.
	listed listed
	// kept is the memory of all entries, with their lists and their slots in the indexes.
	kept int64
	// limits are the cluster's limits.
	limits tree.Limits
	tally  tally

	// undo has the entries that the current transaction has replaced, in order. changes are the transaction's changes
	// for watches.
	undo    []replaced
	changes []tree.Change
	// removed is the weight of the entries that all [tree.DeleteTree] of the transaction have removed.
	removed int
	scratch []byte
	// run carries out the transaction: a visitor of its own would be on the heap for each.
	run execution
}

// replaced is an entry before a change; entry is nil if there was none.
type replaced struct {
	key   string
	entry *entry
}

// Root is an immutable tree. It is safe for concurrent use.
type Root struct {
	// entries has the entries by their keys.
	entries *btree.Map[string, *entry]
	// owned indexes the ephemerals by owner, and dueSoon the entries that end by themselves by [entry.turn]; both have
	// numbered keys.
	owned, dueSoon *btree.Map[string, struct{}]
	// ephemerals counts the ephemerals of each owner.
	ephemerals *btree.Map[uint64, ephemerals]
	// quotas are the active quotas by their paths, as of the last transaction.
	quotas *btree.Map[string, Quota]
	// bytes is the memory of all entries at the last freeze.
	bytes int64
}

// New returns a tree with the entries that every tree has: the root, which everybody may change, [tree.ReservedPath]
// and [tree.QuotaPath].
func New(digest Digest, limits tree.Limits, at At) *Tree {
	t := empty(digest, limits)
	t.tally.byPath = map[string]*counted{}
	for _, path := range []string{tree.Root, tree.ReservedPath, tree.QuotaPath} {
		e := t.made(at, tree.Create{Path: path, Kind: tree.Persistent})
		if path == tree.Root {
			e.acl = t.lists.intern(tree.Open())
		} else {
			above := keyOf(tree.Parent(path))
			t.childAdded(above, t.get(above), at)
		}
		t.put(keyOf(path), e)
	}
	t.finish()
	return t
}

// SetLimits sets the limits of the cluster. Existing entries stay, even above the new limits.
func (t *Tree) SetLimits(limits tree.Limits) { t.limits = limits }

// degree is half of the most items in a node of the tree of entries. The first change of a node after a Freeze copies
// the node: with the library's default of 32, a create at a random place copies a third more bytes, at the expense of
// the garbage collector. With 16 an entry takes 4 bytes more.
const degree = 16

func empty(digest Digest, limits tree.Limits) *Tree {
	return &Tree{
		Root: Root{
			entries:    btree.NewMap[string, *entry](degree),
			owned:      new(btree.Map[string, struct{}]),
			dueSoon:    new(btree.Map[string, struct{}]),
			ephemerals: new(btree.Map[uint64, ephemerals]),
			quotas:     noQuotas(),
		},
		digest: digest, limits: limits, lists: lists{}, listed: listed{},
	}
}

// Freeze returns an immutable copy of the tree, at a cost that does not depend on the tree's size (D8 published roots).
func (t *Tree) Freeze() *Root {
	return &Root{
		entries: t.entries.Copy(), owned: t.owned.Copy(), dueSoon: t.dueSoon.Copy(), ephemerals: t.ephemerals.Copy(),
		quotas: t.quotas.Copy(), bytes: t.kept,
	}
}

// Len returns the number of entries.
func (r *Root) Len() int { return r.entries.Len() }

// Sizes returns the number of ephemeral entries, and the approximate memory of all entries: paths, data, lists and
// slots in the indexes.
func (r *Root) Sizes() (ephemerals int, bytes int64) { return r.owned.Len(), r.bytes }

// get returns the entry with a key; nil if there is none.
func (r *Root) get(key string) *entry {
	e, _ := r.entries.Get(key)
	return e
}

// put sets the entry with a key.
func (t *Tree) put(key string, e *entry) {
	old, _ := t.entries.Set(key, e)
	t.undo = append(t.undo, replaced{key: key, entry: old})
	t.count(key, old, e)
}

// drop removes the entry with a key, if there is one.
func (t *Tree) drop(key string) {
	old, ok := t.entries.Delete(key)
	if !ok {
		return
	}
	t.undo = append(t.undo, replaced{key: key, entry: old})
	t.count(key, old, nil)
}

// count updates the digest, the indexes and the counts after now has replaced old; nil is no entry.
func (t *Tree) count(key string, old, now *entry) {
	if old != nil {
		t.scratch = old.canonical(t.scratch[:0], key)
		t.digest.Remove(t.scratch)
		t.unlist(key, old)
		t.kept -= old.kept(key) + t.lists.drop(old.acl)
	}
	if now != nil {
		t.scratch = now.canonical(t.scratch[:0], key)
		t.digest.Add(t.scratch)
		t.list(key, now)
		t.kept += now.kept(key) + t.lists.use(now.acl)
		if key == rootKey {
			t.rootList = now.acl
		}
	}
	t.listed.changed(pathOf(key), old, now)
	t.tally.account(pathOf(key), old, now)
}

// list adds e to its indexes.
func (t *Tree) list(key string, e *entry) {
	if e.owner != 0 {
		t.owned.Set(numbered(e.owner, key), struct{}{})
		t.ephemerals.Set(e.owner, t.ephemeralsOf(e.owner).plus(1, tree.RemovalWeight(pathOf(key))))
	}
	if e.ends() {
		t.dueSoon.Set(numbered(e.turn(), key), struct{}{})
	}
}

// unlist removes e from its indexes.
func (t *Tree) unlist(key string, e *entry) {
	if e.owner != 0 {
		t.owned.Delete(numbered(e.owner, key))
		if left := t.ephemeralsOf(e.owner).plus(-1, -tree.RemovalWeight(pathOf(key))); left.count > 0 {
			t.ephemerals.Set(e.owner, left)
		} else {
			t.ephemerals.Delete(e.owner)
		}
	}
	if e.ends() {
		t.dueSoon.Delete(numbered(e.turn(), key))
	}
}

// rollBack undoes all changes since begin.
func (t *Tree) rollBack() {
	for _, was := range slices.Backward(t.undo) { // Backward evaluates t.undo once: put and drop append to it
		if was.entry != nil {
			t.put(was.key, was.entry)
		} else {
			t.drop(was.key)
		}
	}
	t.finish()
}

// finish ends a transaction, and returns its changes for watches. The next transaction begins.
func (t *Tree) finish() []tree.Change {
	changes := t.changes
	t.tally.flush(&t.Root, t.digest)
	clear(t.undo)
	t.undo, t.changes, t.removed = t.undo[:0], nil, 0
	return changes
}

// recordChange records a change for watches.
func (t *Tree) recordChange(at At, kind tree.ChangeKind, path string) {
	c := tree.Change{Stamp: at.Stamp, Kind: kind, Path: path, ACL: t.effective(path)}
	if kind != tree.DataSet {
		c.Parent = t.effective(tree.Parent(path))
	}
	t.changes = append(t.changes, c)
}
