package storage

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/transport/raftnet"
)

// The file of what others have acknowledged stays what it is, and one that cannot be read is as good as none.
func TestGoldenAcknowledgedFile(t *testing.T) {
	path := t.TempDir()
	d := mustOpenDir(t, path)
	defer mustClose(t, d)
	file := filepath.Join(path, PositionsFile)
	golden := `{"directory":"` + d.identity.Directory.String() + `","applied":102,` +
		`"known":{"00000000000000aa":{"term":7,"index":101}}}` + "\n"
	if err := os.WriteFile(file, []byte(golden), 0o600); err != nil {
		t.Fatal(err)
	}
	unfinished := filepath.Join(path, "."+PositionsFile+"1234")
	if err := os.WriteFile(unfinished, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	w := OpenPositions(d, PositionsConfig{Logger: hclog.NewNullLogger()})
	if !isMissing(unfinished) {
		t.Error("a file whose writing was cut short is still there")
	}
	if w.floor != 102 || w.Position(0xaa) != (raftnet.Position{Term: 7, Index: 101}) {
		t.Errorf("read %d and %v", w.floor, w.known)
	}
	w.Applied, w.Members = func() uint64 { return 99 }, func() []raft.Server { return nil }
	w.Record(0xaa, raftnet.Position{Term: 6, Index: 200})
	w.Save()
	if b, err := os.ReadFile(file); err != nil || string(b) != golden {
		t.Errorf("written %q, %v", b, err)
	}
	w.Members = func() []raft.Server { return []raft.Server{{ID: raftnet.ServerID(2, 0xbb)}} }
	if w.snapshot(); w.Position(0xaa) != (raftnet.Position{}) {
		t.Error("a directory that is no member's is remembered")
	}
	for _, bad := range []string{"", "{", strings.Replace(golden, d.identity.Directory.String(), "00000000000000bb", 1)} {
		if err := os.WriteFile(file, []byte(bad), 0o600); err != nil {
			t.Fatal(err)
		}
		var log bytes.Buffer
		w := OpenPositions(d, PositionsConfig{Logger: hclog.New(&hclog.LoggerOptions{Output: &log})})
		if w.floor != 0 || len(w.known) != 0 || !strings.Contains(log.String(), "is lost") {
			t.Errorf("%q is read as %d and %v, and logged as %s", bad, w.floor, w.known, &log)
		}
	}
}
