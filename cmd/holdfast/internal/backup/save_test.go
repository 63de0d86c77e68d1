package backup

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/renameio/v2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/backup"
	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/cmd/holdfast/internal/clitest/fakenode"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
	"holdfast/tree"
)

// The exit code says that no node answered only if none did.
func TestSnapshotThatOneNodeRefuses(t *testing.T) {
	n := &brokenNode{refusals: &session.LimitError{Name: "max_snapshots", Limit: "2 backups of a node at a time"}}
	lives := fakenode.Serve(t, func(s *grpc.Server) { holdfastv1.RegisterClusterServiceServer(s, n) })
	dead := fakenode.ClosedPort(t)
	for endpoints, want := range map[string]int{
		dead + "," + lives: cli.ExitFailed, lives + "," + dead: cli.ExitFailed, dead: cli.ExitUnreachable,
	} {
		code, _, stderr := clitest.Execute(t, "", "snapshot", "save", filepath.Join(t.TempDir(), "none"),
			"--endpoints", endpoints)
		if code != want || strings.Contains(stderr, "max_snapshots") != (want == cli.ExitFailed) ||
			strings.Contains(stderr, "Is the cluster running") != (want == cli.ExitUnreachable) {
			t.Errorf("%s: exit code %d, want %d: %s", endpoints, code, want, stderr)
		}
	}
}

