package zk_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"holdfast/session"
	"holdfast/zk/jute"
)

// strict is a client with exactly the timing of ZooKeeper's clients: it pings each third of its timeout, and gives its
// server up two thirds of the timeout after the last byte. It has an ephemeral that is named by its session, and a
// lasting watch on another entry.
type strict struct {
	c    *world
	host string
	*rand.Rand
	// nodes are those that it goes to.
	nodes []string
	// asks is the requested and negotiated timeout.
	asks time.Duration
	// watches is the watched path, in mode; heard gets its events, unless it is nil.
	watches string
	mode    int32
	heard   func(kind int32, path string)
	figures figures

	mu       sync.Mutex
	id       session.ID // guarded by mu
	password []byte
	// connected: the client believes that it has its session. last is when it received the last byte; guarded by mu.
	connected bool
	last      time.Time
	lived     map[session.ID]bool
}

// figures are what a strict client has seen; guarded by its mu.
type figures struct{ sessions, moves, gaveUp, closed, expired, events int }

// run has sessions until the context ends.
func (s *strict) run(ctx context.Context) {
	for ctx.Err() == nil {
		if conn := s.connect(ctx); conn != nil {
			s.stay(ctx, conn)
			_ = conn.Close()
		}
		pause := time.NewTimer(time.Duration(s.IntN(200)) * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
		}
	}
}

// connect opens a session, or resumes its own. It returns nil on failure.
func (s *strict) connect(ctx context.Context) net.Conn {
	within, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	conn, err := s.c.Host(s.host).Dial(within, s.nodes[s.IntN(len(s.nodes))]+":7404")
	if err != nil {
		return nil
	}
	e := jute.NewFrame()
	e.Int(0)
	e.Long(0)
	e.Int(int32(s.asks.Milliseconds()))
	e.Long(int64(s.id)) //nolint:gosec // the same bits
	if s.password == nil {
		s.password = make([]byte, 16)
	}
	e.Buffer(s.password)
	_ = conn.SetDeadline(time.Now().Add(s.asks * 2 / 3))
	_, _ = conn.Write(e.Frame())
	answer := make([]byte, 4+36)
	if _, err := io.ReadFull(conn, answer); err != nil {
		_ = conn.Close()
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = time.Now()
	switch id := session.ID(binary.BigEndian.Uint64(answer[12:])); id {
	case 0:
		s.figures.expired++
		s.id, s.password = 0, nil
		_ = conn.Close()
		return nil
	case s.id:
		s.figures.moves++
	default:
		s.figures.sessions++
		s.id, s.password = id, answer[24:]
	}
	s.connected = true
	return conn
}

// requests are its requests on each connection: its ephemeral, which may exist already, and its watch.
func (s *strict) requests() []byte {
	create := jute.NewFrame()
	create.Int(1)
	create.Int(int32(jute.Create))
	create.String(fmt.Sprintf("/e/%x", uint64(s.id)))
	create.Buffer(nil)
	create.ACLs([]jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}})
	create.Int(1)
	watch := jute.NewFrame()
	watch.Int(2)
	watch.Int(int32(jute.AddWatch))
	watch.String(s.watches)
	watch.Int(s.mode)
	return append(create.Frame(), watch.Frame()...)
}

// stay reads what comes until the connection ends, or has been silent for two thirds of the timeout.
func (s *strict) stay(ctx context.Context, conn net.Conn) {
	_ = conn.SetWriteDeadline(time.Time{})
	over := make(chan struct{})
	var pings sync.WaitGroup
	defer pings.Wait()
	defer close(over)
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	pings.Go(func() {
		_, _ = conn.Write(s.requests())
		tick := time.NewTicker(s.asks / 3)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				_, _ = conn.Write([]byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11})
			case <-over:
				return
			}
		}
	})
	for {
		_ = conn.SetReadDeadline(s.last.Add(s.asks * 2 / 3))
		frame, err := s.frame(conn)
		if err != nil {
			s.leaves(err)
			return
		}
		s.hears(frame)
	}
}

func (s *strict) frame(conn net.Conn) ([]byte, error) {
	var head [4]byte
	if _, err := io.ReadFull(conn, head[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(head[:]))
	_, err := io.ReadFull(conn, frame)
	return frame, err
}

// leaves records that the client no longer believes that it has its session.
func (s *strict) leaves(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.connected = false
	if wait, is := err.(net.Error); is && wait.Timeout() { //nolint:errorlint // as it comes from the connection
		s.figures.gaveUp++
		return
	}
	s.figures.closed++
}

func (s *strict) hears(frame []byte) {
	d := jute.NewDecoder(frame)
	xid, _, code := d.Int("xid"), d.Long("zxid"), jute.Code(d.Int("err"))
	s.mu.Lock()
	s.last = time.Now()
	if xid == 1 && code == jute.OK {
		s.lived[s.id] = true
	}
	if xid != jute.EventXid {
		s.mu.Unlock()
		return
	}
	s.figures.events++
	s.mu.Unlock()
	if kind, _, path := d.Int("type"), d.Int("state"), d.String("path"); s.heard != nil {
		s.heard(kind, path)
	}
}

// believes reports whether the client believes now that it has a session, and when it received the last byte.
func (s *strict) believes(path string) (is bool, last time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.connected && strings.TrimPrefix(path, "/e/") == fmt.Sprintf("%x", uint64(s.id)), s.last
}
