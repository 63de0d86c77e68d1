package jute

// The records of requests (N-16.4), each with the function that reads it. The table of operations in zk/operations
// says which operation has which record.
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
	// VersionRequest names an entry and its expected version.
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
	// AuthRequest names the client.
	AuthRequest struct {
		Type   int32
		Scheme string
		Auth   []byte
	}
	// SetWatchesRequest restores the watches of a client that was away since Zxid.
	SetWatchesRequest struct {
		Zxid                                      int64
		Data, Exist, Child, Persistent, Recursive []string
	}
	// TypeRequest is about a watch of an entry: the watch's type, or the mode of a new watch.
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

// ReadCreate reads the record of a create.
func ReadCreate(d *Decoder) CreateRequest {
	return CreateRequest{Path: d.String("path"), Data: d.Buffer("data"), ACL: d.acls(), Flags: d.Int("flags")}
}

// ReadCreateTTL reads the record of a createTTL.
func ReadCreateTTL(d *Decoder) CreateRequest {
	r := ReadCreate(d)
	r.TTL = d.Long("ttl")
	return r
}

// ReadPath reads the record of an operation that names an entry alone.
func ReadPath(d *Decoder) PathRequest { return PathRequest{Path: d.String("path")} }

// ReadVersion reads the record of a delete or check.
func ReadVersion(d *Decoder) VersionRequest {
	return VersionRequest{Path: d.String("path"), Version: d.Int("version")}
}

// ReadWatch reads the record of a read that may leave a watch.
func ReadWatch(d *Decoder) WatchRequest {
	return WatchRequest{Path: d.String("path"), Watch: d.Bool("watch")}
}

// ReadSetData reads the record of a setData.
func ReadSetData(d *Decoder) SetDataRequest {
	return SetDataRequest{Path: d.String("path"), Data: d.Buffer("data"), Version: d.Int("version")}
}

// ReadSetACL reads the record of a setACL.
func ReadSetACL(d *Decoder) SetACLRequest {
	return SetACLRequest{Path: d.String("path"), ACL: d.acls(), Version: d.Int("version")}
}

// ReadAuth reads the record of an auth.
func ReadAuth(d *Decoder) AuthRequest {
	return AuthRequest{Type: d.Int("type"), Scheme: d.String("scheme"), Auth: d.Buffer("auth")}
}

// ReadSetWatches reads the record of a setWatches.
func ReadSetWatches(d *Decoder) SetWatchesRequest {
	return SetWatchesRequest{
		Zxid: d.Long("relativeZxid"), Data: d.Strings("dataWatches"), Exist: d.Strings("existWatches"),
		Child: d.Strings("childWatches"),
	}
}

// ReadSetWatches2 reads the record of a setWatches2.
func ReadSetWatches2(d *Decoder) SetWatchesRequest {
	r := ReadSetWatches(d)
	r.Persistent, r.Recursive = d.Strings("persistentWatches"), d.Strings("persistentRecursiveWatches")
	return r
}

// ReadType reads the record of an operation on a watch.
func ReadType(d *Decoder) TypeRequest {
	return TypeRequest{Path: d.String("path"), Type: d.Int("type")}
}

// acls reads an access list; nil for null, which every server refuses.
func (d *Decoder) acls() []ACL {
	n := d.count("acl", 12)
	if n == 0 {
		return nil
	}
	all := make([]ACL, 0, n)
	for range n {
		all = append(all, ACL{Perms: d.Int("acl.perms"), Scheme: d.String("acl.scheme"), ID: d.String("acl.id")})
	}
	return all
}

// Target returns the path of the entry that the request reads.
func (r PathRequest) Target() string { return r.Path }

// Target returns the path of the entry that the request reads.
func (r WatchRequest) Target() string { return r.Path }
