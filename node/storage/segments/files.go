package segments

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/hashicorp/raft-wal/segment"
	"github.com/hashicorp/raft-wal/types"
)

// growth is the number of bytes by which a segment grows ahead of its entries. In space that it already has, a sync
// need not write the file's size.
const growth = 1 << 20

// filer makes and opens segments for raft-wal. It writes the owner where raft-wal writes the codec.
type filer struct {
	*segment.Filer
	owner  uint64
	folder string
	files  *files
}

func (f *filer) Create(info types.SegmentInfo) (types.SegmentWriter, error) {
	number := info.ID
	info.Codec = f.owner
	w, err := f.Filer.Create(info)
	if err == nil && !f.files.readOnly {
		if err = syncDir(f.folder); err == nil {
			err = f.files.list.made(number)
		}
		if err != nil {
			err = errors.Join(err, w.Close())
		}
	}
	if err != nil {
		f.files.fail(err)
		return nil, err
	}
	return w, nil
}

// RecoverTail opens the newest segment. A crash may have come before its file was recorded.
func (f *filer) RecoverTail(info types.SegmentInfo) (types.SegmentWriter, error) {
	info.Codec = f.owner
	w, err := f.Filer.RecoverTail(info)
	if err == nil && !f.files.readOnly && info.ID >= f.files.list.Made {
		if err = f.files.list.made(info.ID); err != nil {
			err = errors.Join(err, w.Close())
		}
	}
	if err != nil {
		return nil, err
	}
	return w, nil
}

func (f *filer) Open(info types.SegmentInfo) (types.SegmentReader, error) {
	info.Codec = f.owner
	return f.Filer.Open(info)
}

// files implements types.VFS for one log. Safe for concurrent use.
type files struct {
	list     *list
	readOnly bool
	opened   func(path string) (closed func(), err error)

	mu sync.Mutex
	// closed has the function to call for each path in use. guarded by mu
	closed map[string]func()
	// failed is why the newest segment could not be made or listed: raft-wal only logs it. guarded by mu
	failed error
}

func (f *files) fail(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = err
	}
}

func (f *files) failure() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.failed
}

// use tells the owner of the log of a path in use.
func (f *files) use(path string) error {
	if f.opened == nil {
		return nil
	}
	closed, err := f.opened(path)
	if err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed == nil {
		f.closed = map[string]func(){}
	}
	f.closed[path] = closed
	return nil
}

// unuse tells the owner that a path is no longer in use.
func (f *files) unuse(path string) {
	f.mu.Lock()
	closed := f.closed[path]
	delete(f.closed, path)
	f.mu.Unlock()
	if closed != nil {
		closed()
	}
}

func (f *files) closeAll() {
	f.mu.Lock()
	all := f.closed
	f.closed = nil
	f.mu.Unlock()
	for _, closed := range all {
		closed()
	}
}

// ListDir implements types.VFS.
func (f *files) ListDir(dir string) ([]string, error) {
	if f.readOnly {
		return nil, nil // there is nothing to delete
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, e := range entries {
		if _, ok := numberOf(e.Name()); ok { // raft-wal takes another file with the suffix for damage
			names = append(names, e.Name())
		}
	}
	return names, nil
}

// Create implements types.VFS. The file grows later.
func (f *files) Create(dir, name string, _ uint64) (types.WritableFile, error) {
	if f.readOnly {
		return unmade{}, nil
	}
	path := filepath.Join(dir, name)
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDWR, 0o600)
	return f.writable(path, file, err)
}

// Delete implements types.VFS. It needs no sync: a start deletes what the list does not name.
func (f *files) Delete(dir, name string) error {
	path := filepath.Join(dir, name)
	f.unuse(path)
	return os.Remove(path)
}

// OpenReader implements types.VFS.
func (f *files) OpenReader(dir, name string) (types.ReadableFile, error) {
	path := filepath.Join(dir, name)
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	if err = f.use(path); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// OpenWriter implements types.VFS.
func (f *files) OpenWriter(dir, name string) (types.WritableFile, error) {
	path, mode := filepath.Join(dir, name), os.O_RDWR
	if f.readOnly {
		mode = os.O_RDONLY
	}
	file, err := os.OpenFile(path, mode, 0)
	return f.writable(path, file, err)
}

func (f *files) writable(path string, file *os.File, err error) (types.WritableFile, error) {
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil {
		err = f.use(path)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return &grown{File: file, size: info.Size()}, nil
}

// grown is a segment that grows ahead of its entries. One goroutine writes.
type grown struct {
	*os.File
	size int64
}

func (g *grown) WriteAt(b []byte, at int64) (int, error) {
	if end := at + int64(len(b)); end > g.size {
		size := (end + growth - 1) / growth * growth
		if err := allocate(g.File, g.size, size); err != nil {
			return 0, err
		}
		g.size = size
	}
	return g.File.WriteAt(b, at)
}

func (g *grown) Sync() error { return syncData(g.File) }

// unmade stands for a segment that a crash has left without a file, in a log that is only read.
type unmade struct{}

func (unmade) ReadAt([]byte, int64) (int, error)  { return 0, io.EOF }
func (unmade) WriteAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }
func (unmade) Sync() error                        { return errors.ErrUnsupported }
func (unmade) Close() error                       { return nil }

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
