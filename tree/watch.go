package tree

// WatchKind is which changes a watch hears of, and how often (V1).
type WatchKind uint8

// The kinds of watches.
const (
	// WatchData hears once, when the entry's data is set or the entry is deleted.
	WatchData WatchKind = 1 + iota
	// WatchExists hears once, when the entry is created, its data is set, or it is deleted. The entry need not exist.
	WatchExists
	// WatchChild hears once, when a child of the entry is created or deleted, or the entry itself is deleted.
	WatchChild
	// WatchPersistent hears of all that the three kinds above hear of, until it is removed.
	WatchPersistent
	// WatchRecursive hears of the creations, deletions and data changes of the entry and all that is below it, until it
	// is removed. It hears of no changed children: their own creations and deletions say the same.
	WatchRecursive
)

// String returns the kind's name.
func (k WatchKind) String() string {
	switch k {
	case WatchData:
		return "data"
	case WatchExists:
		return "exists"
	case WatchChild:
		return "child"
	case WatchPersistent:
		return "persistent"
	case WatchRecursive:
		return "recursive"
	default:
		return "unknown"
	}
}

// Valid reports whether k is one of the kinds.
func (k WatchKind) Valid() bool { return k >= WatchData && k <= WatchRecursive }

// OneShot reports whether a watch of the kind ends with its first event.
func (k WatchKind) OneShot() bool { return k >= WatchData && k <= WatchChild }

// EventKind is what a watch is told of its path.
type EventKind uint8

// The kinds of events. One change makes up to two: a creation or a deletion is also told to the parent's watches, as
// ChildrenChanged.
const (
	EntryCreated EventKind = 1 + iota
	EntryDeleted
	DataChanged
	ChildrenChanged
)

// String returns the kind's name.
func (k EventKind) String() string {
	switch k {
	case EntryCreated:
		return "created"
	case EntryDeleted:
		return "deleted"
	case DataChanged:
		return "data changed"
	case ChildrenChanged:
		return "children changed"
	default:
		return "unknown"
	}
}

// Valid reports whether k is one of the kinds.
func (k EventKind) Valid() bool { return k >= EntryCreated && k <= ChildrenChanged }

// Event is what a watch is told (V2).
type Event struct {
	// Stamp is the change's.
	Stamp Stamp
	Kind  EventKind
	// Path is the changed entry's; with ChildrenChanged its parent's.
	Path string
}

// Portion is how far lasting watches have been told what they are owed: the events of all changes up to Through, and so
// many of those above, in their order.
type Portion struct {
	Through Stamp
	Events  int
}
