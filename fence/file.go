//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
)

// File is a file that only the newest holder of a lock replaces. Other programs read it like any file. Safe for
// concurrent use, by several processes of one machine too.
//
// Beside PATH, in the same directory:
//
//   - PATH.fence has the newest token as text. Without it every token is admitted; remove it to reset the file.
//   - PATH.lock is locked (flock) during a write. It stays empty; never remove it while writers run.
//   - PATH.new and PATH.fence.new are left by a write that was cut short. The next write replaces them.
//
// A write has five steps, each synced before the next: the token, if it is new; the new content under another name; the
// directory; the new content under its own name; the directory. So however a write is interrupted, by the death of the
// process or a power failure, the file has its old content or the new content completely, and never content of a newer
// token than PATH.fence.
//
// A writer that is paused during a write keeps the lock: other writers wait until it continues or ends, because they
// cannot know whether it will continue. On a network file system all of this is as good as that system's locks.
type File struct {
	path string
	perm fs.FileMode
	disk disk
}

// disk is the disk as a write uses it.
type disk interface {
	// lock waits until no other process or goroutine has locked the file.
	lock(ctx context.Context, path string, perm fs.FileMode) (unlock func() error, err error)
	// read returns the content of a file, or fs.ErrNotExist.
	read(path string) ([]byte, error)
	// write creates a file with synced content, and replaces any other.
	write(path string, content []byte, perm fs.FileMode) error
	// rename replaces a file in the same directory by another.
	rename(from, to string) error
	// sync makes the names in a directory durable.
	sync(dir string) error
}

// DamagedError reports a PATH.fence without a valid token. The file cannot be written until PATH.fence is restored, or
// removed to reset the file.
type DamagedError struct {
	// Path is that of the damaged file.
	Path string
	// Err describes the invalid content.
	Err error
}

// Error names the file and the remedy.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v: write the newest token into it, or remove it once no former holder runs",
		e.Path, e.Err)
}

// Unwrap returns the fault of the content.
func (e *DamagedError) Unwrap() error { return e.Err }

// NewFile returns the file at path. The file need not exist, but its directory must. Writes create the file and its
// companions with the permissions perm, before the umask; all writers must be able to read and write them. A symbolic
// link at path is replaced by a file.
func NewFile(path string, perm fs.FileMode) *File {
	return &File{path: filepath.Clean(path), perm: perm, disk: realDisk{}}
}

// Write replaces the content of the file, if no newer token than t has written it or tried to.
//
// Errors: [*StaleError], [*TokenError], [*DamagedError], the cause of ctx if it ends while another writer has the lock,
// and errors of the file system. After an error of the file system the file has the old content or the new content, and
// the token may be recorded.
func (f *File) Write(ctx context.Context, t Token, content []byte) error {
	return f.Update(ctx, t, func() ([]byte, error) { return content, nil })
}

// Update is Write for content that depends on the file's present content: change is called under the lock, once t is
// known to be the newest token, and no other writer writes until Update returns. change may read the file. Update
// writes nothing if change returns an error, and returns that error.
func (f *File) Update(ctx context.Context, t Token, change func() ([]byte, error)) (err error) {
	if err = t.check(); err != nil {
		return err
	}
	unlock, err := f.disk.lock(ctx, f.path+".lock", f.perm)
	if err != nil {
		return fmt.Errorf("write %s: lock: %w", f.path, err)
	}
	defer func() {
		if failed := unlock(); failed != nil {
			err = errors.Join(err, fmt.Errorf("write %s: unlock: %w", f.path, failed))
		}
	}()
	newest, err := f.Newest()
	if err != nil {
		return err
	}
	if t < newest {
		return &StaleError{Resource: f.path, Token: t, Newest: newest}
	}
	content, err := change()
	if err != nil {
		return err
	}
	if t > newest {
		err = f.put(f.path+".fence", []byte(t.String()+"\n"))
	}
	if err != nil {
		return fmt.Errorf("write %s: note fence %v: %w", f.path, t, err)
	}
	if err := f.replace(content); err != nil {
		return fmt.Errorf("write %s: %w", f.path, err)
	}
	return nil
}

// Newest returns the newest token that has written the file or tried to, 0 without one.
func (f *File) Newest() (Token, error) {
	path := f.path + ".fence"
	text, err := f.disk.read(path)
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read the fence of %s: %w", f.path, err)
	}
	line, whole := strings.CutSuffix(string(text), "\n")
	t, err := Parse(line)
	if err == nil && !whole {
		err = &TokenError{Text: line, Problem: "its line has no end"}
	}
	if err == nil {
		err = t.check()
	}
	if err != nil {
		return 0, &DamagedError{Path: path, Err: err}
	}
	return t, nil
}

// put gives a file new content. The directory is not synced.
func (f *File) put(path string, content []byte) error {
	if err := f.disk.write(path+".new", content, f.perm); err != nil {
		return err
	}
	return f.disk.rename(path+".new", path)
}

// replace replaces the file's content. The first sync makes the token durable before the new content gets its name: a
// new token, and also a token that an interrupted writer recorded.
func (f *File) replace(content []byte) error {
	dir := filepath.Dir(f.path)
	if err := f.disk.write(f.path+".new", content, f.perm); err != nil {
		return err
	}
	if err := f.disk.sync(dir); err != nil {
		return err
	}
	if err := f.disk.rename(f.path+".new", f.path); err != nil {
		return err
	}
	return f.disk.sync(dir)
}
