package tree

import "fmt"

// Frozen is the tree after one entry of the log, for reads and watches. It is immutable, and safe for concurrent use.
type Frozen interface {
	// Stat returns the stat of the entry at path; false if there is none. It needs no permission.
	Stat(path string) (Stat, bool)
	// Effective returns the access list in force at path, or, without an entry there, the list that a new entry would
	// inherit. The list must not be modified.
	Effective(path string) ACL
	// As returns the tree with the permissions of the principals. It keeps the slice.
	As(principals []Principal) View
	// EphemeralsPage returns a page of the paths of a session's ephemerals with the given prefix. Paths with fewer
	// names come first. As in ZooKeeper the prefix is a text: /a is also a prefix of /ab (W-21). more says that further
	// paths follow. Paths need no permission: the caller decides who may ask. Bounds out of range are a [FieldError].
	EphemeralsPage(owner uint64, prefix string, bounds PageBounds) (paths []string, more bool, err error)
}

// View is a [Frozen] tree with the permissions of a client's principals. Its methods return a [RefusedError] for an
// entry that the principals may not read or that does not exist. As in ZooKeeper, everybody gets NO_NODE for an entry
// that does not exist. A View is safe for concurrent use.
type View interface {
	// Get returns an entry with its data. It needs Read.
	Get(path string) (Node, error)
	// Exists returns the stat of an entry; false if there is none. It needs Read of an entry that exists.
	Exists(path string) (stat Stat, exists bool, err error)
	// ACL returns the access list in force for an entry. It needs Read or Admin. Without Admin it hides the secrets of
	// digests (P2 access lists).
	ACL(path string) (AccessList, error)
	// List returns a page of the children of an entry. It needs Read of the entry, and Read of each child unless detail
	// is JustNames. Bounds out of range are a [FieldError].
	List(path string, bounds PageBounds, detail Detail) (Page, error)
	// CheckFence returns the session that owns the ephemeral at path, if token is its fencing token: the stamp of its
	// creation (H1 fencing tokens). It refuses otherwise: the lock is gone, or another session holds it. It needs Read.
	// The answer is as linearizable as the root.
	CheckFence(path string, token Stamp) (owner uint64, err error)
}

// Node is an entry with its data.
type Node struct {
	Path string
	// Data is nil for null. The caller owns it.
	Data []byte
	Stat Stat
	// ACL is the entry's own access list; nil for an inherited list. It must not be modified.
	ACL ACL
}

// AccessList is the access list in force for an entry.
type AccessList struct {
	// ACL must not be modified.
	ACL ACL
	// Inherited says that the list belongs to an entry above.
	Inherited bool
	Stat      Stat
}

// Page is a page of a list of children, in the order of their names or backward.
type Page struct {
	// Stat is the parent's stat. ChildrenModified shows whether the children have changed between two pages.
	Stat     Stat
	Children []Child
	// More says that children follow the page.
	More bool
}

// Detail says which fields a list returns for each child.
type Detail uint8

// The details. Each includes the details before it.
const (
	JustNames Detail = iota
	WithStats
	WithData
)

// MaxPageEntries and MaxPageBytes bound a page.
const (
	MaxPageEntries = 100_000
	MaxPageBytes   = MaxRequest
)

// PageBounds say where a page begins and where it ends.
type PageBounds struct {
	// After is the name or the path before the page's first entry; empty for the first page.
	After string
	// Backward lists children from the last name to the first. The page then begins at the name before After.
	Backward bool
	// Entries and Bytes bound the page: 1 to [MaxPageEntries] and 1 to [MaxPageBytes]. A page has at least one entry,
	// however large, unless the list has ended.
	Entries, Bytes int
}

// Check returns a [FieldError] if the bounds are out of range.
func (b PageBounds) Check() error {
	for _, one := range [...]struct {
		field      string
		has, limit int
	}{{"entries", b.Entries, MaxPageEntries}, {"bytes", b.Bytes, MaxPageBytes}} {
		if one.has < 1 || one.has > one.limit {
			return &FieldError{Field: one.field, Why: fmt.Sprintf("is %d: must be 1 to %d", one.has, one.limit)}
		}
	}
	return nil
}
