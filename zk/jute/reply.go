package jute

// ConnectResponse answers a [ConnectRequest] (N-11). The zero response says that the session is gone (H-61).
type ConnectResponse struct {
	// Timeout is in milliseconds.
	Timeout   int32
	SessionID int64
	Password  [16]byte
	// ReadOnly is sent to clients that know of read-only servers.
	ReadOnly, HasReadOnly bool
}

// Frame returns the response as a frame.
func (r ConnectResponse) Frame() []byte {
	e := NewFrame()
	e.Int(0)
	e.Int(r.Timeout)
	e.Long(r.SessionID)
	e.Buffer(r.Password[:])
	if r.HasReadOnly {
		e.Bool(r.ReadOnly)
	}
	return e.Frame()
}

// Reply begins a reply: the header, behind which the record is appended if code is OK (N-15).
func Reply(xid int32, zxid int64, code Code) *Encoder {
	e := NewFrame()
	e.Int(xid)
	e.Long(zxid)
	e.Int(int32(code))
	return e
}

// Event returns the frame of a watch's event (N-23).
func Event(zxid int64, kind int32, path string) []byte {
	e := Reply(EventXid, zxid, OK)
	e.Int(kind)
	e.Int(StateConnected)
	e.String(path)
	return e.Frame()
}

// Stat is an entry's metadata: 68 bytes.
type Stat struct {
	Created, Modified        int64
	CreatedMS, ModifiedMS    int64
	Version, ChildrenVersion int32
	ACLVersion               int32
	Owner                    int64
	DataLength, Children     int32
	ChildrenModified         int64
}

// Stat appends a stat.
func (e *Encoder) Stat(s Stat) {
	e.Long(s.Created)
	e.Long(s.Modified)
	e.Long(s.CreatedMS)
	e.Long(s.ModifiedMS)
	e.Int(s.Version)
	e.Int(s.ChildrenVersion)
	e.Int(s.ACLVersion)
	e.Long(s.Owner)
	e.Int(s.DataLength)
	e.Int(s.Children)
	e.Long(s.ChildrenModified)
}

// ACLs appends an access list.
func (e *Encoder) ACLs(all []ACL) {
	e.Int(int32(len(all))) //nolint:gosec // an access list is short
	for _, a := range all {
		e.Int(a.Perms)
		e.String(a.Scheme)
		e.String(a.ID)
	}
}

// MultiHeader appends the header of an element of a multi's reply.
func (e *Encoder) MultiHeader(h MultiHeader) {
	e.Int(int32(h.Op))
	e.Bool(h.Done)
	e.Int(int32(h.Err))
}

// MultiError appends an element that was refused, or was not carried out because another element was refused (N-32).
func (e *Encoder) MultiError(code Code) {
	e.MultiHeader(MultiHeader{Op: opError, Err: code})
	e.Int(int32(code))
}

// MultiEnd appends the mark behind the last element.
func (e *Encoder) MultiEnd() { e.MultiHeader(MultiHeader{Op: opError, Done: true, Err: -1}) }
