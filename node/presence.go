package node

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
)

// presence notices that paths no longer lead to what this process has open: somebody has removed, moved or replaced it.
// The process goes on writing to what nobody finds any more, and its next start would know nothing of it.
//
// Safe for concurrent use.
type presence struct {
	mu sync.Mutex
	// all are the paths and what they led to. guarded by mu
	all []held
	// changes counts the replacements by this process, twice each: it is odd while one is under way. guarded by mu
	changes int
}

// held is a path, and what it led to. The open file keeps the number of the inode from being given to another one.
type held struct {
	path string
	file *os.File
	info os.FileInfo
	// largest is the size of the log that was seen, 0 for anything else.
	largest *atomic.Int64
}

func holdPath(path string) (held, error) {
	f, err := os.Open(path)
	if err != nil {
		return held{}, remedy(err)
	}
	info, err := f.Stat()
	if err != nil {
		return held{}, errors.Join(err, f.Close())
	}
	h := held{path, f, info, new(atomic.Int64)}
	if filepath.Base(path) == logFile {
		h.largest.Store(info.Size())
	}
	return h, nil
}

// hold has paths watched from now on.
func (p *presence) hold(paths ...string) error {
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

// replace has this process itself put something else where a path that is watched leads. It does not when the path, or
// another one, leads elsewhere already. One replacement at a time.
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

// lostError says that the directory of a node that runs is not what it was. For what to do see Error.
type lostError struct{ path, what string }

func (e *lostError) Error() string {
	return e.path + " was " + e.what +
		" while the node runs: put it back as it was, moved and not copied, and the node goes on; or stop the node " +
		"and, " +
		recovery
}

// check returns a [lostError] when a path leads elsewhere.
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
		p.mu.Unlock()
		if before%2 == 1 || before != after {
			return nil // this process changes it: the next look shows
		}
		return err
	}
	return nil
}

func (h held) check() error {
	largest := h.largest.Load() // before the look: the file grows meanwhile
	info, err := os.Stat(h.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return &lostError{h.path, "removed or moved"}
	case err != nil:
		return &lostError{h.path, "made unreadable (" + err.Error() + ")"}
	case !os.SameFile(info, h.info):
		return &lostError{h.path, "replaced"}
	case info.Size() < largest:
		return &lostError{h.path, "cut off"} // bbolt never makes it smaller
	}
	if largest > 0 {
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
