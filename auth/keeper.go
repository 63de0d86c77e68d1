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

// ReloadInterval is how long a change of the file takes to count, at most. A node looks twice in that time.
const ReloadInterval = 5 * time.Second

// Keeper holds the book of a file, and reads the file again when it changes. Safe for concurrent use; Run runs once.
type Keeper struct {
	path    string
	logger  hclog.Logger
	book    atomic.Pointer[Book]
	failing atomic.Bool
	// last is what was judged last, whether it was a book or not, and seen another content that the look before has
	// found. They belong to Run.
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
	defer func() { _ = f.Close() }() // it was only read
	return io.ReadAll(io.LimitReader(f, MaxFileBytes+1))
}

// Book returns what the file said when it was last right.
func (k *Keeper) Book() *Book { return k.book.Load() }

// Failing reports whether the file could not be read, or made no sense, at the last look.
func (k *Keeper) Failing() bool { return k.failing.Load() }

// Run looks at the file until ctx ends. A file that makes no sense, or is not there, changes nothing: what was read
// before stays in force, and the log says why.
func (k *Keeper) Run(ctx context.Context) error {
	tick := time.NewTicker(ReloadInterval / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			k.look()
		}
	}
}

// errEmptied is what is wrong with a file that has nothing in it any more: it is being written, or its disk is full. If
// it counted, every stream would end.
var errEmptied = errors.New("it is empty: write \"tokens: []\" if nobody is to be let in")

// look reads the file, which is small, and compares it: times and sizes of files may stay the same when they change.
// Another content counts once two looks in a row have found it: a file that is written line by line makes sense after
// each line, and the names that are not there yet would lose their streams.
func (k *Keeper) look() {
	b, err := read(k.path)
	if err != nil {
		k.complain(err)
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
		k.complain(err)
		return
	}
	k.failing.Store(false)
	former := k.book.Swap(book)
	added, removed, changed := book.since(former)
	tokens, certificates := book.Counts()
	k.logger.Info("audit", "act", "reload auth_file", "who", "auth_file", "from", k.path, "outcome", "done",
		"tokens", tokens, "certificates", certificates, "added", added, "removed", removed, "changed", changed)
}

// complain says once that the file is wrong, until it is right again or wrong otherwise.
func (k *Keeper) complain(err error) {
	if k.failing.Swap(true) && k.last == nil {
		return
	}
	k.logger.Error("audit", "act", "reload auth_file", "who", "auth_file", "from", k.path, "outcome", "failed",
		"error", err, "advice", "the former contents stay in force: correct the file")
}

// mostNames bounds the names that a line lists.
const mostNames = 20

// since returns the names of entries that a book has more, less, and otherwise than a former one.
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
		*names = (*names)[:min(len(*names), mostNames)]
	}
	return added, removed, changed
}
