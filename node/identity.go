package node

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	identityFile = "identity"
	lockFile     = "lock"
	// identityFormat is the version of the identity file, and of what else a data directory holds. Before 2, directories had no
	// identities, and Raft's servers did not name them.
	identityFormat = 2
)

// identityRecord is the identity file: one line of JSON, replaced as a whole at every start.
type identityRecord struct {
	Format    int          `json:"format"`
	ClusterID string       `json:"cluster_id"`
	Node      session.Node `json:"node"`
	// Incarnation is larger at each start of the node (T6): wall-clock time in milliseconds, or one more than the last.
	Incarnation uint64 `json:"incarnation"`
	// Directory is the identity of the directory, made with it: a node on another one is another node to its peers, for it
	// has forgotten its votes and its log.
	Directory raftnet.Directory `json:"directory"`
	// Founders are the directories that the cluster began with, by node, this one's own included if it is one of them. Nil
	// until this node may take part in Raft: see admission.
	Founders directories `json:"founders,omitempty"`
}

// dir is a node's data directory, held by this process alone until Close.
type dir struct {
	// Path is the directory, Incarnation the number of this start (T6): it never repeats, because it is on disk before
	// anyone hears of it.
	Path        string
	Incarnation uint64
	lock        *os.File
	// record is what the identity file holds. Only admit changes it.
	record identityRecord
}

// openDir opens or makes the data directory at path, checks that it belongs to this node of this cluster, locks it
// against other processes, and counts the start at now. Errors say what to do. The caller closes the dir.
func openDir(path, clusterID string, node session.Node, now time.Time) (*dir, error) {
	d, err := holdDir(path, identityRecord{Format: identityFormat, ClusterID: clusterID, Node: node}, now)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	return d, nil
}

// Close lets other processes have the directory.
func (d *dir) Close() error { return d.lock.Close() }

func holdDir(path string, want identityRecord, now time.Time) (*dir, error) {
	if err := makeDir(path); err != nil {
		return nil, remedy(err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	record, err := begin(path, want, now)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return &dir{Path: path, Incarnation: record.Incarnation, lock: lock, record: record}, nil
}

// admit writes down that the node may take part in Raft, and the directories of the cluster's founders.
func (d *dir) admit(founders directories) error {
	record := d.record
	record.Founders = founders
	if err := remedy(writeIdentity(d.Path, record)); err != nil {
		return fmt.Errorf("data directory %s: %w", d.Path, err)
	}
	d.record = record
	return nil
}

// makeDir makes path and what leads to it, and fsyncs each directory that gains an entry: a power cut would otherwise
// take the data directory away with all that was fsynced in it.
func makeDir(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return syscall.ENOTDIR
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	parent := filepath.Dir(path)
	if err := makeDir(parent); err != nil {
		return err
	}
	if err := os.Mkdir(path, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return syncDir(parent)
}

// lockDir takes the directory's lock. The kernel drops it with the process, however that ends.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, remedy(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New("another process uses it: stop that node first, or give this one a directory of its own")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// begin checks who the directory belongs to, and counts one more start.
func begin(path string, want identityRecord, now time.Time) (identityRecord, error) {
	found, err := readIdentity(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		found, err = want, checkEmpty(path)
		found.Directory = newDirectory()
	case err == nil:
		err = found.check(want)
	}
	if err != nil {
		return identityRecord{}, err
	}
	// Wall-clock time keeps a node whose directory was emptied from being taken for an older process of itself.
	found.Incarnation = max(found.Incarnation+1, uint64(max(now.UnixMilli(), 1)))
	return found, remedy(writeIdentity(path, found))
}

func readIdentity(path string) (identityRecord, error) {
	b, err := os.ReadFile(filepath.Join(path, identityFile))
	if err != nil {
		return identityRecord{}, remedy(err)
	}
	var r identityRecord
	// Above the largest incarnation there is no next one.
	err = json.Unmarshal(b, &r)
	if err != nil || r.Format < 1 || r.Incarnation < 1 || r.Incarnation == math.MaxUint64 || r.Format == identityFormat && r.Directory == 0 {
		return identityRecord{}, errDamaged(path)
	}
	if len(r.Founders) == 0 {
		r.Founders = nil
	}
	return r, nil
}

// errDamaged tells how to mend the identity file: the rest of the directory may be sound, and a node that came back
// without it would forget its votes.
func errDamaged(path string) error {
	return fmt.Errorf("%s is damaged: write it again as "+
		`{"format":%d,"cluster_id":"...","node":...,"incarnation":1,"directory":"...","founders":{...}} `+
		"with this node's own cluster_id and node, the directory that the other nodes know of it (their logs name it), and the "+
		"founders of another node's file; the start counts on from there", filepath.Join(path, identityFile), identityFormat)
}

func (r identityRecord) check(want identityRecord) error {
	switch {
	case r.Format < identityFormat:
		return fmt.Errorf("it was written by an older version (format %d, this version knows %d): use that version, or begin a new cluster "+
			"with empty directories on all nodes", r.Format, identityFormat)
	case r.Format > identityFormat:
		return fmt.Errorf("it was written by a newer version (format %d, this version knows %d): use that version", r.Format, identityFormat)
	case r.ClusterID != want.ClusterID:
		return fmt.Errorf("it belongs to cluster %q, not %q: correct cluster_id or data_dir", r.ClusterID, want.ClusterID)
	case r.Node != want.Node:
		return fmt.Errorf("it belongs to node %d, not %d: correct node or data_dir", r.Node, want.Node)
	}
	return nil
}

// checkEmpty keeps a new node out of a directory that has other uses. What a start that was cut short leaves, and what
// file systems put into their root, is not counted.
func checkEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return remedy(err)
	}
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == "lost+found", strings.HasPrefix(name, "."+identityFile):
		default:
			return fmt.Errorf("it holds other things (%s) and no identity file: give data_dir an empty directory, or the node's former one", name)
		}
	}
	return nil
}

// writeIdentity replaces the identity file so that a crash leaves either the old or the new one, and returns when the
// new one is on disk: file and directory are fsynced.
func writeIdentity(path string, r identityRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(path, identityFile), append(b, '\n'), 0o600, renameio.WithTempDir(path)); err != nil {
		return err
	}
	return syncDir(path)
}

// newDirectory returns the identity of a directory that is made now.
func newDirectory() raftnet.Directory {
	for {
		var b [8]byte
		_, _ = rand.Read(b[:]) // it never fails: crypto/rand ends the process first
		if d := raftnet.Directory(binary.BigEndian.Uint64(b[:])); d != 0 {
			return d
		}
	}
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remedy adds what to do about err, nil for nil.
func remedy(err error) error {
	var advice string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		advice = "let this user read and write it, or give data_dir another one"
	case errors.Is(err, syscall.EROFS):
		advice = "the file system is read-only: mount it for writing, or give data_dir another one"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "the disk is full: free some space"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		advice = "a file is in the way: give data_dir a directory"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}
