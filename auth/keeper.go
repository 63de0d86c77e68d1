package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
)

// ReloadInterval bounds the delay until a change of the file counts. A node reads the file twice in that time.
const ReloadInterval = 5 * time.Second

// Keeper holds the book of a file, and reads the file again when it changes. Safe for concurrent use; Run runs once.
type Keeper struct {
	path    string
	logger  hclog.Logger
	book    atomic.Pointer[Book]
	failing atomic.Bool
	// last is the content that was parsed last, valid or not, and seen a different content of the previous read. Both
	// belong to Run.
	last, seen []byte
}

// Open reads a file for the first time.
func Open(path string, logger hclog.Logger) (*Keeper, error) {
	k := &Keeper{path: path, logger: logger}
	b, err := read(path)
	if err != nil {
		return nil, err
	}
	book, err := Parse(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	k.last = b
	k.book.Store(book)
	return k, nil
}

// read reads a file of at most MaxFileBytes.
func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	return io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
}

// Book returns the last valid content of the file.
func (k *Keeper) Book() *Book { return k.book.Load() }

// Failing reports whether the file was unreadable or invalid at the last read.
func (k *Keeper) Failing() bool { return k.failing.Load() }

// Run reads the file until ctx ends. An invalid or missing file changes nothing: the former content stays in force, and
// the log has the error.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(ReloadInterval / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			k.reload()
		}
	}
}

// errEmptied refuses a file without any content: it is being written, or its disk is full. If it counted, every stream
// would end.
var errEmptied = errors.New("the file is empty: write \"tokens: []\" to admit no caller")

// reload reads the file, which is small, and compares its content: times and sizes of files may stay the same when the
// content changes. New content counts once two reads in a row have found it: a file that is written line by line is
// valid after each line, and names on later lines would lose their streams.
func (k *Keeper) reload() {
	b, err := read(k.path)
	if err != nil {
		k.logOnce(err)
		k.last, k.seen = nil, nil
		return
	}
	if k.last != nil && bytes.Equal(b, k.last) {
		k.seen = nil
		return
	}
	if k.seen == nil || !bytes.Equal(b, k.seen) {
		k.seen = b
		return
	}
	k.last, k.seen = b, nil
	book, err := Parse(b)
	if err == nil && len(bytes.TrimSpace(b)) == 0 {
		err = errEmptied
	}
	if err != nil {
		k.logOnce(err)
		return
	}
	k.failing.Store(false)
	former := k.book.Swap(book)
	added, removed, changed := book.since(former)
	tokens, certificates := book.Counts()
	k.logger.Info("audit", "action", "reload auth_file", "who", "auth_file", "from", k.path, "outcome", "done",
		"tokens", tokens, "certificates", certificates, "added", added, "removed", removed, "changed", changed)
}

// logOnce logs an error of the file once, until the file is valid again or has another error.
func (k *Keeper) logOnce(err error) {
	if k.failing.Swap(true) && k.last == nil {
		return
	}
	k.logger.Error("audit", "action", "reload auth_file", "who", "auth_file", "from", k.path, "outcome", "failed",
		"error", err, "advice", "the former contents stay in force: correct the file")
}

// maxNames bounds the names that a line lists.
const maxNames = 20

// since returns the names of the entries that b has added, removed and changed compared with a former book.
func (b *Book) since(former *Book) (added, removed, changed []string) {
	for name, id := range b.names {
		switch was, ok := former.names[name]; {
		case !ok:
			added = append(added, name)
		case was != id:
			changed = append(changed, name)
		}
	}
	for name := range former.names {
		if _, ok := b.names[name]; !ok {
			removed = append(removed, name)
		}
	}
	for _, names := range []*[]string{&added, &removed, &changed} {
		slices.Sort(*names)
		*names = (*names)[:min(len(*names), maxNames)]
	}
	return added, removed, changed
}
