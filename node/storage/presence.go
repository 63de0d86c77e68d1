package storage

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// presence detects that a file that this process has open was removed, moved or replaced. Without the check,
// the process would keep writing to the open file, and the next start would not find the entries.
//
// Safe for concurrent use.
type presence struct {
	mu sync.Mutex
	// all are the watched paths. guarded by mu
	all []held
	// changes counts the starts and the ends of replacements by this process: an odd number means a replacement runs.
	// guarded by mu
	changes int
}

// held is a watched path and the file at the path when the watch began. The kernel does not reuse the inode number of
// an open file.
type held struct {
	path string
	file *os.File
	info os.FileInfo
	// largest is the largest size so far of a file that never becomes smaller; nil for other files.
	largest *atomic.Int64
}

func holdPath(path string) (held, error) {
	f, err := os.Open(path)
	if err != nil {
		return held{}, addAdvice(err)
	}
	info, err := f.Stat()
	if err != nil {
		return held{}, errors.Join(err, f.Close())
	}
	h := held{path: path, file: f, info: info}
	if !info.IsDir() && filepath.Base(path) != IdentityFile {
		h.largest = new(atomic.Int64)
		h.largest.Store(info.Size())
	}
	return h, nil
}

// watch adds paths to check.
func (p *presence) watch(paths ...string) error {
	for _, path := range paths {
		one, err := holdPath(path)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.all = append(p.all, one)
		p.mu.Unlock()
	}
	return nil
}

// hold adds a path to check until release is called.
func (p *presence) hold(path string) (release func(), err error) {
	if err = p.watch(path); err != nil {
		return nil, err
	}
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		at := slices.IndexFunc(p.all, func(one held) bool { return one.path == path })
		if at >= 0 { // close was not called
			_ = p.all[at].file.Close() // it was not used
			p.all = slices.Delete(p.all, at, at+1)
		}
	}, nil
}

// replace calls write to replace the file at a watched path. It refuses when another process has already changed any of
// the paths. Callers run one replacement at a time.
func (p *presence) replace(path string, write func() error) error {
	if err := p.check(); err != nil {
		return err
	}
	p.mu.Lock()
	p.changes++
	p.mu.Unlock()
	err := write()
	var next held
	if err == nil {
		next, err = holdPath(path)
	}
	p.mu.Lock()
	p.changes++
	at := slices.IndexFunc(p.all, func(one held) bool { return one.path == path })
	var former *os.File
	if err == nil && at >= 0 {
		former, p.all[at] = p.all[at].file, next
	}
	p.mu.Unlock()
	if former != nil {
		err = former.Close()
	}
	return err
}

// lostError says that the directory of a running node was changed.
type lostError struct{ path, what string }

func (e *lostError) Error() string {
	return e.path + " was " + e.what +
		" while the node runs: move the former one back (do not copy it), and the node continues; or stop the node and, " +
		Recovery
}

// check returns a [lostError] when a path leads to another file than at the start of the watch.
func (p *presence) check() error {
	p.mu.Lock()
	all, before := slices.Clone(p.all), p.changes
	p.mu.Unlock()
	for _, one := range all {
		err := one.check()
		if err == nil {
			continue
		}
		p.mu.Lock()
		after := p.changes
		released := !slices.ContainsFunc(p.all, func(other held) bool { return other.file == one.file })
		p.mu.Unlock()
		switch {
		case released: // this process has deleted the file
		case before%2 == 1 || before != after:
			return nil // this process is replacing a file: the next check decides
		default:
			return err
		}
	}
	return nil
}

func (h held) check() error {
	var largest int64
	if h.largest != nil {
		largest = h.largest.Load() // before os.Stat, because the file may grow in between
	}
	info, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &lostError{h.path, "removed or moved"}
	case err != nil:
		return &lostError{h.path, "made unreadable (" + err.Error() + ")"}
	case !os.SameFile(info, h.info):
		return &lostError{h.path, "replaced"}
	case info.Size() < largest:
		return &lostError{h.path, "cut off"}
	}
	if h.largest != nil {
		h.largest.Store(info.Size())
	}
	return nil
}

func (p *presence) close() error {
	p.mu.Lock()
	all := p.all
	p.all = nil
	p.mu.Unlock()
	var errs []error
	for _, one := range all {
		errs = append(errs, one.file.Close())
	}
	return errors.Join(errs...)
}
