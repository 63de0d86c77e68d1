package tree

import "fmt"

// Frozen is the tree after one entry of the log, as those see it who serve reads and watches. It never changes, and is
// safe for concurrent use.
type Frozen interface {
	// Stat returns what is known of the entry at path besides its data; false if there is none. It asks for no
	// permission.
	Stat(path string) (Stat, bool)
	// Effective returns the access list in force at path, or, if there is no such entry, the one that it would inherit.
	// It must not be modified.
	Effective(path string) ACL
	// As returns the tree as the principals may read it. It keeps the slice.
	As(principals []Principal) View
	// EphemeralsPage returns a page of the paths of a session's ephemerals that begin with prefix. Those with fewer names
	// come first. As in ZooKeeper the prefix is a text: /a is one of /ab too (W-21). More says that there are further
	// ones. Paths need no permission: the caller decides who may ask. Bad bounds are a [FieldError].
	EphemeralsPage(owner uint64, prefix string, bounds PageBounds) (paths []string, more bool, err error)
}

// View is a [Frozen] tree as a client's principals may read it. Its methods return a [RefusedError] for what the
// principals may not read, and for what does not exist. An entry that does not exist is NO_NODE to everybody, as in
// ZooKeeper. A View is safe for concurrent use.
type View interface {
	// Get returns an entry with its data. It needs Read.
	Get(path string) (Node, error)
	// Exists returns what is known of an entry besides its data; false if there is none. It needs Read of an entry that
	// exists.
	Exists(path string) (stat Stat, exists bool, err error)
	// ACL returns the access list in force for an entry. It needs Read or Admin. Without Admin the secrets of digests are
	// hidden (P2).
	ACL(path string) (AccessList, error)
	// List returns a page of the children of an entry. It needs Read of the entry, and for more than names Read of each
	// child. Bad bounds are a [FieldError].
	List(path string, bounds PageBounds, detail Detail) (Page, error)
	// CheckFence returns the session that owns the ephemeral at path, if token is its fencing token: the stamp that made
	// it (F1). Otherwise it refuses: the lock is gone, or another session has it. It needs Read. The answer is as
	// linearizable as the root.
	CheckFence(path string, token Stamp) (owner uint64, err error)
}

// Node is an entry as a reader sees it.
type Node struct {
	Path string
	// Data is nil if the entry holds null. The caller owns it.
	Data []byte
	Stat Stat
	// ACL is the entry's own access list, nil if it inherits one. It must not be modified.
	ACL ACL
}

// AccessList is the access list in force for an entry.
type AccessList struct {
	// ACL must not be modified.
	ACL ACL
	// Inherited says that it is that of an entry above.
	Inherited bool
	Stat      Stat
}

// Page is a part of a list of children, in the order of their names or backward.
type Page struct {
	// Stat is that of the parent: its ChildrenModified tells whether the children have changed since another page.
	Stat     Stat
	Children []Child
	// More says that there are children behind the last of the page.
	More bool
}

// Detail is what a list tells of each child.
type Detail uint8

// The details. Each tells what those before it tell too.
const (
	JustNames Detail = iota
	WithStats
	WithData
)

// MaxPageEntries and MaxPageBytes are what a page may have, at most.
const (
	MaxPageEntries = 100_000
	MaxPageBytes   = MaxRequest
)

// PageBounds say where a page begins and where it ends.
type PageBounds struct {
	// After is the name or the path that the page begins behind; empty for the first page.
	After string
	// Backward has a page of children go from the last name to the first. Those behind After are then the names before it.
	Backward bool
	// Entries and Bytes are the most that a page has: 1 to [MaxPageEntries] and 1 to [MaxPageBytes]. A page that is not
	// the last has at least one entry, however large that is.
	Entries, Bytes int
}

// Check returns a [FieldError] unless the bounds are within theirs.
func (b PageBounds) Check() error {
	for _, one := range [...]struct {
		field     string
		has, most int
	}{{"entries", b.Entries, MaxPageEntries}, {"bytes", b.Bytes, MaxPageBytes}} {
		if one.has < 1 || one.has > one.most {
			return &FieldError{Field: one.field, Why: fmt.Sprintf("is %d: must be 1 to %d", one.has, one.most)}
		}
	}
	return nil
}
