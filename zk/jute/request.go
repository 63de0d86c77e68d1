package jute

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
	// ReadOnly: the client accepts a read-only server. HasReadOnly: the client knows of read-only servers (H-03).
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

// Request is a client's request. Body is the operation's record, nil for an operation without a record.
type Request struct {
	Xid  int32
	Op   Op
	Body any
}

// MaxOps bounds the operations of a multi.
const MaxOps = 10_000

// MultiHeader precedes each element of a multi, and follows the last element with Done set.
type MultiHeader struct {
	Op   Op
	Done bool
	Err  Code
}

// ReadMulti reads the elements of a multi up to the end mark. record reads the record of one element, or reports that
// a multi cannot have the operation.
func ReadMulti(d *Decoder, record func(d *Decoder, op Op) (body any, ok bool)) MultiRequest {
	var m MultiRequest
	for d.Err() == nil {
		h := MultiHeader{Op: Op(d.Int("multi.type")), Done: d.Bool("multi.done"), Err: Code(d.Int("multi.err"))}
		if h.Done || d.Err() != nil {
			return m
		}
		if len(m.Ops) == MaxOps {
			d.fail("multi", "has more than %d operations", MaxOps)
			return m
		}
		body, ok := record(d, h.Op)
		if !ok {
			d.fail("multi", "has a %v: must have none", h.Op)
			return m
		}
		m.Ops = append(m.Ops, Request{Op: h.Op, Body: body})
	}
	return m
}
