package store

import (
	"slices"

	"github.com/tidwall/btree"

	"holdfast/tree"
)

// Digest is a digest of a set of byte strings. It keeps none of them.
type Digest interface {
	Add(canonical []byte)
	Remove(canonical []byte)
}

// Tree is the tree, as the goroutine that applies the log writes it. Not safe for concurrent use.
//
// All changes go through put and drop, the undoing of a refused transaction too. So the indexes, the counts and the
// digest always fit the entries (W6).
type Tree struct {
	Root
	digest Digest
	lists  lists
	// rootList is the root's access list.
	rootList *interned
	// listed has the entries with a list of their own.
	listed listed
	// kept is how much memory all entries take, with their lists and their places in the indexes.
	kept int64
	// limits are those of the cluster.
	limits tree.Limits
	tally  tally

	// undo has what the transaction under way replaced, in its order. changes are what watches see of it.
	undo    []replaced
	changes []tree.Change
	// removed is the weight of the entries that each [tree.DeleteTree] of the transaction has removed.
	removed int
	scratch []byte
}

// replaced is an entry before a change; entry is nil if there was none.
type replaced struct {
	key   string
	entry *entry
}

// Root is a tree that never changes. It is safe for concurrent use.
type Root struct {
	// entries are the entries by their keys.
	entries *btree.Map[string, *entry]
	// owned has the owners' entries, dueSoon the entries that end by themselves, by numbered keys: the owner, or
	// [entry.turn].
	owned, dueSoon *btree.Map[string, struct{}]
	// ephemerals are those of each session that owns some.
	ephemerals *btree.Map[uint64, ephemerals]
	// quotas are those in force by their paths, as of the last transaction.
	quotas *btree.Map[string, Quota]
	// bytes are how much memory all entries took at the last freeze.
	bytes int64
}

// New returns a tree with the entries that each tree has: the root, which everybody may change, and the place of
// quotas below [tree.ReservedPath].
func New(digest Digest, limits tree.Limits, at At) *Tree {
	t := empty(digest, limits)
	t.tally.byPath = map[string]*counted{}
	for _, path := range []string{tree.Root, tree.ReservedPath, tree.QuotaPath} {
		e := t.made(at, tree.Create{Path: path, Kind: tree.Persistent})
		if path == tree.Root {
			e.acl = t.lists.intern(tree.Open())
		} else {
			above := keyOf(tree.Parent(path))
			t.born(above, t.get(above), at)
		}
		t.put(keyOf(path), e)
	}
	t.finish()
	return t
}

// SetLimits sets the limits of the cluster. What exceeds new limits already stays.
func (t *Tree) SetLimits(limits tree.Limits) { t.limits = limits }

// degree is half of the items that a node of the tree of entries has, at most. The first change of a node after a
// Freeze copies the node: at the library's 32, a create at a random place copies a third more bytes, which the garbage
// collector then pays for. At 16 an entry takes 4 bytes more.
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

// Freeze returns the tree as it is now, at a cost that does not depend on its size (D8).
func (t *Tree) Freeze() *Root {
	return &Root{
		entries: t.entries.Copy(), owned: t.owned.Copy(), dueSoon: t.dueSoon.Copy(), ephemerals: t.ephemerals.Copy(),
		quotas: t.quotas.Copy(), bytes: t.kept,
	}
}

// Len returns the number of entries.
func (r *Root) Len() int { return r.entries.Len() }

// Sizes returns the number of ephemeral entries, and how much memory all entries take, about: with paths, data, lists
// and their places in the indexes.
func (r *Root) Sizes() (ephemerals int, bytes int64) { return r.owned.Len(), r.bytes }

// get returns the entry with a key, nil if there is none.
func (r *Root) get(key string) *entry {
	e, _ := r.entries.Get(key)
	return e
}

// put makes e the entry with a key.
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

// count brings all that follows from the entries up to date: now is in the place of old, and nil is no entry.
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

// list adds e to the indexes that it belongs to.
func (t *Tree) list(key string, e *entry) {
	if e.owner != 0 {
		t.owned.Set(numbered(e.owner, key), struct{}{})
		t.ephemerals.Set(e.owner, t.ephemeralsOf(e.owner).plus(1, tree.RemovalWeight(pathOf(key))))
	}
	if e.ends() {
		t.dueSoon.Set(numbered(e.turn(), key), struct{}{})
	}
}

// unlist takes e out of the indexes.
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
	for _, was := range slices.Backward(t.undo) { // of what there is now: put and drop append
		if was.entry != nil {
			t.put(was.key, was.entry)
		} else {
			t.drop(was.key)
		}
	}
	t.finish()
}

// finish ends a transaction, and returns what watches see of it. The next one begins.
func (t *Tree) finish() []tree.Change {
	changes := t.changes
	t.tally.settle(&t.Root, t.digest)
	clear(t.undo)
	t.undo, t.changes, t.removed = t.undo[:0], nil, 0
	return changes
}

// tell notes a change for watches.
func (t *Tree) tell(at At, kind tree.ChangeKind, path string) {
	c := tree.Change{Stamp: at.Stamp, Kind: kind, Path: path, ACL: t.effective(path)}
	if kind != tree.DataSet {
		c.Parent = t.effective(tree.Parent(path))
	}
	t.changes = append(t.changes, c)
}
