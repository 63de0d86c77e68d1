package store

import "holdfast/tree"

// listed has the access lists that entries have themselves, by the paths of the entries. With it the list in force at
// a path costs one look into a map for each level: entries far above, and those that do not exist, are not looked for.
type listed map[string]*interned

// changed notes that an entry has taken another's place; nil is none.
func (l listed) changed(path string, old, now *entry) {
	switch {
	case now != nil && now.acl != nil:
		if old == nil || old.acl != now.acl {
			l[path] = now.acl
		}
	case old != nil && old.acl != nil:
		delete(l, path)
	}
}

// effective returns the access list in force for the entry at path: its own, or that of the nearest entry above that
// has one (P2). The root always has one.
func (t *Tree) effective(path string) *tree.ACL {
	if len(t.lists) == 1 { // the root's alone
		return &t.rootList.list
	}
	for ; ; path = tree.Parent(path) {
		if own := t.listed[path]; own != nil {
			return &own.list
		}
	}
}
