package operations

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
	"holdfast/zk/queue"
)

// ErrRefused ends the connection of a client whose authentication is refused.
var ErrRefused = errors.New("refused")

// Counters count refusals.
type Counters struct {
	// Refused counts the connections that end with a refusal, AuthFailed those of them that failed to authenticate.
	Refused, AuthFailed atomic.Int64
}

// Connection is a client's connection, as operations use it.
type Connection interface {
	// Pong answers a ping at once. An error ends the connection.
	Pong(xid int32) error
	// CloseSession closes the session, then answers the closeSession with this xid and ends the connection.
	CloseSession(xid int32)
	// EndAfterReply ends the connection with the reply that is being made.
	EndAfterReply(why error)
}

// Config configures a handler.
type Config struct {
	Connection Connection
	Queue      *queue.Queue
	Tree       session.TreeConnection
	Token      session.Token
	Counters   *Counters
	// Principals are the client's principals from the connection itself (P1 principals).
	Principals []tree.Principal
	// Super is the digest of super, empty for none.
	Super string
	// Members returns the text of /zookeeper/config.
	Members func() string
	// ReadOnly reports whether the node is read-only now (Z9 read-only).
	ReadOnly func() bool
}

// Handler makes queue requests from the frames of one client.
type Handler struct {
	connection Connection
	queue      *queue.Queue
	tree       session.TreeConnection
	token      session.Token
	counters   *Counters
	super      string
	members    func() string
	readOnly   func() bool
	table      table

	mu         sync.Mutex
	principals []tree.Principal // guarded by mu
}

// New returns the handler of a session's connection.
func New(cfg Config) *Handler {
	return &Handler{
		connection: cfg.Connection, queue: cfg.Queue, tree: cfg.Tree, token: cfg.Token, counters: cfg.Counters,
		super: cfg.Super, members: cfg.Members, readOnly: cfg.ReadOnly, table: operations, principals: cfg.Principals,
	}
}

// Principals returns the principals of the client. Callers must not change the slice.
func (h *Handler) Principals() []tree.Principal {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.principals
}

// Request makes a request from a frame. It returns nil for a ping, which it has answered. An error ends the connection.
func (h *Handler) Request(frame []byte) (*queue.Request, error) {
	parsed, err := h.table.parse(frame)
	var body *bodyError
	if err != nil && !errors.As(err, &body) {
		return nil, fmt.Errorf("%w: %w", jute.ErrProtocol, err) // too short for its header (N-46)
	}
	r := &queue.Request{Request: parsed, Bytes: len(frame) + extraBytes(parsed.Body)}
	if err != nil { // ZooKeeper continues; then the client of a setWatches relies on watches that it does not have
		h.refuseAndEnd(r, jute.MarshallingError, fmt.Errorf("%w: %w", jute.ErrProtocol, err))
		return r, nil
	}
	if parsed.Op == jute.Ping {
		return nil, h.connection.Pong(parsed.Xid) // answered
	}
	if handle := h.table[parsed.Op].handle; handle != nil {
		handle(h, r)
		return r, nil
	}
	h.refuseAndEnd(r, jute.Unimplemented, fmt.Errorf("%w: %v is not served", jute.ErrProtocol, parsed.Op)) // N-40, N-42
	return r, nil
}

// bodyError is a request with a valid header and an invalid record.
type bodyError struct {
	op  jute.Op
	err error
}

func (e *bodyError) Error() string { return fmt.Sprintf("%v: %v", e.op, e.err) }

// Unwrap returns what is wrong with the record.
func (e *bodyError) Unwrap() error { return e.err }

// parse reads a frame after the first. With a [bodyError] the header was read.
func (t table) parse(frame []byte) (jute.Request, error) {
	d := jute.NewDecoder(frame)
	r := jute.Request{Xid: d.Int("xid"), Op: jute.Op(d.Int("type"))}
	if err := d.Err(); err != nil {
		return r, err
	}
	if decode := t[r.Op].decode; decode != nil {
		if r.Body = decode(t, d); d.Err() != nil {
			return r, &bodyError{r.Op, d.Err()}
		}
	}
	return r, nil
}

// Approximate memory of request parts beyond their bytes in the frame: an operation of a multi, a grant of its access
// list, and a path of a watch, in the client's form and in the node's.
const (
	partBytes  = 240
	grantBytes = 96
	pathBytes  = 48
)

// extraBytes returns the memory of a request of many parts beyond its frame (G8 request bounds). Without these bytes,
// a frame of short paths would count for an eighth of its memory.
func extraBytes(body any) (bytes int) {
	switch b := body.(type) {
	case jute.SetWatchesRequest:
		for _, paths := range [...][]string{b.Data, b.Exist, b.Child, b.Persistent, b.Recursive} {
			bytes += pathBytes * len(paths)
		}
	case jute.MultiRequest:
		for _, op := range b.Ops {
			bytes += partBytes
			if made, is := op.Body.(jute.CreateRequest); is {
				bytes += grantBytes * len(made.ACL)
			}
		}
	default:
	}
	return bytes
}

// errNotReadOnly is the error with which the node answers a request that a read-only node refuses.
var errNotReadOnly = errors.New("a read-only node refuses this request")

// refusedReadOnly makes the handler of an operation that a read-only node refuses (Z9), before it checks anything else
// in the request.
func refusedReadOnly(handle func(h *Handler, r *queue.Request)) func(h *Handler, r *queue.Request) {
	return func(h *Handler, r *queue.Request) {
		if handle(h, r); r.Write != nil {
			return // the node refuses the request
		}
		send, reply := r.Send, r.Reply
		r.Send = func(key uint64) error {
			if h.token.Local && h.readOnly() {
				return h.tree.Refuse(key, h.token.ID, 0, errNotReadOnly)
			}
			return send(key)
		}
		r.Reply = func(a *session.TreeAnswer) (*jute.Encoder, *queue.Step, error) {
			if errors.Is(a.Err, errNotReadOnly) {
				return replyTo(r, a, jute.NotReadOnly), nil, nil
			}
			return reply(a)
		}
	}
}

// replyTo begins the reply to a request.
func replyTo(r *queue.Request, a *session.TreeAnswer, code jute.Code) *jute.Encoder {
	return jute.Reply(r.Xid, int64(a.Stamp), code) //nolint:gosec // stamps are positive
}

// refuse refuses a request in its turn.
func (h *Handler) refuse(r *queue.Request, code jute.Code) {
	h.queue.AnswerInTurn(r, func(zxid int64) *jute.Encoder { return jute.Reply(r.Xid, zxid, code) })
}

// refuseAndEnd refuses a request in its turn, and ends the connection.
func (h *Handler) refuseAndEnd(r *queue.Request, code jute.Code, why error) {
	h.counters.Refused.Add(1)
	r.Order = queue.Barrier
	h.queue.AnswerInTurn(r, func(int64) *jute.Encoder {
		h.connection.EndAfterReply(why)
		return jute.Reply(r.Xid, zxidOf(code), code)
	})
}

// zxidOf returns the zxid of a reply that ends the connection (N-17).
func zxidOf(code jute.Code) int64 {
	if code == jute.AuthFailed {
		return 0
	}
	return -1
}

// closeSession closes the session once the client's earlier requests are answered (G7 a close waits for writes).
func (h *Handler) closeSession(r *queue.Request) {
	r.Order = queue.Exclusive
	r.Send = func(uint64) error {
		h.connection.CloseSession(r.Xid)
		return nil
	}
}
