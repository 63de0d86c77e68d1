package store

import "holdfast/tree"

// maxInherited is the number of entries whose lists in force are remembered, at most.
const maxInherited = 1 << 14

// inherited are the access lists in force for entries that others lie below, by their paths. Without it each entry that
// is removed deep in a tree with a second list looks at all above it, three times: a [tree.DeleteTree] would take
// seconds. It has only entries that exist. Those below one go before it, and come after it, so an entry that goes or
// comes makes nothing untrue; one that gets another list does.
type inherited map[string]*tree.ACL

// changed notes that an entry has taken another's place; nil is none.
func (i inherited) changed(path string, old, now *entry) {
	switch {
	case now == nil:
		delete(i, path)
	case old != nil && old.acl != now.acl:
		clear(i)
	}
}

// effective returns the access list in force for the entry at path (P2).
func (t *Tree) effective(path string) *tree.ACL {
	if len(t.lists) == 1 { // the root's alone
		return &t.rootList.list
	}
	if e := t.get(keyOf(path)); e != nil && e.acl != nil {
		return &e.acl.list
	}
	return t.inheritedFrom(tree.Parent(path))
}

// inheritedFrom is effective for what lies above another path, and remembers it. The root always has a list, so the
// recursion ends there, [tree.MaxDepth] deep at most.
func (t *Tree) inheritedFrom(path string) *tree.ACL {
	if known := t.above[path]; known != nil {
		return known
	}
	var list *tree.ACL
	e := t.get(keyOf(path))
	if e != nil && e.acl != nil {
		list = &e.acl.list
	} else {
		list = t.inheritedFrom(tree.Parent(path))
	}
	if e == nil {
		return list
	}
	if len(t.above) >= maxInherited {
		clear(t.above)
	}
	t.above[path] = list
	return list
}
