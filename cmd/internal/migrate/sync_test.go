package migrate_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/internal/migrate"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// behind is a source that lags: each sync shows the next of the entries that were written.
type behind struct {
	*source
	written []string
}

// Sync implements [migrate.Source].
func (b *behind) Sync(context.Context) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries[b.written[0]] = migrate.Node{ACL: open}
	b.written = b.written[1:]
	return nil
}

// TestWalksSeeEarlierWrites: a source that lags until it is asked to sync is asked before the copy, and again
// before the comparison.
func TestWalksSeeEarlierWrites(t *testing.T) {
	run(t, func(t *testing.T, to *client.Tree) {
		t.Helper()
		s := &behind{source: application(), written: []string{"/app/first", "/app/second", "/app/third"}}
		got := copied(t, s, to, options)
		if len(got.Problems) == 0 || got.Equal || got.Copied.Created != persistent+1 {
			t.Fatalf("%+v %+v", got, got.Copied)
		}
		if p := got.Problems[0]; p.Path != "/app/second" || p.Kind != migrate.Different {
			t.Errorf("found %v", p)
		}
		verify := options
		verify.VerifyOnly = true
		got = copied(t, s, to, verify)
		if !slices.ContainsFunc(got.Problems, func(p migrate.Problem) bool { return p.Path == "/app/third" }) {
			t.Errorf("a comparison alone found %v", got.Problems)
		}
	})
}

// stale is a ZooKeeper whose servers show an old state to each session until it makes a sync: they lack /app/new.
type stale struct {
	mu sync.Mutex
	// synced has the sessions, and whether they made a sync; guarded by mu, like all that follows.
	synced map[int64]bool
	opened int64
	syncs  []string
	conns  []net.Conn
}

// serve serves a connection.
func (s *stale) serve(conn net.Conn) {
	b, err := frame(conn)
	if err != nil {
		return
	}
	c, err := jute.ParseConnect(b)
	if err != nil {
		return
	}
	session := s.open(conn, c.SessionID)
	_, err = conn.Write(jute.ConnectResponse{Timeout: c.Timeout, SessionID: session}.Frame())
	if err != nil || session == 0 {
		return
	}
	for {
		if b, err = frame(conn); err != nil {
			return
		}
		d := jute.NewDecoder(b)
		xid, op, path := d.Int("xid"), jute.Op(d.Int("type")), d.String("path") // of a request without a path, ""
		if _, err = conn.Write(s.answer(session, xid, op, path)); err != nil {
			return
		}
	}
}

// open opens a session, or resumes one that has not expired. It returns 0 for an expired session.
func (s *stale) open(conn net.Conn, session int64) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns = append(s.conns, conn)
	if session == 0 {
		s.opened++
		session = s.opened
		s.synced[session] = false
	}
	if _, is := s.synced[session]; !is {
		return 0
	}
	return session
}

func (s *stale) answer(session int64, xid int32, op jute.Op, path string) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	e := jute.Reply(xid, 7, 0)
	switch op { //nolint:exhaustive // what the import sends
	case jute.Sync:
		s.syncs = append(s.syncs, path)
		s.synced[session] = true
		e.String(path)
	case jute.GetData:
		if path == "/app/new" && !s.synced[session] {
			return jute.Reply(xid, 7, jute.NoNode).Frame()
		}
		e.Buffer(nil)
		e.Stat(jute.Stat{})
	case jute.GetACL:
		e.ACLs([]jute.ACL{{Perms: int32(tree.All), Scheme: tree.World, ID: tree.Anyone}})
		e.Stat(jute.Stat{})
	case jute.GetChildren2:
		var names []string
		if s.synced[session] {
			names = []string{"new", "zookeeper"}
		}
		e.Strings(names)
		e.Stat(jute.Stat{})
	}
	return e.Frame()
}

// cut ends all connections, after f has changed the sessions.
func (s *stale) cut(f func(sessions map[int64]bool)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(s.synced)
	for _, conn := range s.conns {
		_ = conn.Close()
	}
	s.conns = nil
}

// frame reads a frame.
func frame(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	b := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(r, b)
	return b, err
}

// TestReadsFollowASync: each read is answered in a session that has made a sync, also after its session has expired.
func TestReadsFollowASync(t *testing.T) {
	s := &stale{synced: map[int64]bool{}}
	address := listens(t, s.serve)
	z, err := migrate.DialZooKeeper(t.Context(), migrate.Ensemble{
		Servers: []string{address, address}, Chroot: "/app", Timeout: time.Minute,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, one := range []struct {
		what     string
		sessions int64 // that were opened so far
		before   func()
	}{
		{"without being asked to sync", 1, func() {}},
		{"after a sync", 1, func() {
			s.mu.Lock()
			s.synced[1] = false // something was written
			s.mu.Unlock()
			if err := z.Sync(t.Context()); err != nil {
				t.Fatal(err)
			}
		}},
		{"by a session that came back", 1, func() { s.cut(func(map[int64]bool) {}) }},
		{"by a new session", 2, func() { s.cut(func(sessions map[int64]bool) { clear(sessions) }) }},
	} {
		one.before()
		if _, found, err := z.Node(t.Context(), "/new"); err != nil || !found {
			t.Errorf("%s: read an entry: %v, %v", one.what, found, err)
		}
		if c, _, err := z.Children(t.Context(), "/"); err != nil || !slices.Equal(c.Names, []string{"new", "zookeeper"}) {
			t.Errorf("%s: listed %v, %v", one.what, c.Names, err)
		}
		s.mu.Lock()
		if s.opened != one.sessions || slices.ContainsFunc(s.syncs, func(path string) bool { return path != "/app" }) {
			t.Errorf("%s: %d sessions opened, synced %v", one.what, s.opened, s.syncs)
		}
		s.mu.Unlock()
	}
}

// TestNamesThatTheLibraryRefuses: the library refuses paths with certain characters. The refusal concerns one entry,
// and ends no copy. Below the source's root, zookeeper is the system's own name.
func TestNamesThatTheLibraryRefuses(t *testing.T) {
	s := &stale{synced: map[int64]bool{}}
	address := listens(t, s.serve)
	z, err := migrate.DialZooKeeper(t.Context(), migrate.Ensemble{Servers: []string{address}, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	_, _, err = z.Node(t.Context(), "/a\x01")
	if refusal, is := errors.AsType[*migrate.RefusalError](err); !is || refusal.Field != "path" {
		t.Errorf("read an entry: %v, want a refusal of its path", err)
	}
	if c, _, err := z.Children(t.Context(), "/"); err != nil || !slices.Equal(c.Names, []string{"new"}) {
		t.Errorf("listed %v, %v", c.Names, err)
	}
}
