package store

import (
	"strings"

	"holdfast/tree"
)

// What an entry of a page counts besides its texts, and what its stat counts, in bytes.
const (
	pagedBytes = 8
	statBytes  = 96
)

// room counts what a page still may have.
type room struct {
	entries, bytes int
	taken          bool
}

func roomOf(b tree.PageBounds) room { return room{entries: b.Entries, bytes: b.Bytes} }

// take reports whether there is room for an entry of so many bytes, and takes it.
func (r *room) take(bytes int) bool {
	if r.taken && (r.entries == 0 || r.bytes < bytes) {
		return false
	}
	r.taken = true
	r.entries--
	r.bytes -= bytes
	return true
}

// List returns a page of the children of an entry. It needs Read of the entry, and for more than names Read of each
// child. Bad bounds are a [tree.FieldError].
func (v view) List(path string, bounds tree.PageBounds, detail tree.Detail) (tree.Page, error) {
	if err := bounds.Check(); err != nil {
		return tree.Page{}, err
	}
	parent, err := v.readable("list", path, tree.Read)
	if err != nil {
		return tree.Page{}, err
	}
	page, left := tree.Page{Stat: v.root.stat(path, parent)}, roomOf(bounds)
	children := v.root.Children
	if bounds.Backward {
		children = v.root.ChildrenBackward
	}
	children(path, bounds.After, func(name string, c Child) bool {
		one, size := v.listed(name, c, detail)
		if !left.take(size) {
			page.More = true
			return false
		}
		if detail == tree.WithData && !one.Hidden {
			n := c.Node()
			one.Stat, one.Data = n.Stat, n.Data
		}
		page.Children = append(page.Children, one)
		return true
	})
	return page, nil
}

// listed returns a child without its data, and what it counts in a page with it.
func (v view) listed(name string, c Child, detail tree.Detail) (one tree.Child, bytes int) {
	one, bytes = tree.Child{Name: name}, pagedBytes+len(name)
	if detail == tree.JustNames {
		return one, bytes
	}
	// A child that inherits has the parent's list, which grants Read.
	if own := c.entry.acl; own != nil && !own.list.Grants(tree.Read, v.principals) {
		one.Hidden = true
		return one, bytes
	}
	one.Stat = c.Stat()
	bytes += statBytes
	if detail == tree.WithData {
		bytes += one.Stat.Bytes
	}
	return one, bytes
}

// EphemeralsPage returns a page of the paths of a session's ephemerals that begin with prefix. Those with fewer names
// come first. As in ZooKeeper the prefix is a text: /a is one of /ab too (W-21). More says that there are further ones.
// Paths need no permission: the caller decides who may ask. Bad bounds are a [tree.FieldError].
func (r *Root) EphemeralsPage(owner uint64, prefix string, bounds tree.PageBounds) (
	paths []string, more bool, err error,
) {
	if err := bounds.Check(); err != nil {
		return nil, false, err
	}
	left := roomOf(bounds)
	r.ownedFrom(owner, prefix, bounds.After, func(path string) bool {
		if more = !left.take(pagedBytes + len(path)); !more {
			paths = append(paths, path)
		}
		return !more
	})
	return paths, more, nil
}

// ownedFrom calls f for the paths of a session's entries that begin with prefix and come behind after, until f returns
// false. It passes over the others of a depth at once.
func (r *Root) ownedFrom(owner uint64, prefix, after string, f func(path string) bool) {
	behind := ""
	if after != "" {
		behind = keyOf(after) + "\x00" // no path has that character
	}
	for depth := 0; depth <= tree.MaxDepth; {
		from := max(string([]byte{byte(depth)})+prefix, behind)
		next := tree.MaxDepth + 1
		r.owned.Ascend(numbered(owner, from), func(indexed string, _ struct{}) bool {
			n, key := numberedParts(indexed)
			switch at := int(key[0]); {
			case n != owner:
				return false
			case at > depth:
				next = at
				return false
			case !strings.HasPrefix(pathOf(key), prefix):
				next = depth + 1
				return false
			}
			return f(pathOf(key))
		})
		depth = next
	}
}
