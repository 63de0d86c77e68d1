package store

import (
	"fmt"

	"holdfast/tree"
)

// Memory of an entry besides the bytes of its path, data and list, rounded as the garbage collector does: the entry,
// its slots in the tree of entries and in an index, and its slot among the lists.
const (
	entryBytes   = 240
	indexedBytes = 48
	listedBytes  = 40
	listBytes    = 160
)

// kept returns the memory of the entry with a key, without its list, which entries may share.
func (e *entry) kept(key string) int64 {
	if e == nil {
		return 0
	}
	bytes := entryBytes + len(key) + len(e.data)
	if e.owner != 0 {
		bytes += indexedBytes + len(key)
	}
	if e.ends() {
		bytes += indexedBytes + len(key)
	}
	if e.acl != nil {
		bytes += listedBytes
	}
	return int64(bytes)
}

// kept returns the memory of a shared list.
func (a *interned) kept() int64 { return int64(listBytes + 3*len(a.content)) }

// more returns the memory that a list adds if no entry has it yet; otherwise 0.
func (l lists) more(a *interned) int64 {
	if a == nil || a.uses > 0 {
		return 0
	}
	return a.kept()
}

// less returns the memory that is freed when an entry with this list gets another list; 0 if other entries share the
// list.
func (l lists) less(a *interned) int64 {
	if a == nil || a.uses > 1 {
		return 0
	}
	return a.kept()
}

// mayKeep refuses a change that needs more memory than the cluster's bound leaves. A change that frees memory is never
// refused, also above the bound.
func (t *Tree) mayKeep(path string, more int64) *tree.RefusedError {
	if more <= 0 || t.kept+more <= t.limits.Bytes {
		return nil
	}
	return &tree.RefusedError{
		Code: tree.OverLimit, Path: path, Detail: fmt.Sprintf("max_tree_bytes is %d, and the tree would keep %d: delete "+
			"entries, or raise max_tree_bytes", t.limits.Bytes, t.kept+more),
	}
}
