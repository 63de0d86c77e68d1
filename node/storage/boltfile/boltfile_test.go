package boltfile_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	"holdfast/node/storage/boltfile"
)

// open opens a file as a node does.
func open(t *testing.T, path string) *raftboltdb.BoltStore {
	t.Helper()
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if err != nil {
		t.Fatal(err)
	}
	return store
}

// written makes a log with so many entries, some of them larger than a page, of which the first were cut off. It
// returns the file.
func written(t *testing.T, entries uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "raft.db")
	store := open(t, path)
	for first := uint64(1); first <= entries; first += 50 {
		var logs []*raft.Log
		for i := first; i < first+50 && i <= entries; i++ {
			logs = append(logs, &raft.Log{Index: i, Term: 1, Data: make([]byte, 100+i%7*1500)})
		}
		if err := store.StoreLogs(logs); err != nil {
			t.Fatal(err)
		}
	}
	err := errors.Join(store.Set([]byte("LastVoteCand"), []byte("one")), store.SetUint64([]byte("CurrentTerm"), 7))
	if entries > 10 {
		err = errors.Join(err, store.DeleteRange(1, entries/10))
	}
	if err = errors.Join(err, store.Close()); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestSoundFilesPass(t *testing.T) {
	for _, entries := range []uint64{0, 1, 40, 1000} {
		if err := boltfile.Check(written(t, entries)); err != nil {
			t.Errorf("%d entries: %v", entries, err)
		}
	}
	dir := t.TempDir()
	if err := boltfile.Check(filepath.Join(dir, "none")); err != nil {
		t.Errorf("a file that is not there: %v", err)
	}
	empty := filepath.Join(dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := boltfile.Check(empty); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

// Where a page is changed, either Check says so, or bbolt opens the file and reads all of it. A panic of bbolt's, which
// may be in a goroutine of its own, ends this test.
func TestNoDamagedPageReachesBbolt(t *testing.T) {
	sound, err := os.ReadFile(written(t, 200))
	if err != nil {
		t.Fatal(err)
	}
	const tries = 200
	r := rand.New(rand.NewPCG(1, 2))
	size := os.Getpagesize()
	pages := len(sound) / size
	found := 0
	for try := range tries {
		b := append([]byte{}, sound...)
		at := r.IntN(pages) * size
		var what string
		switch try % 3 {
		case 0: // a bit of the header or of the first elements
			at += r.IntN(pageBegin)
			b[at] ^= 1 << r.IntN(8)
			what = fmt.Sprintf("a bit at %d", at)
		case 1:
			for i := range size {
				b[at+i] ^= 0xff
			}
			what = fmt.Sprintf("page %d flipped", at/size)
		default:
			copy(b[at:], sound[r.IntN(pages)*size:][:size])
			what = fmt.Sprintf("another page in the place of page %d", at/size)
		}
		path := filepath.Join(t.TempDir(), "raft.db")
		if err = os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err = boltfile.Check(path); err != nil {
			if _, ok := errors.AsType[*boltfile.PageError](err); !ok {
				t.Errorf("%s: %v", what, err)
			}
			found++
			continue
		}
		readAll(t, path)
	}
	if found < tries/6 {
		t.Errorf("of %d damaged files %d were refused: the test damages too little", tries, found)
	}
}

// pageBegin are the bytes of a page in which a bit is changed: its header, and where its first elements are.
const pageBegin = 64

// readAll opens a log and reads all of it.
func readAll(t *testing.T, path string) {
	t.Helper()
	store, err := raftboltdb.New(raftboltdb.Options{
		Path: path, BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if err != nil {
		return // bbolt refuses the file by itself
	}
	first, _ := store.FirstIndex()
	last, _ := store.LastIndex()
	for i := first; i <= min(last, first+1000) && i > 0; i++ {
		var log raft.Log
		_ = store.GetLog(i, &log) // what an entry holds has a checksum of its own
	}
	if err = store.StoreLog(&raft.Log{Index: last + 1, Data: make([]byte, 5000)}); err != nil && last < 1<<62 {
		t.Error(err)
	}
	if err = store.Close(); err != nil {
		t.Error(err)
	}
}

// Each kind of damage is named.
func TestDamageIsNamed(t *testing.T) {
	sound, err := os.ReadFile(written(t, 200))
	if err != nil {
		t.Fatal(err)
	}
	size := os.Getpagesize()
	le := binary.LittleEndian
	leaf := 0 // a page of entries: the largest ones go on over more pages
	for id := 2; id*size+16 <= len(sound); id++ {
		p := sound[id*size:]
		if le.Uint64(p) == uint64(id) && le.Uint16(p[8:]) == 2 && le.Uint16(p[10:]) > 3 && inUse(t, sound, id) {
			leaf = id
		}
	}
	if leaf == 0 {
		t.Fatal("no leaf with entries")
	}
	for says, change := range map[string]func(p []byte){
		"says that it is page 9999":        func(p []byte) { le.PutUint64(p, 9999) },
		"is of no known kind (flags 0x80)": func(p []byte) { le.PutUint16(p[8:], 0x80) },
		"behind the last one in use":       func(p []byte) { le.PutUint32(p[12:], 1<<31) },
		"keys that are out of order":       func(p []byte) { copy(p[16:32], p[32:48]) },
		"ends behind it, 1":                func(p []byte) { le.PutUint32(p[32+8:], 1<<30) },
		"says that it has 60000 elements":  func(p []byte) { le.PutUint16(p[10:], 60_000) },
	} {
		b := append([]byte{}, sound...)
		change(b[leaf*size:])
		path := filepath.Join(t.TempDir(), "raft.db")
		if err = os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err = boltfile.Check(path); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
	path := filepath.Join(t.TempDir(), "raft.db")
	if err = os.WriteFile(path, sound[:leaf*size], 0o600); err != nil {
		t.Fatal(err)
	}
	if err = boltfile.Check(path); err == nil || !strings.Contains(err.Error(), "behind the end of the file") {
		t.Errorf("cut off: got %v", err)
	}
}

// inUse reports whether a page is part of the tree: a change of its number is found.
func inUse(t *testing.T, sound []byte, id int) bool {
	t.Helper()
	b := append([]byte{}, sound...)
	binary.LittleEndian.PutUint64(b[id*os.Getpagesize():], 1<<40)
	path := filepath.Join(t.TempDir(), "raft.db")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return boltfile.Check(path) != nil
}
