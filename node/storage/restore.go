package storage

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/backup"
	"holdfast/backup/verify"
	"holdfast/fsm"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/raftnet"
)

// Founding describes a new cluster that begins with the state of a former one.
type Founding struct {
	// ClusterID must differ from the former cluster's, so that no node of the former cluster, and no other founding of
	// the same backup, can join.
	ClusterID string
	// Peers are the nodes with their addresses.
	Peers []config.Peer
	// Directories are the data directories to make, by node. They must be absent or empty. Their nodes have votes; the
	// other peers start on empty directories, and the leader adds them as members.
	Directories map[session.Node]string
	Logger      hclog.Logger
	// Now is the wall clock.
	Now time.Time
}

// Founded describes the beginning of a new cluster.
type Founded struct {
	ClusterID string
	Nodes     []session.Node
	// From describes the former state, and Contents the new one.
	From     backup.Header
	Contents fsm.Contents
}

// source is the state of a former cluster.
type source struct {
	header backup.Header
	// open opens the records, the same each time.
	open func() (io.ReadCloser, error)
}

// building is the folder in which Restore prepares a data directory. A node refuses a directory with such a folder.
const building = ".restoring"

// Restore makes the data directories of a new cluster from a backup. One call must make all directories, because it
// draws the identities by which the nodes recognize each other. When Restore fails, it removes the files that it has
// made.
func Restore(file string, f Founding) (Founded, error) {
	report, err := verify.File(file)
	if err != nil {
		return Founded{}, err
	}
	return f.found(source{header: report.Header, open: func() (io.ReadCloser, error) {
		from, openErr := os.Open(file)
		if openErr != nil {
			return nil, openErr
		}
		r, openErr := backup.NewReader(from)
		if openErr != nil {
			return nil, errors.Join(openErr, from.Close())
		}
		return struct {
			io.Reader
			io.Closer
		}{r, from}, nil
	}})
}

// found makes the directories.
func (f Founding) found(from source) (Founded, error) {
	if err := f.check(from.header); err != nil {
		return Founded{}, err
	}
	nodes := slices.Sorted(maps.Keys(f.Directories))
	made := &foundation{Founding: f, from: from, founders: raftnet.Directories{}, term: from.header.Term + 1}
	_, _ = rand.Read(made.key[:]) // never fails: crypto/rand ends the process instead
	err := made.build(nodes)
	if err != nil {
		for _, node := range nodes {
			err = errors.Join(err, clean(f.Directories[node]))
		}
		return Founded{}, err
	}
	return Founded{ClusterID: f.ClusterID, Nodes: nodes, From: from.header, Contents: made.contents}, nil
}

// check refuses a founding that cannot work, before any file is written.
func (f Founding) check(from backup.Header) error {
	if f.ClusterID == from.Cluster {
		return fmt.Errorf("the new cluster needs its own cluster_id: %q is the former cluster's, and with it nodes of the "+
			"former cluster could join", f.ClusterID)
	}
	if f.Now.Before(from.TakenAt.Add(-time.Minute)) {
		return fmt.Errorf("this machine's clock says %s, and the backup was taken at %s: set the clock, because new ids "+
			"follow from it", f.Now.UTC().Format(time.RFC3339), from.TakenAt.Format(time.RFC3339))
	}
	if len(f.Directories) == 0 {
		return errors.New("no directory to make: name one for each node")
	}
	paths := map[string]session.Node{}
	for node, path := range f.Directories {
		cfg := config.Default()
		cfg.Auth.Mode = authz.None // the configuration is only checked: no port opens
		cfg.Node, cfg.ClusterID, cfg.Peers, cfg.DataDir = node, f.ClusterID, f.Peers, path
		if _, err := cfg.Complete(); err != nil {
			return err
		}
		full, err := filepath.Abs(path)
		if err != nil {
			return err
		}
		if other, twice := paths[full]; twice {
			return fmt.Errorf("nodes %d and %d have one directory, %s", min(node, other), max(node, other), path)
		}
		paths[full] = node
		if err := unused(path); err != nil {
			return err
		}
	}
	return nil
}

// unused refuses a directory that is not empty.
func unused(path string) error {
	entries, err := os.ReadDir(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return addAdvice(err)
	}
	for _, e := range entries {
		if e.Name() != "lost+found" {
			return fmt.Errorf("data directory %s is not empty (%s): give an empty one", path, e.Name())
		}
	}
	return nil
}

// clean removes the files of Restore from a directory that was empty before.
func clean(path string) error {
	var errs []error
	for _, name := range []string{building, IdentityFile, StableFile, SnapshotFolder, lockFile} {
		errs = append(errs, os.RemoveAll(filepath.Join(path, name)))
	}
	return errors.Join(errs...)
}

// foundation is the state of making a new cluster.
type foundation struct {
	Founding
	from     source
	key      session.Key
	founders raftnet.Directories
	term     uint64
	contents fsm.Contents
}

