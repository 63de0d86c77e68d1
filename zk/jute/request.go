package jute

import "fmt"

// MaxFrame is the longest frame that a server reads (N-02).
const MaxFrame = 1<<20 - 1

// ConnectRequest is the first frame of a client (N-10).
type ConnectRequest struct {
	Version      int32
	LastZxidSeen int64
	// Timeout is in milliseconds.
	Timeout   int32
	SessionID int64
	Password  []byte
	// ReadOnly says that the client can do with a read-only server. HasReadOnly says that it knows of them (H-03).
	ReadOnly, HasReadOnly bool
}

// ParseConnect reads a client's first frame.
func ParseConnect(frame []byte) (ConnectRequest, error) {
	d := NewDecoder(frame)
	r := ConnectRequest{
		Version: d.Int("protocolVersion"), LastZxidSeen: d.Long("lastZxidSeen"), Timeout: d.Int("timeOut"),
		SessionID: d.Long("sessionId"), Password: d.Buffer("passwd"),
	}
	if r.HasReadOnly = d.Err() == nil && d.Left() > 0; r.HasReadOnly {
		r.ReadOnly = d.Bool("readOnly")
	}
	return r, d.Err()
}

// Request is a client's request. Body is nil for those that have only a header, otherwise one of the records below.
type Request struct {
	Xid  int32
	Op   Op
	Body any
}

// bodies has what reads the record of an operation, but for those of several operations. One without a record has none.
//
//nolint:gochecknoglobals // a table
var bodies = map[Op]func(d *Decoder) any{
	Create: readCreate, Create2: readCreate, CreateContainer: readCreate,
	CreateTTL: func(d *Decoder) any {
		c := createOf(d)
		c.TTL = d.Long("ttl")
		return c
	},
	Delete: readVersion, Check: readVersion,
	Exists: readWatch, GetData: readWatch, GetChildren: readWatch, GetChildren2: readWatch,
	SetData: func(d *Decoder) any {
		return SetDataRequest{Path: d.String("path"), Data: d.Buffer("data"), Version: d.Int("version")}
	},
	GetACL: readPath, Sync: readPath, GetEphemerals: readPath, GetChildrenNumber: readPath,
	SetACL: func(d *Decoder) any {
		return SetACLRequest{Path: d.String("path"), ACL: d.acls(), Version: d.Int("version")}
	},
	Auth: func(d *Decoder) any {
		return AuthRequest{Type: d.Int("type"), Scheme: d.String("scheme"), Auth: d.Buffer("auth")}
	},
	SetWatches: func(d *Decoder) any { return setWatchesOf(d) },
	SetWatches2: func(d *Decoder) any {
		w := setWatchesOf(d)
		w.Persistent, w.Recursive = d.Strings("persistentWatches"), d.Strings("persistentRecursiveWatches")
		return w
	},
	CheckWatches: readType, RemoveWatches: readType, AddWatch: readType,
}

func createOf(d *Decoder) CreateRequest {
	return CreateRequest{Path: d.String("path"), Data: d.Buffer("data"), ACL: d.acls(), Flags: d.Int("flags")}
}

func setWatchesOf(d *Decoder) SetWatchesRequest {
	return SetWatchesRequest{
		Zxid: d.Long("relativeZxid"), Data: d.Strings("dataWatches"), Exist: d.Strings("existWatches"),
		Child: d.Strings("childWatches"),
	}
}

func readCreate(d *Decoder) any { return createOf(d) }
func readPath(d *Decoder) any   { return PathRequest{Path: d.String("path")} }
func readVersion(d *Decoder) any {
	return VersionRequest{Path: d.String("path"), Version: d.Int("version")}
}

func readWatch(d *Decoder) any { return WatchRequest{Path: d.String("path"), Watch: d.Bool("watch")} }
func readType(d *Decoder) any  { return TypeRequest{Path: d.String("path"), Type: d.Int("type")} }

// acls reads an access list; nil for null, which no server takes.
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

// MaxOps bounds the operations of a multi.
const MaxOps = 10_000

// inMulti has the operations of a multi, inReads those of a multiRead (N-30).
//
//nolint:gochecknoglobals // tables
var (
	inMulti = map[Op]bool{
		Create: true, Delete: true, SetData: true, Check: true, Create2: true, CreateContainer: true, CreateTTL: true,
	}
	inReads = map[Op]bool{GetData: true, GetChildren: true}
)

// MultiHeader is what stands before each element of a multi, and behind the last one.
type MultiHeader struct {
	Op   Op
	Done bool
	Err  Code
}

func readMultiHeader(d *Decoder) MultiHeader {
	return MultiHeader{Op: Op(d.Int("multi.type")), Done: d.Bool("multi.done"), Err: Code(d.Int("multi.err"))}
}

// readMulti reads the elements up to the end mark. Those of both kinds are read: the server refuses a mixture with the
// code that ZooKeeper has for it.
func readMulti(d *Decoder) any {
	var m MultiRequest
	for d.Err() == nil {
		h := readMultiHeader(d)
		if h.Done || d.Err() != nil {
			return m
		}
		switch {
		case !inMulti[h.Op] && !inReads[h.Op]:
			d.fail("multi", "has a %v: must have none", h.Op)
		case len(m.Ops) == MaxOps:
			d.fail("multi", "has more than %d operations", MaxOps)
		default:
			m.Ops = append(m.Ops, Request{Op: h.Op, Body: bodies[h.Op](d)})
		}
	}
	return m
}

// Of reports whether all operations are ones of a multi, or of a multiRead if op is that.
func (m MultiRequest) Of(op Op) bool {
	allowed := inMulti
	if op == MultiRead {
		allowed = inReads
	}
	for _, o := range m.Ops {
		if !allowed[o.Op] {
			return false
		}
	}
	return true
}

// BodyError is a request whose header could be read, and whose record could not.
type BodyError struct {
	Op  Op
	Err error
}

func (e *BodyError) Error() string { return fmt.Sprintf("%v: %v", e.Op, e.Err) }

// Unwrap returns what is wrong with the record.
func (e *BodyError) Unwrap() error { return e.Err }

// ParseRequest reads a frame behind the first one. With a [BodyError] the header was read.
func ParseRequest(frame []byte) (Request, error) {
	d := NewDecoder(frame)
	r := Request{Xid: d.Int("xid"), Op: Op(d.Int("type"))}
	if err := d.Err(); err != nil {
		return r, err
	}
	read := bodies[r.Op]
	if r.Op == Multi || r.Op == MultiRead {
		read = readMulti
	}
	if read != nil {
		if r.Body = read(d); d.Err() != nil {
			return r, &BodyError{r.Op, d.Err()}
		}
	}
	return r, nil
}
