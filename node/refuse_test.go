package node

import (
	"cmp"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/storage"
	"holdfast/session"
)

func TestPortInUse(t *testing.T) {
	c := alone(t)
	taken, err := net.Listen("tcp", c.Listen.Peer)
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	_, err = New(c, quiet())
	if want := "end what uses the port, or give peer_listen another"; err == nil ||
		!strings.HasSuffix(err.Error(), want) || !strings.Contains(err.Error(), c.Listen.Peer) {
		t.Fatalf("got %v, want the address and %q", err, want)
	}
	// What was bound and locked before is free again.
	taken.Close()
	if err := start(t, c).stop(); err != nil {
		t.Errorf("start once the port is free: %v", err)
	}
}

func TestDirectoryOfAnotherCluster(t *testing.T) {
	c := alone(t)
	if err := start(t, c).stop(); err != nil {
		t.Fatal(err)
	}
	c.ClusterID = "other"
	if _, err := New(c, quiet()); err == nil || !strings.Contains(err.Error(), c.DataDir) ||
		!strings.Contains(err.Error(), "holdfast") {
		t.Errorf("got %v, want the directory and whose it is", err)
	}
}

func TestCorruptStableFile(t *testing.T) {
	c := alone(t)
	if err := start(t, c).stop(); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(c.DataDir, "raft.db")
	if err := os.WriteFile(file, []byte(strings.Repeat("garbage ", 4096)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, quiet()); err == nil || !strings.Contains(err.Error(), file) ||
		!strings.Contains(err.Error(), storage.Recovery) {
		t.Errorf("got %v, want the file and what to do", err)
	}
}

func TestCorruptSnapshot(t *testing.T) {
	c := alone(t)
	n := start(t, c)
	if err := n.consensus.Raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err := n.stop(); err != nil {
		t.Fatal(err)
	}
	// A snapshot that Raft's own checksum covers, and that is not ours.
	store, err := raft.NewFileSnapshotStoreWithLogger(c.DataDir, 2, hclog.NewNullLogger())
	if err != nil {
		t.Fatal(err)
	}
	metas, err := store.List()
	if err != nil || len(metas) == 0 {
		t.Fatalf("snapshots: %v, %v", metas, err)
	}
	_, trans := raft.NewInmemTransport("")
	sink, err := store.Create(raft.SnapshotVersionMax, metas[0].Index+1, metas[0].Term, metas[0].Configuration,
		metas[0].ConfigurationIndex, trans)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := sink.Write([]byte("not a snapshot of holdfast")); err != nil {
		t.Fatal(err)
	}
	if err := sink.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, quiet()); err == nil || !strings.Contains(err.Error(), "snapshot") ||
		!strings.Contains(err.Error(), c.DataDir) || !strings.Contains(err.Error(), storage.Recovery) {
		t.Errorf("got %v, want the directory, that it is the snapshot, and what to do", err)
	}
}

// Snapshots that are gone leave a log that begins in the middle.
func TestLostSnapshots(t *testing.T) {
	c := alone(t)
	c.Tuning.TrailingLogs = 1
	n := start(t, c)
	conn, err := n.server.Connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range byte(10) {
		_, err = conn.Open(t.Context(), session.OpenRequest{
			RequestID: session.RequestID{i + 1}, Spec: session.Spec{Timeout: 10 * time.Second},
			MS: session.MS(time.Now()),
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err = n.consensus.Raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err = n.stop(); err != nil {
		t.Fatal(err)
	}
	if err = os.RemoveAll(filepath.Join(c.DataDir, "snapshots")); err != nil {
		t.Fatal(err)
	}
	if _, err := New(c, quiet()); err == nil || !strings.Contains(err.Error(), c.DataDir) ||
		!strings.Contains(err.Error(), storage.Recovery) {
		t.Errorf("got %v, want the directory and what to do", err)
	}
}

func TestLostStableFile(t *testing.T) {
	c := alone(t)
	if err := start(t, c).stop(); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(c.DataDir, "raft.db")); err != nil {
		t.Fatal(err)
	}
	for _, also := range []string{"", "snapshots"} { // the identity file remembers too that there was one
		if err := os.RemoveAll(filepath.Join(c.DataDir, cmp.Or(also, "raft.db"))); err != nil {
			t.Fatal(err)
		}
		if _, err := New(c, quiet()); err == nil ||
			!strings.Contains(err.Error(), "raft.db is missing, but this node has voted") ||
			!strings.Contains(err.Error(), storage.Recovery) {
			t.Errorf("got %v, want that the log is missing and what to do", err)
		}
	}
}

func TestUnknownLogEntryStopsTheNode(t *testing.T) {
	c := alone(t)
	n, err := New(c, quiet())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- n.Run(t.Context()) }()
	<-n.Ready()
	for n.view.Usage().Capacity != c.Sessions.Capacity() { // the leader's own last entries
		time.Sleep(time.Millisecond)
	}
	before := n.view.AppliedIndex()
	n.consensus.Raft.Apply([]byte{2, 0, 0, 0, 0, 1}, time.Second) // a version that does not exist yet
	select {
	case err := <-done:
		if err == nil || !strings.Contains(err.Error(), "format 2") {
			t.Errorf("node ended with %v, want what is wrong with the entry", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the node goes on after an entry it cannot understand")
	}
	if n.view.AppliedIndex() != before {
		t.Errorf("applied index went from %d to %d", before, n.view.AppliedIndex())
	}
}
