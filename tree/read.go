package tree

// Bounds of a [Query] and of an [Addition].
const (
	// MaxPage is the largest number of entries in a page; DefaultPage is the number for a query without a number.
	MaxPage     = 1000
	DefaultPage = 100
	// MaxWatches is the largest number of watches that one request adds or removes.
	MaxWatches = 1000
)

// ReadOptions say how fresh the answer to a read must be.
type ReadOptions struct {
	// Seen is the highest stamp that the client has received from any node (N4 seen index).
	Seen Stamp
	// Linearizable requests an answer with all changes that were committed when the read began (G5 linearizable reads).
	Linearizable bool
	// AllowStale permits an answer from a node that is not READ_WRITE, or far behind the leader (N3 stale reads, G6
	// stale nodes refuse).
	AllowStale bool
}

// QueryKind is the kind of a [Query].
type QueryKind uint8

// The kinds of queries.
const (
	// GetEntry: data and stat of Path.
	GetEntry QueryKind = 1 + iota
	// GetStat: the stat of Path, or the absence of the entry.
	GetStat
	// ListChildren: a page of the children of Path.
	ListChildren
	// ListEphemerals: a page of the paths of Owner's ephemerals with the prefix Path.
	ListEphemerals
	// GetACL: the access list in force for Path.
	GetACL
	// CheckFence: whether Token is the token of the holder at Path (H1 fencing tokens).
	CheckFence
	// Sync: only the answer's stamp (G5).
	Sync
)

// Query is a read of the tree.
type Query struct {
	Kind    QueryKind
	Options ReadOptions
	// Path is empty for Sync. ListEphemerals permits an empty path.
	Path string
	// After is the name or path before the page's first entry; empty for the first page. PageSize is 1 to [MaxPage].
	After    string
	PageSize int
	// Whole makes ListChildren return the names of all children of one state in Paths, instead of a page. Only the
	// ZooKeeper port sets it.
	Whole bool
	// Backward lists children from the last name to the first.
	Backward bool
	// WithData requests the data and stats of listed children, WithStat their stats.
	WithData, WithStat bool
	// Owner is the session whose ephemerals are listed.
	Owner uint64
	// Token is the fencing token to check.
	Token Stamp
	// Session is the session whose order the read joins (G3 order in a session); 0 for none.
	Session uint64
	// SkipReadCheck lets GetStat return the stat of an entry that the client may not read, as ZooKeeper's exists does.
	SkipReadCheck bool
	// Watch registers a watch of the kind [Query.WatchKind] together with the read (G2 atomic reads).
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

// Answer is the answer to a [Query]. Fields of other kinds of queries are zero.
type Answer struct {
	Kind QueryKind
	// Stamp is the stamp of the root that was read: the answer shows all changes up to Stamp, and no later change (G4
	// stamps of answers).
	Stamp Stamp
	// Exists is false after GetStat without an entry. Stat is the stat of the entry; after ListChildren, of the parent.
	Exists bool
	Stat   Stat
	// Data is nil for null.
	Data []byte
	// Children or Paths are a page, or Paths are all names of a whole list. More says that entries follow the page.
	Children []Child
	Paths    []string
	More     bool
	// ACL is the list in force. Inherited says that the list belongs to an entry above.
	ACL       ACL
	Inherited bool
	// Holds says that the token is the holder's.
	Holds bool
}

// Child is an entry in a page.
type Child struct {
	Name string
	// Hidden says that the client may not read the child. The other fields except Name are then zero.
	Hidden bool
	// Stat and Data are set only if the query requested them.
	Stat Stat
	Data []byte
}

// WatchSpec names a watch of a connection. In a removal, Kind 0 means all kinds.
type WatchSpec struct {
	Path string
	Kind WatchKind
}

// Addition adds watches to a connection.
type Addition struct {
	// Watches has 1 to [MaxWatches] watches.
	Watches []WatchSpec
	// Since is the highest stamp up to which the client has all events; 0 to get only new events (V4 resumed watches).
	Since Stamp
	// Options must not request a linearizable read.
	Options ReadOptions
	// InPortions requests the missed events of lasting watches in portions that each fit into the connection's queue.
	// The node adds the watches with the last portion. Delivered is the end of the earlier portions. Only the ZooKeeper
	// port sets InPortions: other clients get LOST when they have missed too many events (V6 LOST).
	InPortions bool
	Delivered  Portion
}
