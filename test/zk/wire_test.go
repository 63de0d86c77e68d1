//go:build e2e

package zk

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"time"

	"holdfast/zk/jute"
)

// sessionWait is the timeout that clients ask for. Both systems grant it as it is.
const sessionWait = 30 * time.Second

// peer is a client of one system, which sends the frames that it is given.
type peer struct {
	address  string
	conn     net.Conn
	id       int64
	password []byte
	timeout  int32
	xid      int32
	// zxid is the newest that an answer had.
	zxid   int64
	events []event
}

// event is what a watch was told.
type event struct {
	kind, state int32
	path        string
}

// reply is an answer.
type reply struct {
	zxid int64
	code jute.Code
	body []byte
}

// errClosed is the end of a connection by the server.
var errClosed = errors.New("the server has closed the connection")

// connect opens a session, or resumes the one that the peer has.
func (p *peer) connect() error {
	p.drop()
	conn, err := net.DialTimeout("tcp", p.address, answerWait)
	if err != nil {
		return err
	}
	p.conn = conn
	e := jute.NewFrame()
	e.Int(0)
	e.Long(p.zxid)
	e.Int(int32(sessionWait.Milliseconds()))
	e.Long(p.id)
	if p.password == nil {
		p.password = make([]byte, 16)
	}
	e.Buffer(p.password)
	e.Bool(false)
	if _, err = conn.Write(e.Frame()); err != nil {
		return err
	}
	frame, err := p.frame()
	if err != nil {
		return err
	}
	d := jute.NewDecoder(frame)
	d.Int("version")
	p.timeout, p.id, p.password = d.Int("timeout"), d.Long("session"), d.Buffer("password")
	if p.id == 0 {
		return errors.New("the session has expired")
	}
	return d.Err()
}

// drop ends the connection and keeps the session.
func (p *peer) drop() {
	if p.conn != nil {
		_ = p.conn.Close()
	}
	p.conn = nil
}

// forget drops the session too.
func (p *peer) forget() {
	p.drop()
	p.id, p.password, p.xid, p.events = 0, nil, 0, nil
}

func (p *peer) frame() ([]byte, error) {
	if err := p.conn.SetReadDeadline(time.Now().Add(answerWait)); err != nil {
		return nil, err
	}
	var head [4]byte
	if _, err := io.ReadFull(p.conn, head[:]); err != nil {
		return nil, closed(err)
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(p.conn, frame)
	return frame, closed(err)
}

// closed tells an end from a server that does not answer.
func closed(err error) error {
	var wait net.Error
	if err == nil || errors.As(err, &wait) && wait.Timeout() {
		return err
	}
	return errClosed
}

// send sends a request and returns its xid.
func (p *peer) send(op jute.Op, body []byte) (int32, error) {
	var xid int32
	switch op { //nolint:exhaustive // the others are numbered
	case jute.Auth:
		xid = jute.AuthXid
	case jute.Ping:
		xid = jute.PingXid
	case jute.SetWatches, jute.SetWatches2:
		xid = jute.WatchesXid
	default:
		p.xid++
		xid = p.xid
	}
	e := jute.NewFrame()
	e.Int(xid)
	e.Int(int32(op))
	e.Append(body)
	_, err := p.conn.Write(e.Frame())
	return xid, closed(err)
}

// receive returns the answer to a request, and keeps the events before it.
func (p *peer) receive(xid int32) (reply, error) {
	for {
		frame, err := p.frame()
		if err != nil {
			return reply{}, err
		}
		d := jute.NewDecoder(frame)
		got, r := d.Int("xid"), reply{zxid: d.Long("zxid"), code: jute.Code(d.Int("err"))}
		if d.Err() != nil {
			return r, d.Err()
		}
		r.body = frame[16:]
		switch got {
		case jute.EventXid:
			p.events = append(p.events, event{d.Int("type"), d.Int("state"), d.String("path")})
		case xid:
			if r.zxid > 0 {
				p.zxid = max(p.zxid, r.zxid)
			}
			return r, nil
		default:
			return r, fmt.Errorf("an answer to %d, want one to %d", got, xid)
		}
	}
}

// ask sends a request and returns its answer.
func (p *peer) ask(op jute.Op, body []byte) (reply, error) {
	xid, err := p.send(op, body)
	if err != nil {
		return reply{}, err
	}
	return p.receive(xid)
}
