package tree

// WatchKind is the kind of a watch: which changes it receives, and how often (V1 kinds of watches).
type WatchKind uint8

// The kinds of watches.
const (
	// WatchData fires once, when the entry's data is set or the entry is deleted.
	WatchData WatchKind = 1 + iota
	// WatchExists fires once, when the entry is created, its data is set, or it is deleted. The entry need not exist.
	WatchExists
	// WatchChild fires once, when a child of the entry is created or deleted, or the entry itself is deleted.
	WatchChild
	// WatchPersistent fires on all events of the three kinds above, until it is removed.
	WatchPersistent
	// WatchRecursive fires on creations, deletions and data changes of the entry and all entries below, until it is
	// removed. It gets no events of changed children: their own creations and deletions carry the same information.
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

// EventKind is the kind of an event.
type EventKind uint8

// The kinds of events. One change makes up to two events: for a creation or a deletion, the parent's watches get
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

// Event is an event that a watch receives (V2 each event once).
type Event struct {
	// Stamp is the stamp of the change.
	Stamp Stamp
	Kind  EventKind
	// Path is the path of the changed entry; with ChildrenChanged, of its parent.
	Path string
}

// Portion is the part of missed events that lasting watches have received: the events of all changes up to Through, and
// the first Events events after Through.
type Portion struct {
	Through Stamp
	Events  int
}