// build prepares all directories, and moves the files into place only when all directories are complete.
func (f *foundation) build(nodes []session.Node) error {
	made := map[session.Node]*Dir{}
	defer func() {
		for _, d := range made {
			_ = d.Close() // the files are already closed and synced, or useless
		}
	}()
	for _, node := range nodes {
		d, err := OpenDir(filepath.Join(f.Directories[node], building), f.ClusterID, node, f.Now)
		if err != nil {
			return err
		}
		made[node], f.founders[node] = d, d.identity.Directory
	}
	for _, node := range nodes {
		if err := f.fill(made[node]); err != nil {
			return fmt.Errorf("making %s: %w", f.Directories[node], addAdvice(err))
		}
	}
	for _, node := range nodes {
		if err := owned(f.Directories[node]); err != nil {
			return fmt.Errorf("making %s: %w", f.Directories[node], addAdvice(err))
		}
		if err := moveIntoPlace(f.Directories[node]); err != nil {
			return fmt.Errorf("making %s: %w", f.Directories[node], addAdvice(err))
		}
	}
	return nil
}

// fill makes the stable store, the snapshot and the identity file of a founder. The node then starts as after the installation
// of a snapshot, without a vote in the snapshot's term.
func (f *foundation) fill(d *Dir) (err error) {
	log, err := openBolt(filepath.Join(d.path, StableFile))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, log.Close()) }()
	origins, err := openSnapshots(d, f.Logger)
	if err != nil {
		return err
	}
	begun := stamp{Directory: d.identity.Directory, Key: d.identity.Key, Start: d.incarnation, Former: d.identity.Log}
	if err = begun.write(log); err != nil {
		return err
	}
	if err = d.noteStamp(); err != nil {
		return err
	}
	origins.completed = newSeal(log, begun).completed
	if err = log.SetUint64([]byte("CurrentTerm"), f.term); err != nil {
		return err
	}
	if err = f.snapshot(origins); err != nil {
		return err
	}
	return d.Admit(f.founders)
}

// snapshot writes the renewed state as the snapshot from which the log continues.
func (f *foundation) snapshot(origins *snapshotStore) error {
	index := f.from.header.Index + fsm.IndexLeap
	sink, err := origins.Create(raft.SnapshotVersionMax, index, f.term, f.configuration(), index, noTransport{})
	if err != nil {
		return err
	}
	records, err := f.from.open()
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	var nodes []session.Node
	for _, p := range f.Peers {
		nodes = append(nodes, p.Node)
	}
	f.contents, err = fsm.Renew(records, sink, fsm.Renewal{Key: f.key, Now: f.Now, Nodes: nodes})
	if err = errors.Join(err, records.Close()); err == nil && f.contents.Index != index {
		err = fmt.Errorf("the state is of index %d, and its header says %d", f.contents.Index-fsm.IndexLeap,
			f.from.header.Index)
	}
	if err != nil {
		return errors.Join(err, sink.Cancel())
	}
	return sink.Close()
}

// configuration returns Raft's first configuration: all founders vote.
func (f *foundation) configuration() raft.Configuration {
	addresses := map[session.Node]string{}
	for _, p := range f.Peers {
		addresses[p.Node] = p.Raft
	}
	var c raft.Configuration
	for _, node := range slices.Sorted(maps.Keys(f.founders)) {
		d := f.founders[node]
		c.Servers = append(c.Servers, raft.Server{
			Suffrage: raft.Voter, ID: raftnet.ServerID(node, d), Address: raftnet.At(addresses[node], d),
		})
	}
	return c
}

// noTransport encodes addresses for the oldest form of a snapshot's metadata, which no program reads.
type noTransport struct{ raft.Transport }

func (noTransport) EncodePeer(_ raft.ServerID, a raft.ServerAddress) []byte { return []byte(a) }

// owned gives the new files to the directory's owner if root makes them: the node may run as another user.
func owned(path string) error {
	info, err := os.Stat(path)
	if err != nil || os.Geteuid() != 0 {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return nil // the operating system has no file owners
	}
	return filepath.WalkDir(filepath.Join(path, building), func(name string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(name, int(stat.Uid), int(stat.Gid))
	})
}

// moveIntoPlace moves the files of a directory into place, the identity file last. Without the identity file a node
// refuses the others.
func moveIntoPlace(path string) error {
	from := filepath.Join(path, building)
	for _, name := range []string{lockFile, StableFile, SnapshotFolder, IdentityFile} {
		if err := os.Rename(filepath.Join(from, name), filepath.Join(path, name)); err != nil {
			return err
		}
		if name != lockFile { // each name must be on disk before the next one
			if err := syncDir(path); err != nil {
				return err
			}
		}
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	return syncDir(path)
}

// foundedNodes writes nodes as "1, 2 and 3".
func foundedNodes(nodes []session.Node) string {
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = config.FormatNode(n)
	}
	if len(words) < 2 {
		return strings.Join(words, "")
	}
	return strings.Join(words[:len(words)-1], ", ") + " and " + words[len(words)-1]
}

// String reports the new cluster, and the next step.
func (f Founded) String() string {
	suffix := ""
	if !f.From.TakenAt.IsZero() { // the state of a data directory has no time
		suffix = " from " + f.From.TakenAt.Format(time.RFC3339)
	}
	return fmt.Sprintf("cluster %q is ready to start, with the state of index %d of cluster %q%s:\n"+
		"%d sessions, which end when their timeouts have passed, and %d entries of the tree.\n"+
		"Start node %s with cluster_id %s. New indexes, stamps and attachments begin above %d, %d and %d.",
		f.ClusterID, f.From.Index, f.From.Cluster, suffix, f.Contents.Sessions,
		f.Contents.Entries, foundedNodes(f.Nodes), f.ClusterID, f.Contents.Index, f.Contents.Index,
		f.Contents.Attachment)
}
