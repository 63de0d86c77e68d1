package tree

// ChangeKind is the kind of a change of an entry.
type ChangeKind uint8

// The kinds of changes. A change of the access list has no kind: no watch gets it, as in ZooKeeper.
const (
	// Created: the entry was made, and its parent has one more child.
	Created ChangeKind = 1 + iota
	// Deleted: the entry was removed or ended by itself, and its parent has one child less.
	Deleted
	// DataSet: the entry's data was set, perhaps to the same value.
	DataSet
)

// String returns the kind's name.
func (k ChangeKind) String() string {
	switch k {
	case Created:
		return "created"
	case Deleted:
		return "deleted"
	case DataSet:
		return "data set"
	default:
		return "unknown"
	}
}

// Change is one change of an entry, as watches receive it.
type Change struct {
	Stamp Stamp
	Kind  ChangeKind
	Path  string
	// ACL is the access list in force for the entry at the change. A watch of the entry receives the change only if the
	// list grants Read (V8 events need READ).
	ACL *ACL
	// Parent is the access list in force for the parent, whose children a creation or a deletion changes; nil for
	// [DataSet].
	Parent *ACL
}
