package tree

// ChangeKind is what happened to an entry.
type ChangeKind uint8

// The kinds of changes. A change of the access list is none: nobody watches it, as in ZooKeeper.
const (
	// Created: the entry was made. Its parent has one child more.
	Created ChangeKind = 1 + iota
	// Deleted: the entry was removed, or ended by itself. Its parent has one child less.
	Deleted
	// DataSet: the entry's data was set, perhaps to what it was.
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

// Change is one change of an entry, as watches see it.
type Change struct {
	Stamp Stamp
	Kind  ChangeKind
	Path  string
	// ACL is the access list in force for the entry at the change. Who watches the entry hears of the change only if the
	// list grants Read (V8).
	ACL *ACL
	// Parent is the same for the entry above, whose children a creation or a deletion changes; nil for [DataSet].
	Parent *ACL
}
