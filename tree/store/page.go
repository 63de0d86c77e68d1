package store

import (
	"strings"

	"holdfast/tree"
)

// Bytes that an entry of a page counts besides its texts, and that its stat counts.
const (
	pagedBytes = 8
	statBytes  = 96
)

// pageBudget is the free space of a page.
type pageBudget struct {
	entries, bytes int
	used           bool
}

func budgetOf(b tree.PageBounds) pageBudget { return pageBudget{entries: b.Entries, bytes: b.Bytes} }

// fits reports whether an entry of the given size fits, and uses the space. The first entry of a page always fits.
func (r *pageBudget) fits(bytes int) bool {
	if r.used && (r.entries == 0 || r.bytes < bytes) {
		return false
	}
	r.used = true
	r.entries--
	r.bytes -= bytes
	return true
}

// List returns a page of the children of an entry. It needs Read of the entry, and Read of each child unless detail is
// JustNames. Bounds out of range are a [tree.FieldError].
func (v view) List(path string, bounds tree.PageBounds, detail tree.Detail) (tree.Page, error) {
	if err := bounds.Check(); err != nil {
		return tree.Page{}, err
	}
	parent, err := v.readable("list", path, tree.Read)
	if err != nil {
		return tree.Page{}, err
	}
	page, left := tree.Page{Stat: v.root.stat(path, parent)}, budgetOf(bounds)
	children := v.root.Children
	if bounds.Backward {
		children = v.root.ChildrenBackward
	}
	children(path, bounds.After, func(name string, c Child) bool {
		one, size := v.listed(name, c, detail)
		if !left.fits(size) {
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

// listed returns a child without its data, and the bytes that it counts in a page.
func (v view) listed(name string, c Child, detail tree.Detail) (one tree.Child, bytes int) {
	one, bytes = tree.Child{Name: name}, pagedBytes+len(name)
	if detail == tree.JustNames {
		return one, bytes
	}
	// A child without its own list has the parent's list, which grants Read.
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

// EphemeralsPage returns a page of the paths of a session's ephemerals with the given prefix. Paths with fewer names
// come first. As in ZooKeeper the prefix is a text: /a is also a prefix of /ab (W-21). more says that further paths
// follow. Paths need no permission: the caller decides who may ask. Bounds out of range are a [tree.FieldError].
func (r *Root) EphemeralsPage(owner uint64, prefix string, bounds tree.PageBounds) (
	paths []string, more bool, err error,
) {
	if err := bounds.Check(); err != nil {
		return nil, false, err
	}
	left := budgetOf(bounds)
	r.ownedFrom(owner, prefix, bounds.After, func(path string) bool {
		if more = !left.fits(pagedBytes + len(path)); !more {
			paths = append(paths, path)
		}
		return !more
	})
	return paths, more, nil
}

// ownedFrom calls f for the paths of a session's entries with the prefix and after the path after, until f returns
// false. At each depth it jumps to the first such entry.
func (r *Root) ownedFrom(owner uint64, prefix, after string, f func(path string) bool) {
	behind := ""
	if after != "" {
		behind = keyOf(after) + "\x00" // no path has a NUL
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
