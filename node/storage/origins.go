package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/transport/raftnet"
)

const (
	// snapshotState, metaFile and temporary are names of Raft's library.
	snapshotState = "state.bin"
	metaFile      = "meta.json"
	temporary     = ".tmp"
	// originFile is a file in the folder of each snapshot.
	originFile = "origin"
)

// origin names the directory in which a snapshot was completed: one line of JSON in the snapshot's folder. A snapshot
// that was copied from elsewhere has no origin, or the origin of another directory.
type origin struct {
	Directory raftnet.Directory `json:"directory"`
	// ID, Index and Term repeat the snapshot's metadata, which has no checksum.
	ID    string `json:"id"`
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

func readOrigin(folder string) (origin, error) {
	b, err := os.ReadFile(filepath.Join(folder, originFile))
	if err != nil {
		return origin{}, err
	}
	var o origin
	err = json.Unmarshal(b, &o)
	return o, err
}

// write writes o to its file. It returns once the file and its name are on disk.
func (o origin) write(folder string) error {
	b, err := json.Marshal(o)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(folder, originFile), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return syncDir(folder)
}

// snapshotStore is Raft's store of snapshots in files. It writes an origin for each snapshot, opens only snapshots of
// its own directory, and reports which file prevents opening a snapshot.
//
// Safe for concurrent use.
type snapshotStore struct {
	raft.SnapshotStore
	folder    string
	directory raftnet.Directory
	// present returns an error when the directory is no longer in its place: Raft's library would then write a snapshot
	// elsewhere.
	present func() error
	// completed records a complete snapshot.
	completed func(snapshotMark) error

	mu sync.Mutex
	// suits checks a snapshot before the node starts from it. It is nil once the node has started. guarded by mu
	suits func(snapshotMark) error
	// refused says why the newest snapshot could not be opened. guarded by mu
	refused error
	// latest is the end of the latest snapshot whose completion has begun in this process. guarded by mu
	latest uint64
}

// openSnapshots opens or makes the folder of snapshots in a directory.
func openSnapshots(d *Dir, logger hclog.Logger) (*snapshotStore, error) {
	store, err := raft.NewFileSnapshotStoreWithLogger(d.path, keptSnapshots, logger.Named("snapshot"))
	if err != nil {
		return nil, fmt.Errorf("opening the snapshots in %s: %w", d.path, err)
	}
	return &snapshotStore{
		SnapshotStore: store, folder: filepath.Join(d.path, SnapshotFolder), directory: d.identity.Directory,
		present: d.presence.check,
	}, nil
}

// Create begins a snapshot.
func (s *snapshotStore) Create(version raft.SnapshotVersion, index, term uint64, servers raft.Configuration,
	configured uint64, trans raft.Transport,
) (raft.SnapshotSink, error) {
	if err := errors.Join(s.present(), s.superseded(index)); err != nil {
		return nil, err
	}
	sink, err := s.SnapshotStore.Create(version, index, term, servers, configured, trans)
	if err != nil {
		return nil, err
	}
	state, err := os.OpenFile(filepath.Join(s.folder, sink.ID()+temporary, snapshotState), os.O_WRONLY, 0)
	if err != nil {
		return nil, errors.Join(err, sink.Cancel())
	}
	return &snapshotSink{SnapshotSink: sink, store: s, mark: snapshotMark{sink.ID(), index, term}, state: state}, nil
}

// snapshotSync is the number of bytes after which a snapshot is synced. A single sync of the whole file at its end would
// make the syncs of the log wait, and with them all writes.
const snapshotSync = 2 << 20

// snapshotSink is a snapshot during its writing.
type snapshotSink struct {
	raft.SnapshotSink
	store *snapshotStore
	mark  snapshotMark
	// ended says that the snapshot is complete, or never will be: err says why.
	ended bool
	err   error
	// state is the file that the sink writes, unsynced the number of bytes since its last sync.
	state    *os.File
	unsynced int
}

// Write writes b, and syncs the file after each snapshotSync bytes.
func (s *snapshotSink) Write(b []byte) (int, error) {
	n, err := s.SnapshotSink.Write(b)
	s.unsynced += n
	if err == nil && s.unsynced >= snapshotSync {
		s.unsynced = 0
		err = s.state.Sync()
	}
	return n, err
}

// Close completes the snapshot. When it returns nil, the snapshot, its origin and its mark in the log are on disk, and
// the completion of no later snapshot has begun.
//
// Raft takes whichever snapshot is complete last for the newest one. A follower that lags may install the leader's
// snapshot while it writes an earlier one of its own state. Had that one been completed afterwards, Raft would say that
// the node has less than it acknowledged, and the others that its directory is an older copy (J6 rolled-back
// directories). So Raft, which closes a snapshot again just before it takes it for the newest, gets an error.
func (s *snapshotSink) Close() error {
	if !s.ended {
		s.ended, s.err = true, s.complete()
	}
	if s.err != nil {
		return s.err
	}
	return s.store.superseded(s.mark.Index)
}

// complete completes the snapshot, unless it is superseded.
func (s *snapshotSink) complete() error {
	_ = s.state.Close() // nothing was written through it
	former, err := s.store.begin(s.mark.Index)
	if err != nil {
		return errors.Join(err, s.SnapshotSink.Cancel())
	}
	o := origin{Directory: s.store.directory, ID: s.mark.ID, Index: s.mark.Index, Term: s.mark.Term}
	if err = o.write(filepath.Join(s.store.folder, s.mark.ID+temporary)); err != nil {
		err = errors.Join(err, s.SnapshotSink.Cancel())
	} else if err = s.SnapshotSink.Close(); err == nil {
		err = s.store.completed(s.mark)
	}
	if err != nil {
		s.store.failed(s.mark.Index, former)
	}
	return err
}

// Cancel drops the snapshot.
func (s *snapshotSink) Cancel() error {
	if !s.ended {
		_ = s.state.Close() // nothing was written through it
		s.ended, s.err = true, errNoSnapshot
	}
	return s.SnapshotSink.Cancel()
}

// begin records that the completion of a snapshot begins, and returns the end of the former latest one.
func (s *snapshotStore) begin(end uint64) (former uint64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = s.checkLatest(end); err != nil {
		return 0, err
	}
	former, s.latest = s.latest, end
	return former, nil
}

// failed records that the completion of a snapshot has failed.
func (s *snapshotStore) failed(end, former uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.latest == end {
		s.latest = former
	}
}

// Superseded is in the error of a snapshot that is refused because a later one is there, which is no fault. Raft's
// library passes on the text of the error alone.
const Superseded = "superseded by the snapshot"

// superseded returns an error if the completion of a snapshot with a later end has begun.
func (s *snapshotStore) superseded(end uint64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.checkLatest(end)
}

// checkLatest is superseded. The caller holds mu.
func (s *snapshotStore) checkLatest(end uint64) error {
	if end < s.latest {
		return fmt.Errorf("the snapshot up to entry %d is %s up to entry %d", end, Superseded, s.latest)
	}
	return nil
}

// Open opens a snapshot of this directory. The reader's Name is the path of the snapshot's file.
func (s *snapshotStore) Open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	meta, source, err := s.open(id)
	if err != nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.refused == nil {
			s.refused = err
		}
	}
	return meta, source, err
}

