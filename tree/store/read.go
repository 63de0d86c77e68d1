package store

import "holdfast/tree"

// Get returns the entry at path; false if there is none.
func (r *Root) Get(path string) (tree.Node, bool) {
	e := r.get(keyOf(path))
	if e == nil {
		return tree.Node{}, false
	}
	return r.node(path, e), true
}

// Stat returns the stat of the entry at path; false if there is none.
func (r *Root) Stat(path string) (tree.Stat, bool) {
	e := r.get(keyOf(path))
	if e == nil {
		return tree.Stat{}, false
	}
	return r.stat(path, e), true
}

func (r *Root) stat(path string, e *entry) tree.Stat {
	stat := e.stat()
	_, stat.Bytes = r.shown(path, e)
	return stat
}

func (r *Root) node(path string, e *entry) tree.Node {
	n := tree.Node{Path: path, Stat: e.stat()}
	if n.Data, n.Stat.Bytes = r.shown(path, e); n.Data == nil {
		n.Data = e.bytes()
	}
	if e.acl != nil {
		n.ACL = e.acl.list
	}
	return n
}

// Effective returns the access list in force for the entry at path, its own or an inherited list. The list must not be
// modified.
func (r *Root) Effective(path string) tree.ACL { return r.own(path).list }

// Children calls f for the children of path with names after the name after, in the order of the names, until f returns
// false. An empty after is before all names. f must not keep a Child's data beyond the call, except from Node.
func (r *Root) Children(path, after string, f func(name string, c Child) bool) {
	prefix := belowKey(path, 1)
	from := prefix
	if after != "" {
		from += after + "\x00" // no name has a NUL, so this key comes just behind after
	}
	r.entries.Ascend(from, r.childrenOf(prefix, f))
}

// ChildrenBackward is Children in the opposite order: it begins with the last name, or with the name before after.
func (r *Root) ChildrenBackward(path, after string, f func(name string, c Child) bool) {
	prefix := belowKey(path, 1)
	if after == "" {
		r.entries.Descend(prefix+"\xff", r.childrenOf(prefix, f)) // no name begins with this byte: names are UTF-8
		return
	}
	visit := r.childrenOf(prefix, f)
	r.entries.Descend(prefix+after, func(key string, e *entry) bool {
		return key == prefix+after || visit(key, e)
	})
}

// childrenOf returns a visitor of entries that calls f for keys with the prefix, and stops at another key.
func (r *Root) childrenOf(prefix string, f func(name string, c Child) bool) func(key string, e *entry) bool {
	return func(key string, e *entry) bool {
		if len(key) <= len(prefix) || key[:len(prefix)] != prefix {
			return false
		}
		return f(key[len(prefix):], Child{root: r, path: pathOf(key), entry: e})
	}
}

// Child is an entry that [Root.Children] found. It computes node and stat only on request.
type Child struct {
	root  *Root
	path  string
	entry *entry
}

// Node returns the entry with its data.
func (c Child) Node() tree.Node { return c.root.node(c.path, c.entry) }

// Stat returns the entry's stat.
func (c Child) Stat() tree.Stat { return c.root.stat(c.path, c.entry) }

// Owned calls f for the paths of a session's ephemerals, in the order of the tree, until f returns false.
func (r *Root) Owned(owner uint64, f func(path string) bool) {
	r.ownedBy(owner, func(key string) bool { return f(pathOf(key)) })
}

// hold reports whether all conditions hold.
func (r *Root) hold(conditions []tree.Condition) bool {
	for _, c := range conditions {
		if !r.holds(c) {
			return false
		}
	}
	return true
}

func (r *Root) holds(c tree.Condition) bool {
	e := r.get(keyOf(c.Path))
	if e == nil {
		return c.Property == tree.Exists && compare(0, c.Is, c.Value)
	}
	return compare(e.property(c.Property), c.Is, c.Value)
}

// property returns the value that a condition compares.
func (e *entry) property(p tree.Property) uint64 {
	switch p {
	case tree.Exists:
		return 1
	case tree.DataVersion:
		return uint64(e.version)
	case tree.OwnerID:
		return e.owner
	case tree.CreatedStamp:
		return uint64(e.created)
	case tree.ModifiedStamp:
		return uint64(e.modified)
	case tree.ChildCount:
		return uint64(e.children)
	default:
		panic("no such property")
	}
}

func compare(has uint64, is tree.Comparison, value uint64) bool {
	switch is {
	case tree.Equal:
		return has == value
	case tree.NotEqual:
		return has != value
	case tree.Less:
		return has < value
	case tree.Greater:
		return has > value
	default:
		panic("no such comparison")
	}
}
