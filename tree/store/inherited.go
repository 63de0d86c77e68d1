package store

import "holdfast/tree"

// listed has the entries' own access lists, by the paths of the entries. The list in force at a path then costs one
// look-up in a map for each level, without a search for the entries.
type listed map[string]*interned

// changed records that the entry now has replaced the entry old; nil is no entry.
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

// effective returns the access list in force for the entry at path: its own list, or the list of the nearest entry
// above that has one (P2 access lists). The root always has a list.
func (t *Tree) effective(path string) *tree.ACL {
	if len(t.lists) == 1 { // only the root's list exists
		return &t.rootList.list
	}
	for ; ; path = tree.Parent(path) {
		if own := t.listed[path]; own != nil {
			return &own.list
		}
	}
}
