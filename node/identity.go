package node

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
	"sync"
	"syscall"
	"time"

	"github.com/google/renameio/v2"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	identityFile = "identity"
	lockFile     = "lock"
)

// identityRecord is the identity file: one line of JSON, replaced as a whole at every start.
type identityRecord struct {
	// Format is [session.DirectoryFormat]. A node reads no other directory, and changes no file of it.
	Format    uint64       `json:"format"`
	ClusterID string       `json:"cluster_id"`
	Node      session.Node `json:"node"`
	// Incarnation rises with each start of the node (T6). It is the wall-clock time in milliseconds, or the former
	// incarnation plus one.
	Incarnation uint64 `json:"incarnation"`
	// Directory is the identity of the directory, made with the directory. A node on another directory is another node
	// to its peers, because it has forgotten its votes and its log.
	Directory raftnet.Directory `json:"directory"`
	// Key proves Directory to other nodes. A file that an operator has written again lacks it, and the stamp has it.
	Key raftnet.Key `json:"key,omitzero"`
	// Founders are the directories that the cluster began with, by node, including this node's if it is a founder. They
	// are nil until this node may take part in Raft (see admission).
	Founders directories `json:"founders,omitempty"`
	// Log is the start that the log was last stamped with (see stamp), 0 while the log has not begun. It is on disk
	// before Raft writes or sends anything. From then on, a log that is missing or empty was lost.
	Log uint64 `json:"log,omitempty"`
	// Old says that the directory is an older copy of itself, so that this node is to begin anew (J6).
	Old bool `json:"old,omitempty"`
}

// dir is a node's data directory. This process holds it alone until Close.
type dir struct {
	// Path is the directory's path. Incarnation is the number of this start (T6). It never repeats, because it is on
	// disk before any other node hears of it.
	Path        string
	Incarnation uint64
	lock        *os.File
	// former is the incarnation of the former start, 0 for none.
	former uint64
	// mu orders the writes of the identity file.
	mu sync.Mutex
	// record is the content of the identity file. Only stamped, admit and retire change it, guarded by mu. Others read it
	// while the node opens.
	record identityRecord
	// presence checks that paths still lead to the files that this process has open.
	presence *presence
}

// openDir opens or makes the data directory at path. It locks the directory against other processes, checks that the
// directory belongs to this node of this cluster, and counts the start at now. Errors say what to do. The caller closes
// the dir.
func openDir(path, clusterID string, node session.Node, now time.Time) (*dir, error) {
	d, err := holdDir(path, identityRecord{Format: session.DirectoryFormat, ClusterID: clusterID, Node: node}, now)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	return d, nil
}

// Close releases the directory for other processes.
func (d *dir) Close() error { return errors.Join(d.presence.close(), d.lock.Close()) }

func holdDir(path string, want identityRecord, now time.Time) (*dir, error) {
	if err := makeDir(path); err != nil {
		return nil, remedy(err)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, err
	}
	record, former, err := begin(path, want, now)
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	d := &dir{
		Path: path, Incarnation: record.Incarnation, lock: lock, former: former, record: record,
		presence: &presence{},
	}
	if err := d.presence.hold(path, filepath.Join(path, identityFile)); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// admit writes to disk that the node may take part in Raft, with the directories of the cluster's founders.
func (d *dir) admit(founders directories) error {
	return d.write(func(r *identityRecord) { r.Founders = founders })
}

// stamped writes to disk that the log is stamped with this start. Raft may begin after that.
func (d *dir) stamped() error {
	return d.write(func(r *identityRecord) { r.Log = d.Incarnation })
}

func (d *dir) write(change func(*identityRecord)) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	record := d.record
	change(&record)
	err := d.presence.replace(filepath.Join(d.Path, identityFile), func() error {
		return remedy(writeIdentity(d.Path, record))
	})
	if err != nil {
		return fmt.Errorf("data directory %s: %w", d.Path, err)
	}
	d.record = record
	return nil
}

