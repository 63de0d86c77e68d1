package fsm

import (
	"bytes"
	"encoding/binary"
	"flag"
	"io"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"google.golang.org/protobuf/encoding/protowire"

	"holdfast/fsm/entry"
	"holdfast/fsm/requests"
	"holdfast/fsm/sessions"
	"holdfast/session"
	"holdfast/tree"
)

var update = flag.Bool("update", false, "write the golden files of testdata anew")

// fataler is the part of testing.TB that rapid's T has too.
type fataler interface {
	Helper()
	Fatalf(format string, args ...any)
}

// replica is a State, the errors that it gave to Config.Fatal, and the index of its next entry.
type replica struct {
	*State
	fatal []error
	next  uint64
}

func newReplica() *replica {
	r := &replica{next: 1}
	r.State = New(Config{Logger: hclog.NewNullLogger(), Fatal: func(err error) { r.fatal = append(r.fatal, err) }})
	return r
}

// apply applies one entry of term with commands at the next index.
func (r *replica) apply(t fataler, term uint64, commands ...session.Command) []session.Result {
	t.Helper()
	data, err := entry.Encode(commands)
	if err != nil {
		t.Fatalf("EncodeEntry: %v", err)
	}
	return r.applyBytes(t, term, data)
}

// applyBytes applies an entry, and overwrites its bytes then: the state keeps none of them.
func (r *replica) applyBytes(t fataler, term uint64, data []byte) []session.Result {
	t.Helper()
	data = slices.Clone(data)
	results, ok := r.Apply(&raft.Log{Index: r.next, Term: term, Data: data}).([]session.Result)
	clear(data)
	if !ok {
		t.Fatalf("Apply at index %d is no list of results; told Fatal: %v", r.next, r.fatal)
	}
	r.next++
	return results
}

// do applies an entry of one command in term 1. The command must not be refused.
func (r *replica) do(t fataler, c session.Command) session.Result {
	t.Helper()
	result := r.apply(t, 1, c)[0]
	if result.Err != nil {
		t.Fatalf("%T was refused: %v", c, result.Err)
	}
	return result
}

func (r *replica) open(t fataler, c session.OpenSession) session.Session {
	t.Helper()
	return r.do(t, c).Session
}

// begins returns c with the feature level, and with the default limits if it has none.
func begins(c session.Configure) session.Configure {
	c.Level = session.FeatureLevel
	if c.Limits == (tree.Limits{}) {
		c.Limits = tree.DefaultLimits()
	}
	return c
}

// opening returns an open through node 1 with request id n.
func opening(n byte) session.OpenSession {
	return session.OpenSession{
		Node: 1, MS: 1000, Spec: session.Spec{Timeout: 4 * time.Second},
		RequestID: session.RequestID{n},
	}
}

func closing(term uint64, all ...session.Session) session.CloseSessions {
	c := session.CloseSessions{Term: term, Cause: session.CauseExpired, Credited: time.Second, MS: 9000}
	for _, s := range all {
		c.Sessions = append(c.Sessions,
			session.Closing{ID: s.ID, Attachment: s.Attachment, LastTouchAge: 4 * time.Second})
	}
	return c
}

// sink keeps a snapshot in memory.
type sink struct {
	bytes.Buffer
	fail              error
	closed, cancelled bool
}

func (s *sink) Write(b []byte) (int, error) {
	if s.fail != nil {
		return 0, s.fail
	}
	return s.Buffer.Write(b)
}

func (s *sink) ID() string    { return "test" }
func (s *sink) Close() error  { s.closed = true; return nil }
func (s *sink) Cancel() error { s.cancelled = true; return nil }

func (r *replica) snapshot(t fataler) []byte {
	t.Helper()
	snap, err := r.Snapshot()
	if err != nil {
		t.Fatalf("Snapshot: %v", err)
	}
	defer snap.Release()
	var s sink
	if err := snap.Persist(&s); err != nil || !s.closed || s.cancelled {
		t.Fatalf("Persist = %v, closed %v, cancelled %v; want nil, true, false", err, s.closed, s.cancelled)
	}
	return s.Bytes()
}

func (r *replica) restore(b []byte) error { return r.Restore(io.NopCloser(bytes.NewReader(b))) }

func restored(t fataler, snapshot []byte) *replica {
	t.Helper()
	r := newReplica()
	if err := r.restore(snapshot); err != nil {
		t.Fatalf("Restore: %v", err)
	}
	r.next = r.AppliedIndex() + 1
	return r
}

// golden compares got with a file of testdata, and returns what the file holds.
func golden(t *testing.T, name string, got []byte) []byte {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: the bytes on disk have changed, and must never change\n got %q\nwant %q", name, got, want)
	}
	return want
}

// sessionsOf returns all sessions in the order of their ids.
func sessionsOf(t *tables) []*sessions.Row {
	var all []*sessions.Row
	t.sessions.Ascend(0, func(r *sessions.Row) bool {
		copied := *r
		all = append(all, &copied)
		return true
	})
	return all
}

// requestsOf returns all requests, the oldest first.
func requestsOf(t *tables) []requests.Request { return slices.Collect(t.requests.All) }

// openNumber returns the n-th of many opens.
func openNumber(n int) session.OpenSession {
	c := session.OpenSession{Node: 1, MS: 1000, Spec: session.Spec{Timeout: 4 * time.Second}}
	binary.BigEndian.PutUint64(c.RequestID[:], uint64(n)+1)
	return c
}

// unknownField returns a field that no message has.
func unknownField() []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 99, protowire.VarintType), 1)
}