// A backup of a whole cluster: saved, checked, verified, and never over another file.
func TestSnapshotOfACluster(t *testing.T) {
	c := clitest.StartNewTree(t)
	_, mine := clitest.OpenTree(t, c)
	for _, one := range []struct {
		path string
		kind tree.Kind
	}{{"/a", tree.Persistent}, {"/a/b", tree.Persistent}, {"/c", tree.Ephemeral}} {
		if _, err := mine.Create(t.Context(), one.path, []byte("data of "+one.path),
			client.CreateOptions{Kind: one.kind}); err != nil {
			t.Fatal(err)
		}
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "saved")
	code, out, errs := clitest.Execute(t, "", "snapshot", "save", path, "-o", "json")
	if code != cli.ExitDone {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var saved, checked backupView
	if err := json.Unmarshal([]byte(out), &saved); err != nil || saved.Entries != 6 || saved.Kinds["ephemeral"] != 1 ||
		saved.Sessions != 1 || !saved.Confirmed || saved.FeatureLevel != session.FeatureLevel {
		t.Errorf("saved %s, %v", out, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file is %v, %v; want one for its owner alone", info.Mode(), err)
	}
	_, out, _ = clitest.Execute(t, "", "snapshot", "verify", path, "-o", "json")
	if err := json.Unmarshal([]byte(out), &checked); err != nil || checked.StateDigest != saved.StateDigest ||
		checked.SHA256 != saved.SHA256 {
		t.Errorf("checked %s, %v", out, err)
	}
	code, out, _ = clitest.Execute(t, "", "snapshot", "verify", path)
	if code != cli.ExitDone || !strings.Contains(out, "feature level") || strings.Contains(out, "data of") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if code, _, errs = clitest.Execute(t, "", "snapshot", "save", path); code != cli.ExitFailed ||
		!strings.Contains(errs, "the file exists") {
		t.Errorf("over a file: exit %d: %s", code, errs)
	}
	before[len(before)-1] ^= 1
	broken := filepath.Join(dir, "broken")
	if err := os.WriteFile(broken, before, 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs = clitest.Execute(t, "", "snapshot", "verify", broken); code != cli.ExitFailed || out != "" ||
		!strings.Contains(errs, "SHA-256") {
		t.Errorf("a damaged file: exit %d: %s%s", code, out, errs)
	}
	if code, _, errs = clitest.Execute(t, "", "snapshot", "save",
		filepath.Join(dir, "no", "such")); code != cli.ExitFailed {
		t.Errorf("into a directory that is not there: exit %d: %s", code, errs)
	}
	if left, err := filepath.Glob(filepath.Join(dir, ".*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// brokenNode streams a backup and cuts the stream, following its plan. Its copy is lost once it has cut a stream for
// the last time.
type brokenNode struct {
	holdfastv1.UnimplementedClusterServiceServer
	header  *holdfastv1.SnapshotHeader
	records []byte

	mu       sync.Mutex
	cuts     int
	loses    bool
	began    int
	offsets  []uint64
	refusals error
}

func (n *brokenNode) TakeSnapshot(req *holdfastv1.TakeSnapshotRequest,
	stream grpc.ServerStreamingServer[holdfastv1.TakeSnapshotResponse],
) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.refusals != nil {
		return wire.Status(n.refusals)
	}
	if len(req.GetResume()) == 0 {
		n.began++
	} else if n.loses {
		n.loses = false
		return wire.Status(&session.FieldError{Field: "resume", Limit: "a backup that this node still keeps"})
	}
	n.offsets = append(n.offsets, req.GetOffset())
	if err := stream.Send(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Started{
		Started: &holdfastv1.SnapshotStarted{Id: make([]byte, backup.IDSize), Header: n.header},
	}}); err != nil {
		return err
	}
	const part = 100
	for at := req.GetOffset(); at < uint64(len(n.records)); at += part {
		b := n.records[at:min(at+part, uint64(len(n.records)))]
		if err := stream.Send(&holdfastv1.TakeSnapshotResponse{Message: &holdfastv1.TakeSnapshotResponse_Chunk{
			Chunk: &holdfastv1.SnapshotChunk{Offset: at, Data: b, Crc32C: backup.Checksum(b)},
		}}); err != nil {
			return err
		}
		if n.cuts > 0 {
			n.cuts--
			return status.Error(codes.Unavailable, "cut off")
		}
	}
	return nil
}

// brokenCluster is a node that has a backup to give, and the bytes of the file that it makes.
func brokenCluster(t *testing.T) (n *brokenNode, want []byte) {
	t.Helper()
	clitest.StartTree(t)
	path := filepath.Join(t.TempDir(), "whole")
	if code, _, errs := clitest.Execute(t, "", "snapshot", "save", path); code != cli.ExitDone {
		t.Fatal(errs)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r, err := backup.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	records := make([]byte, r.Header.Bytes)
	if _, err = r.Read(records); err != nil {
		t.Fatal(err)
	}
	if want, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	n = &brokenNode{header: backup.HeaderProto(r.Header), records: records}
	t.Setenv(cli.EndpointsVariable,
		fakenode.Serve(t, func(s *grpc.Server) { holdfastv1.RegisterClusterServiceServer(s, n) }))
	return n, want
}

func TestSnapshotGoesOnAfterACut(t *testing.T) {
	n, want := brokenCluster(t)
	n.cuts = 1
	path := filepath.Join(t.TempDir(), "resumed")
	code, _, errs := clitest.Execute(t, "", "snapshot", "save", path)
	got, err := os.ReadFile(path)
	if code != cli.ExitDone || err != nil || string(got) != string(want) {
		t.Errorf("exit %d, %d bytes, %v: %s", code, len(got), err, errs)
	}
	if n.began != 1 || len(n.offsets) != 2 || n.offsets[1] != 100 {
		t.Errorf("%d copies, streams from %v; want one copy, from 0 and from 100", n.began, n.offsets)
	}
}

func TestSnapshotRestartsWhenTheCopyIsLost(t *testing.T) {
	n, want := brokenCluster(t)
	n.cuts, n.loses = 1, true
	path := filepath.Join(t.TempDir(), "anew")
	code, _, errs := clitest.Execute(t, "", "snapshot", "save", path)
	got, err := os.ReadFile(path)
	if code != cli.ExitDone || err != nil || string(got) != string(want) ||
		!strings.Contains(errs, "the backup starts again") {
		t.Errorf("exit %d, %d bytes, %v: %s", code, len(got), err, errs)
	}
	if n.began != 2 {
		t.Errorf("%d copies, want 2", n.began)
	}
}

// A node's invalid answer or refusal leaves no file.
func TestSnapshotOfALyingNode(t *testing.T) {
	n, _ := brokenCluster(t)
	path := filepath.Join(t.TempDir(), "none")
	for what, change := range map[string]func(){
		"a flipped bit": func() { n.records[len(n.records)/2] ^= 1 },
		"a short list":  func() { n.records = n.records[:len(n.records)-1] },
		"a refusal": func() {
			n.refusals = &session.LimitError{Name: "max_snapshots", Limit: "2 backups of a node at a time"}
		},
	} {
		change()
		code, _, errs := clitest.Execute(t, "", "snapshot", "save", path)
		if _, err := os.Stat(path); code == cli.ExitDone || !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: exit %d, %v: %s", what, code, err, errs)
		}
	}
}

// A full disk is reported, and no other node is asked.
func TestSnapshotOnAFullDisk(t *testing.T) {
	full, err := os.Open(os.DevNull) // writes fail, as it is open for reading
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	s := &saving{env: cli.NewEnv(nil, io.Discard, io.Discard), file: full}
	if err := s.chunk([]byte("x")); err == nil {
		t.Fatal("a write that failed was not reported")
	} else if _, disk := errors.AsType[*os.PathError](err); !disk {
		t.Errorf("%v is not taken for a fault of the disk", err)
	}
}

// A file that appears during the backup stays unchanged.
func TestABackupReplacesNoFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "saved")
	for range 2 { // the first leaves nothing that is in the way of the second
		file, err := renameio.NewPendingFile(path, renameio.WithTempDir(dir), renameio.WithPermissions(0o600))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = file.WriteString("backup"); err != nil {
			t.Fatal(err)
		}
		if err = os.WriteFile(path, []byte("somebody's"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err = publish(file, path); err == nil || !strings.Contains(err.Error(), "the file exists") {
			t.Errorf("over somebody's file: %v", err)
		}
		if got, failed := os.ReadFile(path); failed != nil || string(got) != "somebody's" {
			t.Errorf("somebody's file is %q, %v", got, failed)
		}
		if err = os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err = publish(file, path); err != nil {
			t.Error(err)
		}
		_ = file.Cleanup() // as it is after a save
		info, err := os.Stat(path)
		if err != nil || info.Size() != int64(len("backup")) || info.Mode().Perm() != 0o600 {
			t.Errorf("the backup is %v, %v", info, err)
		}
		if err = os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