// makeDir makes path and its parents, and fsyncs each directory that gains an entry. Without that, a power cut could
// remove the data directory, and everything that was fsynced in it.
func makeDir(path string) error {
	switch info, err := os.Stat(path); {
	case err == nil && info.IsDir():
		return nil
	case err == nil:
		return syscall.ENOTDIR
	case !errors.Is(err, fs.ErrNotExist):
		return err
	}
	if to, err := os.Readlink(path); err == nil {
		return danglingLink(path, to, "a directory")
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

// danglingLink returns the error for a link to nothing where kind is expected.
func danglingLink(path, to, kind string) error {
	return &unusableError{
		file: path, wrong: fmt.Sprintf("is a link to %s, which does not exist", to),
		todo: fmt.Sprintf("mount or make %s, or put %s in place of the link", to, kind),
	}
}

// lockDir takes the directory's lock. The kernel drops the lock with the process, however the process ends.
func lockDir(path string) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(path, lockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, remedy(err)
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errors.New(
			"another process uses it: stop the other process first, or give this node a directory of its own",
		)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// begin checks that the directory belongs to the node, and counts one more start. former is the incarnation of the
// former start.
func begin(path string, want identityRecord, now time.Time) (record identityRecord, former uint64, err error) {
	found, err := readIdentity(path)
	if err == nil && found.Old && found.check(want) == nil {
		if err = setAside(path); err == nil {
			found, err = readIdentity(path) // it is gone
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
		return identityRecord{}, 0, err
	}
	former = found.Incarnation
	// Wall-clock time keeps a node whose directory was emptied from being taken for an older process of itself.
	found.Incarnation = max(found.Incarnation+1, uint64(max(now.UnixMilli(), 1)))
	return found, former, remedy(writeIdentity(path, found))
}

func readIdentity(path string) (identityRecord, error) {
	b, err := os.ReadFile(filepath.Join(path, identityFile))
	if err != nil {
		return identityRecord{}, remedy(err)
	}
	var of struct { // all that is read of a file of another format
		Format uint64 `json:"format"`
	}
	if err := json.Unmarshal(b, &of); err != nil {
		return identityRecord{}, errDamaged(path)
	}
	if err := session.CheckFormat("the data directory", of.Format, session.DirectoryFormat,
		"run the release that wrote it, or give data_dir another directory"); err != nil {
		return identityRecord{}, err
	}
	var r identityRecord
	if err := json.Unmarshal(b, &r); err != nil || !r.sound() {
		return identityRecord{}, errDamaged(path)
	}
	if len(r.Founders) == 0 {
		r.Founders = nil
	}
	return r, nil
}

// sound reports whether a node can have written r. The largest number is no incarnation, because nothing follows it. A
// node has stamped its log before it may take part.
func (r identityRecord) sound() bool {
	return r.Incarnation >= 1 && r.Incarnation < math.MaxUint64 && r.Log <= r.Incarnation && r.Directory != 0 &&
		(len(r.Founders) == 0 || r.Log != 0) && (r.Key == raftnet.Key{} || r.Key.Directory() == r.Directory)
}

// findKey returns the directory's key from the log's stamp.
func (r identityRecord) findKey(path string) (raftnet.Key, error) {
	s, ok := stampIn(filepath.Join(path, logFile))
	if !ok || s.Key.Directory() != r.Directory {
		return raftnet.Key{}, errDamaged(path)
	}
	return s.Key, nil
}

// errDamaged says how to go on without the identity file. Writing the file by hand is the last resort: with the
// identity of the wrong directory, a node votes twice. A log without a stamp gives no way to write the file.
func errDamaged(path string) error {
	todo := recovery
	if s, ok := stampIn(filepath.Join(path, logFile)); ok {
		todo += fmt.Sprintf(`; only where no majority is left to take the node in, and the rest of the directory is `+
			`sound, write the file again as {"format":%d,"cluster_id":"...","node":...,"incarnation":%d,`+
			`"directory":"%v","founders":{...},"log":%d} with this node's own cluster_id and node, the values of its `+
			`raft.db that are shown here, and the founders of another node's file`,
			session.DirectoryFormat, s.Start, s.Directory, s.Start)
	}
	return &unusableError{file: filepath.Join(path, identityFile), wrong: "is damaged", todo: todo}
}

func (r identityRecord) check(want identityRecord) error {
	switch {
	case r.ClusterID != want.ClusterID:
		return fmt.Errorf("it belongs to cluster %q, not %q: correct cluster_id or data_dir", r.ClusterID,
			want.ClusterID)
	case r.Node != want.Node:
		return fmt.Errorf("it belongs to node %d, not %d: correct node or data_dir", r.Node, want.Node)
	}
	return nil
}

// checkEmpty keeps a new node out of a directory with other uses, and a node out of a directory that was emptied in
// part. It ignores the files that a start leaves when it is cut short, and the files that file systems put into their
// root.
func checkEmpty(path string) error {
	entries, err := os.ReadDir(path)
	if err != nil {
		return remedy(err)
	}
	var ours []string
	for _, e := range entries {
		switch name := e.Name(); {
		case name == lockFile, name == "lost+found", name == olderCopy, strings.HasPrefix(name, "."+identityFile),
			strings.HasPrefix(name, "."+acknowledgedFile):
		case name == identityFile: // it is listed but cannot be found
			to, _ := os.Readlink(filepath.Join(path, name))
			return danglingLink(filepath.Join(path, name), to, "the file")
		case name == logFile, name == snapshotDir, name == acknowledgedFile:
			ours = append(ours, name)
		default:
			return fmt.Errorf(
				"it holds other files (%s) and no identity file: give data_dir an empty directory, or the node's "+
					"former directory", name,
			)
		}
	}
	identity := filepath.Join(path, identityFile)
	switch {
	case len(ours) == 0:
		return nil
	case slices.Contains(ours, logFile):
		return unusable(identity, "is missing, but the node's log is there: the file was lost or removed", nil)
	default: // a running node makes the folder of snapshots again, and nothing else
		return unusable(identity,
			"and the node's log are missing, and only its folder of snapshots is there: the directory was emptied "+
				"while its node ran, or in part", nil)
	}
}

// writeIdentity replaces the identity file so that a crash leaves either the old or the new file. It returns once the
// new file is on disk: the file and its directory are fsynced.
func writeIdentity(path string, r identityRecord) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(path, identityFile), append(b, '\n'), 0o600,
		renameio.WithTempDir(path)); err != nil {
		return err
	}
	return syncDir(path)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// remedy adds advice to err. It returns nil for nil.
func remedy(err error) error {
	var advice string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		advice = "let this user read and write it, or give data_dir another directory"
	case errors.Is(err, syscall.EROFS):
		advice = "the file system is read-only: mount it for writing, or give data_dir another directory"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "the disk is full: free some space"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		advice = "a file is in the way: give data_dir a directory"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}
