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

// File is a file that only the newest holder of a lock replaces. Programs that do not write it read it as they read any
// file. Safe for concurrent use, by several processes of one machine too.
//
// Beside PATH, in the same directory:
//
//   - PATH.fence has the newest token as text. Without it every token is admitted; remove it to reset the file.
//   - PATH.lock is locked (flock) during a write. It stays empty; never remove it while writers run.
//   - PATH.new and PATH.fence.new are left by a write that was cut short. The next write replaces them.
//
// A write takes five steps, each synced before the next: the token, if it is new; the new content under another name;
// the directory; the new content under its own name; the directory. So whatever cuts a write short, process or power,
// the file has its old content or the new one as a whole, and never content of a newer token than PATH.fence says.
//
// A writer that stands still during a write keeps the lock: others wait until it goes on or ends, since nobody can know
// whether it goes on. On a network file system all of this is as good as that system's locks.
type File struct {
	path string
	perm fs.FileMode
	disk disk
}

// disk is what a write does to the disk.
type disk interface {
	// lock waits until no other process or goroutine has the file locked.
	lock(ctx context.Context, path string, perm fs.FileMode) (unlock func() error, err error)
	// read returns the content of a file, or fs.ErrNotExist.
	read(path string) ([]byte, error)
	// write makes a file with synced content, in the place of any other.
	write(path string, content []byte, perm fs.FileMode) error
	// rename puts a file in the place of another in the same directory.
	rename(from, to string) error
	// sync makes the names in a directory durable.
	sync(dir string) error
}

// DamagedError reports a PATH.fence that holds no token. Nobody writes the file until somebody restores it, or removes
// it to reset the file.
type DamagedError struct {
	// Path is that of the damaged file.
	Path string
	// Err says what is wrong with its content.
	Err error
}

// Error names the file and what to do.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("%s is damaged: %v: write the newest token into it, or remove it once no former holder runs",
		e.Path, e.Err)
}

// Unwrap returns what is wrong with the content.
func (e *DamagedError) Unwrap() error { return e.Err }

// NewFile returns the file at path. It need not exist, but its directory must. Writes make it and the files beside it
// with the permissions perm, before the umask; all writers must be able to read and write them. A symbolic link at path
// is replaced by a file.
func NewFile(path string, perm fs.FileMode) *File {
	return &File{path: filepath.Clean(path), perm: perm, disk: realDisk{}}
}

// Write replaces the content of the file, if no newer token than t has written it or tried to.
//
// Errors: [*StaleError], [*TokenError], [*DamagedError], the cause of ctx if it ends while another writer has the lock,
// and errors of the file system. After one of the last kind the file has the old content or the new one, and the token
// may be noted.
func (f *File) Write(ctx context.Context, t Token, content []byte) error {
	return f.Update(ctx, t, func() ([]byte, error) { return content, nil })
}

// Update is Write for content that depends on the file's present content: change is called under the lock, once t is
// known to be the newest token, and nobody else writes until Update returns. change may read the file. Update
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

// replace gives the file its new content. The first sync makes the token durable before the content has its name: not
// only a new token, but also one that a writer noted before it was cut short.
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
