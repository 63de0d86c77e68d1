package storage

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/transport/raftnet"
)

// The files of a data directory stay what they are: identity file, stamp and origin.
func TestGoldenFilesOfADirectory(t *testing.T) {
	dir := t.TempDir()
	for _, golden := range []string{
		`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997",` +
			`"key":"aa00000000000000000000000000000000000000000000000000000000000000"}`,
		`{"format":1,"cluster_id":"c","node":1,"incarnation":7,"directory":"1ad88d0b44370997",` +
			`"key":"aa00000000000000000000000000000000000000000000000000000000000000",` +
			`"founders":{"1":"1ad88d0b44370997"},"log":7}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, IdentityFile), []byte(golden), 0o600); err != nil {
			t.Fatal(err)
		}
		r, err := ReadIdentity(dir)
		if b, _ := json.Marshal(r); err != nil || string(b) != golden {
			t.Errorf("%s became %s, %v", golden, b, err)
		}
	}
	const golden = `{"directory":"1ad88d0b44370997",` +
		`"key":"aa00000000000000000000000000000000000000000000000000000000000000","start":9,"former":7,"snapshot":{"id":"2-812-1","index":812,"term":2}}`
	store, err := openBolt(filepath.Join(dir, StableFile))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	none, err := readStamp(store)
	if err != nil || none != (stamp{}) {
		t.Errorf("no stamp is %+v, %v", none, err)
	}
	if err = store.Set([]byte("holdfast.stamp"), []byte(golden)); err != nil {
		t.Fatal(err)
	}
	want := stamp{Directory: raftnet.Key{0xaa}.Directory(), Key: raftnet.Key{0xaa}, Start: 9, Former: 7, Snapshot: snapshotMark{"2-812-1", 812, 2}}
	s, err := readStamp(store)
	if b, _ := json.Marshal(s); err != nil || s != want || string(b) != golden {
		t.Errorf("%s became %s, %v", golden, b, err)
	}
	o := origin{0xaa, "2-812-1", 812, 2}
	if err = o.write(dir); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(dir, "origin"))
	if got, readErr := readOrigin(dir); err != nil || readErr != nil || got != o ||
		string(b) != `{"directory":"00000000000000aa","id":"2-812-1","index":812,"term":2}`+"\n" {
		t.Errorf("the origin is %q, and read as %+v: %v, %v", b, got, err, readErr)
	}
}

// TestStampFits: what a start finds after each way that the one before may have ended, and after a file was set back.
func TestStampFits(t *testing.T) {
	const here = 0xaa
	for _, test := range []struct {
		name          string
		start, former uint64 // of the stamp
		log, newest   uint64 // of the identity file
		want          string
	}{
		{"the first start", 0, 0, 0, 0, ""},
		{"the first was cut short before the stamp", 0, 0, 0, 5, ""},
		{"the first was cut short after the stamp", 5, 0, 0, 5, ""},
		{"twice", 6, 0, 0, 6, ""},
		{"the second after the stamp, the third before it", 6, 0, 0, 7, ""},
		{"the usual", 5, 0, 5, 5, ""},
		{"cut short before the stamp", 5, 3, 5, 8, ""},
		{"cut short after the stamp", 8, 5, 5, 8, ""},
		{"and again before it", 8, 5, 5, 9, ""},
		{
			"a log of the start before", 5, 3, 8, 8,
			"raft.db is an older copy: it ends with start 5, but the identity file says that it has seen start 8",
		},
		{"a log of long ago", 1, 0, 8, 9, "raft.db is an older copy"},
		{
			"an identity of the start before", 8, 5, 5, 5,
			"identity is an older copy: it ends with start 5, but the log has seen start 8",
		},
		{"an identity of long ago", 8, 5, 1, 1, "identity is an older copy"},
		{"both are older, and not of one time", 5, 3, 1, 6, "raft.db is an older copy"},
		{"a log without a stamp", 0, 0, 5, 5, "raft.db is not this directory's log: it has no stamp"},
	} {
		s := stamp{Start: test.start, Former: test.former}
		if s.Start != 0 {
			s.Directory = here
		}
		err := s.fits("/data", Identity{Directory: here, Log: test.log}, test.newest)
		if test.want == "" && err != nil ||
			test.want != "" && (err == nil || !strings.HasPrefix(err.Error(), "/data/"+test.want)) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}
