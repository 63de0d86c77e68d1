package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/google/renameio/v2"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Identity is the content of the identity file: one line of JSON. Every start replaces the whole file.
type Identity struct {
	// Format is [session.DirectoryFormat]. A node refuses a directory of another format, and changes no file in it.
	Format    uint64       `json:"format"`
	ClusterID string       `json:"cluster_id"`
	Node      session.Node `json:"node"`
	// Incarnation rises with each start of the node (T6 newest stream only): the wall-clock time in milliseconds, or the
	// former incarnation plus one, whichever is larger.
	Incarnation uint64 `json:"incarnation"`
	// Directory is the identity of the directory, drawn at random when the directory is made. For other nodes a node on
	// another directory is another server, because it has forgotten its votes and its log.
	Directory raftnet.Directory `json:"directory"`
	// Key proves Directory to other nodes. An identity file that an operator has rewritten lacks the key; the stamp in the
	// log has a copy.
	Key raftnet.Key `json:"key,omitzero"`
	// Founders are the directories of the nodes that founded the cluster. The map is nil until this node is admitted to
	// Raft.
	Founders raftnet.Directories `json:"founders,omitempty"`
	// Log is the incarnation in the log's newest stamp (see [stamp]); 0 before the first stamp. Log is on disk before
	// Raft writes or sends anything: afterwards, a missing or empty log was lost.
	Log uint64 `json:"log,omitempty"`
	// Old says that the directory is an older copy of itself: the next start sets it aside (J6 rolled-back
	// directories).
	Old bool `json:"old,omitempty"`
}

// countStart checks that the directory belongs to the node, and writes the incarnation of this start. former is the
// incarnation of the start before.
func countStart(path string, want Identity, now time.Time) (record Identity, former uint64, err error) {
	found, err := ReadIdentity(path)
	if err == nil && found.Old && found.check(want) == nil {
		if err = setAside(path); err == nil {
			found, err = ReadIdentity(path) // setAside has moved the file into the folder of the older copy
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found, err = want, checkEmpty(path)
		found.Key = raftnet.NewKey()
		found.Directory = found.Key.Directory()
	case err == nil:
		err = found.check(want)
		if err == nil && found.Key == (raftnet.Key{}) {
			found.Key, err = found.findKey(path)
		}
	}
	if err != nil {
		return Identity{}, 0, err
	}
	former = found.Incarnation
	// Wall-clock time keeps other nodes from mistaking a node with an emptied directory for an older process of itself.
	found.Incarnation = max(found.Incarnation+1, uint64(max(now.UnixMilli(), 1)))
	return found, former, addAdvice(writeIdentity(path, found))
}

// ReadIdentity reads the identity file of a directory.
func ReadIdentity(path string) (Identity, error) {
	b, err := os.ReadFile(filepath.Join(path, IdentityFile))
	if err != nil {
		return Identity{}, addAdvice(err)
	}
	var of struct { // of a file in another format, only the format is read
		Format uint64 `json:"format"`
	}
	if err := json.Unmarshal(b, &of); err != nil {
		return Identity{}, errDamaged(path)
	}
	if err := session.CheckFormat("the data directory", of.Format, session.DirectoryFormat,
		"run the release that wrote it, or give data_dir another directory"); err != nil {
		return Identity{}, err
	}
	var r Identity
	if err := json.Unmarshal(b, &r); err != nil || !r.sound() {
		return Identity{}, errDamaged(path)
	}
	if len(r.Founders) == 0 {
		r.Founders = nil
	}
	return r, nil
}

// sound reports whether a node can have written r. The largest number is no incarnation, because no start could follow.
// A node stamps its log before it is admitted.
func (r Identity) sound() bool {
	return r.Incarnation >= 1 && r.Incarnation < math.MaxUint64 && r.Log <= r.Incarnation && r.Directory != 0 &&
		(len(r.Founders) == 0 || r.Log != 0) && (r.Key == raftnet.Key{} || r.Key.Directory() == r.Directory)
}

// findKey returns the directory's key from the log's stamp.
func (r Identity) findKey(path string) (raftnet.Key, error) {
	s, ok := stampIn(filepath.Join(path, StableFile))
	if !ok || s.Key.Directory() != r.Directory {
		return raftnet.Key{}, errDamaged(path)
	}
	return s.Key, nil
}

// errDamaged says how to recover from a damaged identity file. Writing the file by hand is the last resort: with the
// identity of the wrong directory, a node votes twice. The advice needs the values of the log's stamp.
func errDamaged(path string) error {
	todo := Recovery
	if s, ok := stampIn(filepath.Join(path, StableFile)); ok {
		todo += fmt.Sprintf(`; only where no majority is left to take the node in, and the rest of the directory is `+
			`sound, write the file again as {"format":%d,"cluster_id":"...","node":...,"incarnation":%d,`+
			`"directory":"%v","founders":{...},"log":%d} with this node's own cluster_id and node, the values of its `+
			`raft.db that are shown here, and the founders of another node's file`,
			session.DirectoryFormat, s.Start, s.Directory, s.Start)
	}
	return &UnusableError{File: filepath.Join(path, IdentityFile), Problem: "is damaged", Advice: todo}
}

func (r Identity) check(want Identity) error {
	switch {
	case r.ClusterID != want.ClusterID:
		return fmt.Errorf("it belongs to cluster %q, not %q: correct cluster_id or data_dir", r.ClusterID,
			want.ClusterID)
	case r.Node != want.Node:
		return fmt.Errorf("it belongs to node %d, not %d: correct node or data_dir", r.Node, want.Node)
	}
	return nil
}

// checkEmpty refuses a directory with files of another program, and a directory that was emptied in part. It ignores
// leftovers of an interrupted start, and files that file systems put into their root.
func checkEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return addAdvice(err)
	}
	var ours []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == "lost+found", name == OlderCopyFolder, strings.HasPrefix(name, "."+IdentityFile),
			strings.HasPrefix(name, "."+PositionsFile):
		case name == IdentityFile: // the file is listed but cannot be opened
			to, _ := os.Readlink(filepath.Join(path, name))
			return danglingLink(filepath.Join(path, name), to, "the file")
		case name == StableFile, name == LogFolder, name == SnapshotFolder, name == PositionsFile:
			ours = append(ours, name)
		default:
			return fmt.Errorf(
				"it holds other files (%s) and no identity file: give data_dir an empty directory, or the node's "+
					"former directory", name,
			)
		}
	}
	identity := filepath.Join(path, IdentityFile)
	switch {
	case len(ours) == 0:
		return nil
	case slices.Contains(ours, StableFile):
		return unusable(identity, "is missing, but "+StableFile+" is there: the file was lost or removed", nil)
	default: // a running node recreates only the folder of snapshots
		return unusable(identity, fmt.Sprintf("and %s are missing, and only %s is there: the directory was emptied while "+
			"its node ran, or in part", StableFile, strings.Join(ours, ", ")), nil)
	}
}

// writeIdentity replaces the identity file. A crash leaves either the old or the new file. When writeIdentity returns,
// the file and the directory are synced.
func writeIdentity(path string, r Identity) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(path, IdentityFile), append(b, '\n'), 0o600,
		renameio.WithTempDir(path)); err != nil {
		return err
	}
	return syncDir(path)
}
