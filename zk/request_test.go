package zk_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"

	"holdfast/session"
	"holdfast/zk/jute"
)

// asks sends a request.
func asks(t *testing.T, n net.Conn, xid int32, op jute.Op, body func(e *jute.Encoder)) {
	t.Helper()
	e := jute.NewFrame()
	e.Int(xid)
	e.Int(int32(op))
	body(e)
	if _, err := n.Write(e.Frame()); err != nil {
		t.Fatal(err)
	}
}

// heard is an answer, or an event.
type heard struct {
	xid  int32
	zxid int64
	code jute.Code
}

// hears reads an answer or an event.
func hears(t *testing.T, n net.Conn) heard {
	t.Helper()
	h, _ := hearsAll(t, n)
	return h
}

// hearsAll is hears, with the record behind the header.
func hearsAll(t *testing.T, n net.Conn) (h heard, body []byte) {
	t.Helper()
	head := make([]byte, 4)
	if _, err := io.ReadFull(n, head); err != nil {
		t.Fatalf("no answer: %v", err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(head))
	if _, err := io.ReadFull(n, frame); err != nil {
		t.Fatalf("half an answer: %v", err)
	}
	d := jute.NewDecoder(frame)
	h = heard{d.Int("xid"), d.Long("zxid"), jute.Code(d.Int("err"))}
	return h, frame[len(frame)-d.Left():]
}

// comes connects to a node without a client, for a session or, with 0, for a new one.
func comes(c *world, node string, id session.ID, password []byte) (net.Conn, session.ID, []byte) {
	c.T.Helper()
	n := knock(c, node+":7404")
	_, _ = n.Write(connecting(id, password))
	id, password = connected(c.T, n)
	return n, id, password
}
