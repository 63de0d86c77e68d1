package jute

// The records of requests (N-16.4). Which operations have which is in the table of bodies.
type (
	// CreateRequest makes an entry. TTL is in milliseconds, of a createTTL alone.
	CreateRequest struct {
		Path  string
		Data  []byte
		ACL   []ACL
		Flags int32
		TTL   int64
	}
	// PathRequest names an entry.
	PathRequest struct{ Path string }
	// VersionRequest names an entry and the version that it must have.
	VersionRequest struct {
		Path    string
		Version int32
	}
	// WatchRequest is a read that may leave a watch.
	WatchRequest struct {
		Path  string
		Watch bool
	}
	// SetDataRequest replaces an entry's data.
	SetDataRequest struct {
		Path    string
		Data    []byte
		Version int32
	}
	// SetACLRequest replaces an entry's access list.
	SetACLRequest struct {
		Path    string
		ACL     []ACL
		Version int32
	}
	// MultiRequest is a transaction, or several reads.
	MultiRequest struct{ Ops []Request }
	// AuthRequest says who the client is.
	AuthRequest struct {
		Type   int32
		Scheme string
		Auth   []byte
	}
	// SetWatchesRequest brings back the watches of a client that was away since Zxid.
	SetWatchesRequest struct {
		Zxid                                      int64
		Data, Exist, Child, Persistent, Recursive []string
	}
	// TypeRequest is about a watch of an entry: its type, or the mode of one to be added.
	TypeRequest struct {
		Path string
		Type int32
	}
)

// ACL is one grant of an access list.
type ACL struct {
	Perms      int32
	Scheme, ID string
}
