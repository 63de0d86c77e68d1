package storage

import (
	"os"
	"path/filepath"
	"testing"
)

// A node that has ended as an older copy is set aside once, wherever the move is cut short.
func TestAnOlderCopyIsSetAside(t *testing.T) {
	names := []string{PositionsFile, SnapshotFolder, LogFolder, StableFile, IdentityFile}
	for cut := range len(names) + 1 {
		path := t.TempDir()
		to := filepath.Join(path, OlderCopyFolder)
		for _, dir := range []string{path, to} { // an earlier copy is there too
			if err := os.MkdirAll(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range names {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(dir), 0o600); err != nil {
					t.Fatal(err)
				}
			}
		}
		if cut > 0 { // the former start has removed the earlier copy, and moved some files
			if err := os.RemoveAll(to); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(to, 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range names[:cut-1] {
				if err := os.Rename(filepath.Join(path, name), filepath.Join(to, name)); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := setAside(path); err != nil {
			t.Fatalf("cut short after %d: %v", cut, err)
		}
		for _, name := range names {
			if b, err := os.ReadFile(filepath.Join(to, name)); err != nil || string(b) != path {
				t.Errorf("cut short after %d: %s is %q, %v", cut, name, b, err)
			}
			if !isMissing(filepath.Join(path, name)) {
				t.Errorf("cut short after %d: %s is still there", cut, name)
			}
		}
	}
}
