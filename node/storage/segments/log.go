// Package segments keeps Raft's log in a folder of segment files, one sync for each append. The list of segments is a
// value in Raft's stable store.
//
// raft-wal writes and reads the files. This package adds what a start needs to know: raft-wal takes a damaged entry for
// the end of the log, makes a missing newest segment again, and refuses all appends after a crash between the last
// append to a segment and the new list. [Open] checks every segment first, and returns a [FileError] that names the
// file.
package segments

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	wal "github.com/hashicorp/raft-wal"
	"github.com/hashicorp/raft-wal/segment"
)

// ErrClosed is the error of a log that was closed.
var ErrClosed = wal.ErrClosed

// Options say where a log is.
type Options struct {
	// Folder has the segment files. Open makes it for a new log.
	Folder string
	// Owner is written into each segment: a segment of another owner is refused.
	Owner uint64
	// Stable has the list of segments.
	Stable raft.StableStore
	Logger hclog.Logger
	// Size is the size in bytes after which a segment is complete. Deleted entries leave the disk with their segment.
	Size int
	// Opened, if set, is called with the path of each segment that the log begins to use. The log calls the function
	// that Opened returns before it deletes or closes the segment.
	Opened func(path string) (closed func(), err error)
	// Least is an entry that the log must reach; 0 for none.
	Least uint64
}

// Log is Raft's log. Safe for concurrent use.
type Log struct {
	wal   *wal.WAL
	files *files
	// writing is held by the goroutine that changes the log: raft-wal does not expect two that wait for a new segment.
	writing sync.Mutex
}

// Open opens the log, or makes a new one. It returns a [FileError] for a log with a missing, damaged or foreign segment,
// and for one that ends before Least; then it has changed nothing. It removes what a crash has left of the last append.
// All entries are on disk when Open returns: those that the process before had written and not synced, too.
func Open(o Options) (*Log, error) {
	list, err := readList(o.Stable)
	if err != nil {
		return nil, err
	}
	newest, err := o.check(list)
	if err != nil {
		return nil, err
	}
	if err = makeFolder(o.Folder); err != nil {
		return nil, err
	}
	if err = o.mend(list, newest); err != nil {
		return nil, err
	}
	return open(o, list, &files{opened: o.Opened})
}

// Read opens the log of a node that does not run, and changes nothing.
func Read(o Options) (*Log, error) {
	list, err := readList(o.Stable)
	if err != nil {
		return nil, err
	}
	if _, err = o.check(list); err != nil {
		return nil, err
	}
	list.readOnly = true
	return open(o, list, &files{readOnly: true})
}

func open(o Options, list *list, f *files) (*Log, error) {
	f.list, list.failed = list, f.fail
	w, err := wal.Open(o.Folder, wal.WithMetaStore(list), wal.WithLogger(o.Logger), wal.WithSegmentSize(o.Size),
		wal.WithSegmentFiler(&filer{Filer: segment.NewFiler(o.Folder, f), owner: o.Owner, files: f, folder: o.Folder}))
	if err != nil {
		f.closeAll()
		return nil, fmt.Errorf("opening the segments in %s: %w", o.Folder, err)
	}
	return &Log{wal: w, files: f}, nil
}

// FirstIndex returns the index of the oldest entry, 0 for none.
func (l *Log) FirstIndex() (uint64, error) { return l.wal.FirstIndex() }

// LastIndex returns the index of the newest entry, 0 for none.
func (l *Log) LastIndex() (uint64, error) { return l.wal.LastIndex() }

// GetLog reads an entry. It returns [raft.ErrLogNotFound] for an index outside the log.
func (l *Log) GetLog(index uint64, entry *raft.Log) (err error) {
	for {
		before, err := l.FirstIndex()
		if err == nil && index < before {
			err = raft.ErrLogNotFound // raft-wal still finds a deleted entry in the newest segment
		}
		if err == nil {
			err = l.read(index, entry)
		}
		if err == nil || errors.Is(err, raft.ErrLogNotFound) || errors.Is(err, ErrClosed) {
			return err
		}
		// raft-wal may have closed the segment under the read: the entry was deleted, or segments before it.
		if after, firstErr := l.FirstIndex(); firstErr != nil || after == before {
			return err
		}
	}
}

func (l *Log) read(index uint64, entry *raft.Log) (err error) {
	defer func() { // raft-wal's decoder slices what it is given
		if r := recover(); r != nil {
			err = fmt.Errorf("the entry does not decode: %v", r)
		}
	}()
	return l.wal.GetLog(index, entry)
}

// StoreLog appends an entry.
func (l *Log) StoreLog(entry *raft.Log) error { return l.StoreLogs([]*raft.Log{entry}) }

// StoreLogs appends entries, with one sync. The first one follows the newest entry of the log, unless the log is empty.
func (l *Log) StoreLogs(entries []*raft.Log) error {
	return l.write(func() error { return l.wal.StoreLogs(entries) })
}

// DeleteRange deletes entries at the beginning or at the end of the log.
func (l *Log) DeleteRange(first, last uint64) error {
	return l.write(func() error { return l.wal.DeleteRange(first, last) })
}

// write changes the log, unless a change in the background has failed: raft-wal would go on with a list that the disk
// does not have.
func (l *Log) write(do func() error) error {
	l.writing.Lock()
	defer l.writing.Unlock()
	if err := l.files.failure(); err != nil {
		return err
	}
	err := do()
	if failure := l.files.failure(); err != nil && failure != nil {
		return failure
	}
	return err
}

// Close closes the files. It waits for a change of the log.
func (l *Log) Close() error {
	l.writing.Lock()
	defer l.writing.Unlock()
	err := l.wal.Close()
	l.files.closeAll()
	return err
}

// makeFolder makes the folder, and syncs the directory that gains it.
func makeFolder(path string) error {
	err := os.Mkdir(path, 0o700)
	if errors.Is(err, os.ErrExist) {
		if info, statErr := os.Stat(path); statErr != nil || !info.IsDir() {
			return &FileError{path, "is not a folder, or a link to one that does not exist"}
		}
		return nil
	}
	if err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}
