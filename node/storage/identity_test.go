package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

func mustOpenDir(t *testing.T, path string) *Dir {
	t.Helper()
	d, err := OpenDir(path, "holdfast", 1, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func mustClose(t *testing.T, d *Dir) {
	t.Helper()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
}

// refused checks that the directory is refused with a message that has all of want in it.
func refused(t *testing.T, path string, want ...string) {
	t.Helper()
	d, err := OpenDir(path, "holdfast", 1, time.Now())
	if err == nil {
		mustClose(t, d)
		t.Fatalf("%s: not refused", path)
	}
	for _, w := range append(want, "data directory "+path) {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("got %q, want %q in it", err, w)
		}
	}
}

func TestOpenDirCountsStarts(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	begin := uint64(time.Now().UnixMilli())
	for former, starts := begin-1, 0; starts < 4; starts++ {
		d := mustOpenDir(t, path)
		if d.incarnation <= former || d.path != path {
			t.Errorf("got incarnation %d at %s, want one above %d at %s", d.incarnation, d.path, former, path)
		}
		former = d.incarnation
		b, err := os.ReadFile(filepath.Join(path, "identity"))
		if line := fmt.Sprintf(`{"format":1,"cluster_id":"holdfast","node":1,"incarnation":%d,"directory":"%v","key":"%x"}`+"\n",
			former, d.identity.Directory, d.identity.Key[:]); err != nil || string(b) != line {
			t.Errorf("got identity %q, %v, want %q", b, err, line)
		}
		mustClose(t, d)
	}
	for _, p := range []string{path, filepath.Dir(path)} {
		if info, err := os.Stat(p); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("%s: got mode %v, %v, want 0700", p, info.Mode(), err)
		}
	}
}

func TestOpenDirRefusesASecondProcess(t *testing.T) {
	path := t.TempDir()
	d := mustOpenDir(t, path)
	refused(t, path, "another process uses it", "stop the other process")
	mustClose(t, d)
	first := d.incarnation
	if d = mustOpenDir(t, path); d.incarnation <= first {
		t.Errorf("got incarnation %d, want one above %d", d.incarnation, first)
	}
	mustClose(t, d)
}

func TestOpenDirRefusesAnotherIdentity(t *testing.T) {
	for _, tt := range []struct{ name, identity, want string }{
		{
			"format 0", `{"format":0,"cluster_id":"holdfast","node":1,"incarnation":3,"directory":"00000000000000aa"}`,
			"the data directory has format 0, and this program reads format 1: run the release that wrote it",
		},
		{
			"format 2", `{"format":2,"cluster_id":"holdfast","node":1,"incarnation":3,"directory":"00000000000000aa"}`,
			"the data directory has format 2, and this program reads format 1: run the release that wrote it",
		},
		{
			"format 2 with other fields", `{"format":2,"cluster_id":7}`,
			"the data directory has format 2, and this program reads format 1: run the release that wrote it",
		},
		{
			"cluster", `{"format":1,"cluster_id":"other","node":1,"incarnation":1,"directory":"00000000000000aa"}`,
			`it belongs to cluster "other", not "holdfast": correct cluster_id or data_dir`,
		},
		{
			"node", `{"format":1,"cluster_id":"holdfast","node":2,"incarnation":1,"directory":"00000000000000aa"}`,
			"it belongs to node 2, not 1: correct node or data_dir",
		},
		{"empty", ``, "is damaged: " + Recovery},
		{"garbage", "\x00\x00", "is damaged: " + Recovery},
		{"no incarnation", `{"format":1,"cluster_id":"holdfast","node":1}`, "is damaged: " + Recovery},
		{"no directory", `{"format":1,"cluster_id":"holdfast","node":1,"incarnation":3}`, "is damaged: " + Recovery},
		{
			"a directory that is none", `{"format":1,"cluster_id":"holdfast","node":1,"incarnation":3,"directory":"x"}`,
			"is damaged: " + Recovery,
		},
		{
			"founders, and no log", `{"format":1,"cluster_id":"holdfast","node":1,"incarnation":3,` +
				`"directory":"00000000000000aa","founders":{"1":"00000000000000aa"}}`, "is damaged: " + Recovery,
		},
		{"no format", `{"cluster_id":"holdfast","node":1,"incarnation":3}`, "the data directory has format 0"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := t.TempDir()
			file := filepath.Join(path, "identity")
			if err := os.WriteFile(file, []byte(tt.identity), 0o600); err != nil {
				t.Fatal(err)
			}
			refused(t, path, tt.want)
			if b, err := os.ReadFile(file); err != nil || string(b) != tt.identity {
				t.Errorf("got identity %q, %v, want it as it was", b, err)
			}
		})
	}
}

func TestOpenDirRefusesForeignFiles(t *testing.T) {
	path := t.TempDir()
	if err := os.WriteFile(filepath.Join(path, "thesis.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "it holds other files (thesis.txt) and no identity file", "give data_dir an empty directory")
}

// What a first start that was cut short leaves, and a file system's own, is no reason to refuse.
func TestOpenDirIgnoresLeftovers(t *testing.T) {
	path := t.TempDir()
	for _, name := range []string{".identity123", "lock", "lost+found"} {
		if err := os.WriteFile(filepath.Join(path, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, mustOpenDir(t, path))
}

func TestOpenDirRefusesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, "a file is in the way")
	_, err := OpenDir(filepath.Join(path, "below"), "holdfast", 1, time.Now())
	if err == nil || !strings.Contains(err.Error(), "a file is in the way") {
		t.Errorf("below a file: got %v", err)
	}
}

func TestRemedy(t *testing.T) {
	for cause, want := range map[error]string{
		syscall.EACCES: "let this user read and write it",
		syscall.EPERM:  "let this user read and write it",
		syscall.EROFS:  "mount it for writing",
		syscall.ENOSPC: "free some space",
		syscall.EDQUOT: "free some space",
	} {
		err := addAdvice(&fs.PathError{Op: "open", Path: "x", Err: cause})
		if !errors.Is(err, cause) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %q, want %q in it", err, want)
		}
	}
	if err := addAdvice(nil); err != nil {
		t.Errorf("got %v for nil", err)
	}
}

// The clock may be set back: a start is still a later one (T6 newest stream only).
func TestOpenDirCountsOnWhenTheClockIsBehind(t *testing.T) {
	path := t.TempDir()
	ahead := uint64(time.Now().Add(time.Hour).UnixMilli())
	line := fmt.Sprintf(`{"format":1,"cluster_id":"holdfast","node":1,"incarnation":%d,"directory":"1ad88d0b44370997","key":"aa00000000000000000000000000000000000000000000000000000000000000"}`,
		ahead)
	if err := os.WriteFile(filepath.Join(path, "identity"), []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	d := mustOpenDir(t, path)
	if d.incarnation != ahead+1 {
		t.Errorf("got incarnation %d, want %d", d.incarnation, ahead+1)
	}
	mustClose(t, d)
}