func (s *snapshotStore) open(id string) (*raft.SnapshotMeta, io.ReadCloser, error) {
	folder := filepath.Join(s.folder, id)
	file := filepath.Join(folder, snapshotState)
	meta, source, err := s.SnapshotStore.Open(id)
	if err != nil {
		return nil, nil, unusable(file, "does not load", err)
	}
	switch o, originErr := readOrigin(folder); {
	case originErr != nil:
		err = unusable(filepath.Join(folder, originFile), "does not load", originErr)
	case o != origin{s.directory, id, meta.Index, meta.Term}:
		err = unusable(folder, fmt.Sprintf("is not the snapshot that was completed there: its origin says %+v, its "+
			"metadata %+v",
			o, markOf(meta)), nil)
	default:
		s.mu.Lock()
		suits := s.suits
		s.mu.Unlock()
		if suits != nil {
			err = suits(markOf(meta))
		}
	}
	if err != nil {
		return nil, nil, errors.Join(err, source.Close())
	}
	return meta, &namedReader{source, file}, nil
}

// started ends the checks for the start.
func (s *snapshotStore) started() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.suits = nil
}

// refusal returns why a snapshot could not be opened; nil when none was refused.
func (s *snapshotStore) refusal() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// ours refuses snapshots that were copied from elsewhere: Raft would keep a newer one for ever. newest is the newest
// complete snapshot in the stamp. An older snapshot may have no origin, because a crash may interrupt its removal.
func (s *snapshotStore) ours(all []*raft.SnapshotMeta, newest snapshotMark) error {
	if err := s.named(); err != nil {
		return err
	}
	for _, meta := range all {
		folder := filepath.Join(s.folder, meta.ID)
		o, err := readOrigin(folder)
		switch {
		case err == nil && o.Directory == s.directory:
		case err == nil:
			return unusable(
				folder, fmt.Sprintf(
					"is not this directory's snapshot: it belongs to directory %v, but the identity file names %v",
					o.Directory, s.directory,
				), nil,
			)
		case meta.Index > newest.Index:
			return unusable(
				folder, "is not this directory's snapshot: it is newer than the newest snapshot in the log's "+
					"stamp, and has no origin", err,
			)
		}
	}
	return nil
}

// named refuses a snapshot with the metadata of another: Raft's library would follow the metadata to another folder.
func (s *snapshotStore) named() error {
	folders, err := os.ReadDir(s.folder)
	if err != nil {
		return fmt.Errorf("reading the snapshots in %s: %w", s.folder, addAdvice(err))
	}
	for _, f := range folders {
		file := filepath.Join(s.folder, f.Name(), metaFile)
		b, err := os.ReadFile(file)
		var meta struct{ ID string }
		if err != nil || json.Unmarshal(b, &meta) != nil || strings.HasSuffix(f.Name(), temporary) {
			continue // Raft's library ignores the folder too
		}
		if meta.ID != f.Name() {
			return unusable(file, "belongs to another snapshot, "+meta.ID, nil)
		}
	}
	return nil
}

// namedReader reads a snapshot from a file, and has the file's path as its name.
type namedReader struct {
	io.ReadCloser
	name string
}

// Name returns the path of the file.
func (r *namedReader) Name() string { return r.name }
