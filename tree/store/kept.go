package store

import (
	"fmt"

	"holdfast/tree"
)

// What an entry takes of memory beside the bytes of its path, data and list, as the collector of garbage rounds it: the
// entry itself, its places in the tree of entries and in an index, and its place among the lists.
const (
	entryBytes   = 240
	indexedBytes = 48
	listedBytes  = 40
	listBytes    = 160
)

// kept returns how much memory the entry with a key takes, without its list, which others may share.
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

// kept returns how much memory a list takes that entries share.
func (a *interned) kept() int64 { return int64(listBytes + 3*len(a.content)) }

// more returns how much memory a list takes that no entry has yet; 0 for another.
func (l lists) more(a *interned) int64 {
	if a == nil || a.uses > 0 {
		return 0
	}
	return a.kept()
}

// less returns how much memory a list frees when an entry that has the list gets another; 0 if others have it too.
func (l lists) less(a *interned) int64 {
	if a == nil || a.uses > 1 {
		return 0
	}
	return a.kept()
}

// mayKeep refuses more bytes of memory than the cluster's bound has room for. What gets smaller may still be above it.
func (t *Tree) mayKeep(path string, more int64) *tree.RefusedError {
	if more <= 0 || t.kept+more <= t.limits.Bytes {
		return nil
	}
	return &tree.RefusedError{
		Code: tree.OverLimit, Path: path, Detail: fmt.Sprintf("max_tree_bytes is %d, and the tree would keep %d: delete "+
			"entries, or raise max_tree_bytes", t.limits.Bytes, t.kept+more),
	}
}
