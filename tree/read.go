package tree

// Bounds of a [Query] and of an [Addition].
const (
	// MaxPage is the number of entries in a page, at most; DefaultPage that of one that names no number.
	MaxPage     = 1000
	DefaultPage = 100
	// MaxWatches is the number of watches that one request adds or removes, at most.
	MaxWatches = 1000
)

// ReadOptions say how new the answer to a read must be.
type ReadOptions struct {
	// Seen is the highest stamp that the client has had from any node (N4).
	Seen Stamp
	// Linearizable asks for all that was committed anywhere when the read began (G5).
	Linearizable bool
	// AllowStale lets a node answer that is not READ_WRITE, or far behind the leader (N3, G6).
	AllowStale bool
}

// QueryKind is what a [Query] asks for.
type QueryKind uint8

// The kinds of queries.
const (
	// GetEntry: data and stat of Path.
	GetEntry QueryKind = 1 + iota
	// GetStat: the stat of Path, or that there is no such entry.
	GetStat
	// ListChildren: a page of the children of Path.
	ListChildren
	// ListEphemerals: a page of the paths of Owner's ephemerals that begin with Path.
	ListEphemerals
	// GetACL: the access list in force for Path.
	GetACL
	// CheckFence: whether Token is that of the holder at Path (F1).
	CheckFence
	// Sync: nothing but the answer's stamp (G5).
	Sync
)

// Query is a read of the tree.
type Query struct {
	Kind    QueryKind
	Options ReadOptions
	// Path is empty for Sync, and may be for ListEphemerals.
	Path string
	// After is the name or path that a page begins behind; empty for the first page. PageSize is 1 to [MaxPage].
	After    string
	PageSize int
	// Whole asks ListChildren for the names of all children, in Paths, instead of a page: as of one state, however many
	// they are. Only a node's own front end asks so.
	Whole bool
	// Backward lists children from the last name to the first.
	Backward bool
	// WithData asks for the data and stats of listed children, WithStat for their stats.
	WithData, WithStat bool
	// Owner is the session whose ephemerals are listed.
	Owner uint64
	// Token is the fencing token to check.
	Token Stamp
	// Session is the one in whose order the read is (G3); 0 for none.
	Session uint64
	// Unguarded lets GetStat show the stat of an entry that the client may not read, as ZooKeeper's exists does.
	Unguarded bool
	// Watch registers a watch together with the read (G2), of the kind that [Query.WatchKind] returns.
	Watch bool
}

// WatchKind returns the kind of watch that a query may register; 0 for none.
func (q Query) WatchKind() WatchKind {
	switch q.Kind {
	case GetEntry:
		return WatchData
	case GetStat:
		return WatchExists
	case ListChildren:
		return WatchChild
	case ListEphemerals, GetACL, CheckFence, Sync:
		return 0
	default:
		return 0
	}
}

// Answer is what a [Query] found. The fields are those of its kind, the others are zero.
type Answer struct {
	Kind QueryKind
	// Stamp is that of the root that was read: the answer shows all changes up to it, and none above (G4).
	Stamp Stamp
	// Exists is false after GetStat of an entry that does not exist. Stat is the entry's, after ListChildren the
	// parent's.
	Exists bool
	Stat   Stat
	// Data is nil for null.
	Data []byte
	// Children or Paths are a page, or Paths all names of a whole list. More says that there are further ones.
	Children []Child
	Paths    []string
	More     bool
	// ACL is the list in force. Inherited says that it is that of an entry above.
	ACL       ACL
	Inherited bool
	// Holds says that the token is that of the holder.
	Holds bool
}

// Child is an entry in a page.
type Child struct {
	Name string
	// Hidden says that the client may not read the child. Then only its name is told.
	Hidden bool
	// Stat is zero, and Data nil, unless they were asked for.
	Stat Stat
	Data []byte
}

// WatchSpec names a watch of a connection. In a removal Kind 0 stands for all kinds.
type WatchSpec struct {
	Path string
	Kind WatchKind
}

// Addition adds watches to a connection.
type Addition struct {
	// Watches are 1 to [MaxWatches].
	Watches []WatchSpec
	// Since is the highest stamp that the client was told; 0 to be told from now on (V4).
	Since Stamp
	// Options may not ask for a linearizable read.
	Options ReadOptions
	// InPortions asks for what lasting watches are owed in parts of which each fits: until the last one, nothing is added.
	// Told is how far the parts before have told. Only a node's own front end asks so: other clients are told LOST where
	// they are owed too much (V6).
	InPortions bool
	Told       Portion
}
