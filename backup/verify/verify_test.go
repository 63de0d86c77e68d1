package verify

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/backup"
	"holdfast/fsm"
	"holdfast/test/fuzz/bound"
)

var update = flag.Bool("update", false, "write the golden file of testdata anew")

// state returns the state of one of package fsm's golden snapshots.
func state(tb testing.TB, name string) *fsm.State {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("../../fsm/testdata", name))
	if err != nil {
		tb.Fatal(err)
	}
	b, err := hex.DecodeString(strings.Join(strings.Fields(string(text)), ""))
	if err != nil {
		tb.Fatal(err)
	}
	s := fsm.New(fsm.Config{Logger: hclog.NewNullLogger(), Fatal: func(err error) { tb.Error(err) }})
	if err := s.Restore(io.NopCloser(bytes.NewReader(b))); err != nil {
		tb.Fatal(err)
	}
	return s
}

// saved returns a backup of a state.
func saved(tb testing.TB, s *fsm.State) (h backup.Header, records []byte) {
	tb.Helper()
	made, err := s.Backup()
	if err != nil {
		tb.Fatal(err)
	}
	var b bytes.Buffer
	if err := made.Write(&b); err != nil {
		tb.Fatal(err)
	}
	c := made.Contents()
	return backup.Header{
		Cluster: "orders", Node: 2, Version: "v1", TakenAt: time.Unix(1_700_000_000, 0).UTC(), Index: c.Index,
		Term: c.Term + 1, Confirmed: true, FeatureLevel: c.Level, Sessions: c.Sessions, Certificates: c.Certificates,
		Entries: c.Entries, Ephemerals: c.Ephemerals, Bytes: uint64(b.Len()), SHA256: sha256.Sum256(b.Bytes()),
		StateDigest: c.Digest,
	}, b.Bytes()
}

func whole(tb testing.TB, h backup.Header, records []byte) []byte {
	tb.Helper()
	var b bytes.Buffer
	if err := backup.WriteHeader(&b, h); err != nil {
		tb.Fatal(err)
	}
	return append(b.Bytes(), records...)
}

// The bytes of a backup on disk never change.
func TestGoldenBackup(t *testing.T) {
	b := backupOf(t, "snapshot_tree.hex")
	path := filepath.Join("testdata", "backup_v1.hex")
	if *update {
		if err := os.WriteFile(path, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got := hex.EncodeToString(b); got != strings.TrimSpace(string(want)) {
		t.Errorf("the bytes have changed:\n got %s\nwant %s", got, want)
	}
	report, err := Backup(bytes.NewReader(b))
	if err != nil || report.Cluster != "orders" || report.Header.Entries == 0 || report.Writers == 0 {
		t.Errorf("read %+v, %v", report, err)
	}
}

func backupOf(tb testing.TB, name string) []byte {
	tb.Helper()
	h, records := saved(tb, state(tb, name))
	return whole(tb, h, records)
}

func TestEveryCutAndEveryFlippedBitIsFound(t *testing.T) {
	b := backupOf(t, "snapshot_tree.hex")
	for n := range b {
		if _, err := Backup(bytes.NewReader(b[:n])); err == nil {
			t.Fatalf("the first %d bytes are a whole backup", n)
		}
	}
	for i := range b {
		b[i] ^= 1 << (i % 8)
		if _, err := Backup(bytes.NewReader(b)); err == nil {
			t.Fatalf("with a flipped bit in byte %d it is whole", i)
		}
		b[i] ^= 1 << (i % 8)
	}
	if _, err := Backup(bytes.NewReader(b)); err != nil {
		t.Error(err)
	}
}

// A header that says something else than the records is refused by name, whatever its checksums.
func TestTheHeaderMustFit(t *testing.T) {
	for field, change := range map[string]func(*backup.Header){
		"index": func(h *backup.Header) { h.Index++ }, "feature_level": func(h *backup.Header) { h.FeatureLevel = 0 },
		"sessions":        func(h *backup.Header) { h.Sessions++ },
		"certificates":    func(h *backup.Header) { h.Certificates++ },
		"tree_entries":    func(h *backup.Header) { h.Entries++ },
		"tree_ephemerals": func(h *backup.Header) { h.Ephemerals++ },
		"state_digest":    func(h *backup.Header) { h.StateDigest[0]++ },
		"term":            func(h *backup.Header) { h.Term = 0 },
	} {
		h, records := saved(t, state(t, "snapshot_tree.hex"))
		change(&h)
		if _, err := Backup(bytes.NewReader(whole(t, h, records))); err == nil ||
			!strings.Contains(err.Error(), "header."+field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

func TestOtherFiles(t *testing.T) {
	dir := t.TempDir()
	damaged := &backup.DamagedError{}
	for name, b := range map[string][]byte{
		"empty": nil, "text": []byte("cluster_id: orders\nnode: 1\n"), "snapshot": []byte("holdfast snapshot\n"),
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := File(path); !errors.As(err, &damaged) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := File(filepath.Join(dir, "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("a file that is not there: %v", err)
	}
}

// FuzzBackup: no file takes more memory than its size explains, and what is accepted can be renewed.
func FuzzBackup(f *testing.F) {
	for _, name := range []string{"snapshot.hex", "snapshot_capacity.hex", "snapshot_stories.hex", "snapshot_tree.hex"} {
		_, records := saved(f, state(f, name))
		f.Add(records)
	}
	f.Fuzz(func(t *testing.T, records []byte) {
		h := backup.Header{Cluster: "c", Node: 1, Bytes: uint64(len(records)), SHA256: sha256.Sum256(records)}
		b := whole(t, h, records)
		// A record may announce 2 MiB, its limit, which is allocated before its bytes have come.
		bound.Cost{PerByte: 1 << 10, Fixed: 6 << 20}.Hold(t, len(b), func() {
			_, _ = Backup(bytes.NewReader(b)) // the header says nothing of the records: it never fits
			_, _ = Backup(bytes.NewReader(records))
		})
		c, err := fsm.CheckBackup(bytes.NewReader(records))
		if err != nil {
			return
		}
		var out bytes.Buffer
		n, err := fsm.Renew(bytes.NewReader(records), &out, fsm.Renewal{Key: [32]byte{1}, Now: time.Unix(1_800_000_000, 0)})
		if err != nil {
			if c.Index <= 1<<46 {
				t.Fatalf("a backup of index %d cannot be renewed: %v", c.Index, err)
			}
			return
		}
		if index, _, err := fsm.CheckSnapshot(&out); err != nil || index != n.Index || n.Sessions != c.Sessions {
			t.Fatalf("the renewed state cannot be restored: index %d, %v", index, err)
		}
	})
}
