//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"strings"
	"testing"
)

// TestPowerCuts cuts off a write, and then the next write, at each of their steps, with every choice of the disk's
// remaining work. The first cut ends the process alone, the second also the power: of the unsynced changes of names,
// each may be lost or not. After every cut the file is whole, no content is of a newer token than the kept token, and
// no acknowledged write is lost.
func TestPowerCuts(t *testing.T) {
	cuts, lost := 0, 0
	for _, first := range []Token{1, 2, 3} {
		for _, second := range []Token{1, 2, 3} {
			for cut := range allSteps + 1 {
				for powerCut := range allSteps + 1 {
					for choice := range 1 << maxPending {
						h := newHistory(t)
						h.write(first, cut)
						h.write(second, powerCut)
						if choice >= 1<<len(h.disk.pending) {
							break
						}
						cuts++
						lost += h.disk.losePower(choice)
						h.check(fmt.Sprintf("%v cut at step %d, then %v at %d, choice %b", first, cut, second, powerCut, choice))
					}
				}
			}
		}
	}
	if cuts < 1000 || lost < 1000 {
		t.Errorf("%d cuts lost %d changes of names: the test needs more", cuts, lost)
	}
}

const (
	// allSteps bounds the steps of a write: a write is never cut at a later step.
	allSteps = 6
	// maxPending bounds the changes of names that two writes leave unsynced.
	maxPending = 6
)

// history records the writes of a file.
type history struct {
	t    *testing.T
	disk *memory
	// written is all content that may be in the file; acknowledged is the newest of it that must have lasted.
	written      map[string]bool
	acknowledged Token
	count        int
}

// newHistory begins with content of token 1 that is durable.
func newHistory(t *testing.T) *history {
	t.Helper()
	h := &history{t: t, disk: &memory{live: map[string][]byte{}, durable: map[string][]byte{}}, written: map[string]bool{}}
	h.write(1, allSteps)
	return h
}

// write writes content that names its token. At step cut, and from then on, the disk does nothing.
func (h *history) write(token Token, cut int) {
	h.count++
	content := fmt.Sprintf("%d of %v", h.count, token)
	h.written[content] = true
	h.disk.left = cut
	newest, err := h.file().Newest()
	if err != nil {
		h.t.Fatal(err)
	}
	err = h.file().Write(context.Background(), token, []byte(content))
	_, stale := errors.AsType[*StaleError](err)
	switch {
	case stale != (token < newest):
		h.t.Fatalf("write of %v after %v: %v", token, newest, err)
	case err == nil:
		h.acknowledged = token
		h.written = map[string]bool{content: true}
	case !stale && !errors.Is(err, errCut):
		h.t.Fatal(err)
	}
}

func (h *history) file() *File {
	f := NewFile("/dir/file", 0o600)
	f.disk = h.disk
	return f
}

// check requires the guarantees that hold after every cut. Then the file must accept a write of its newest token, and
// refuse older tokens.
func (h *history) check(what string) {
	h.t.Helper()
	content := string(h.disk.live["/dir/file"])
	h.disk.left = allSteps
	newest, err := h.file().Newest()
	if err != nil {
		h.t.Fatalf("%s: %v", what, err)
	}
	var of Token
	if _, text, ok := strings.Cut(content, " of "); ok {
		of, err = Parse(text)
	}
	if err != nil || !h.written[content] || of > newest || newest < h.acknowledged {
		h.t.Fatalf("%s: the file has %q, the token %v; acknowledged %v, %v", what, content, newest, h.acknowledged,
			h.written)
	}
	if newest > 1 {
		h.write(newest-1, allSteps)
	}
	h.write(newest, allSteps)
	if h.acknowledged != newest {
		h.t.Fatalf("%s: the newest token %v cannot write", what, newest)
	}
}

var errCut = errors.New("cut off")

// memory is a disk in memory that is cut off after some steps, and loses changes of names that were not synced.
type memory struct {
	// left is how many steps the disk still performs.
	left int
	// live is the state for a process, durable the state after a power cut; pending lists the changes between them.
	live, durable map[string][]byte
	pending       []func(map[string][]byte)
}

func (m *memory) step() error {
	if m.left == 0 {
		return errCut
	}
	m.left--
	return nil
}

// change changes names, durably only with the next sync.
func (m *memory) change(how func(map[string][]byte)) {
	how(m.live)
	m.pending = append(m.pending, how)
}

func (*memory) lock(context.Context, string, fs.FileMode) (func() error, error) {
	return func() error { return nil }, nil
}

func (m *memory) read(path string) ([]byte, error) {
	content, ok := m.live[path]
	if !ok {
		return nil, fs.ErrNotExist
	}
	return content, nil
}

// write leaves half of the content when it is cut off.
func (m *memory) write(path string, content []byte, _ fs.FileMode) error {
	err := m.step()
	if err != nil {
		content = content[:len(content)/2]
	}
	m.change(func(names map[string][]byte) { names[path] = bytes.Clone(content) })
	return err
}

// rename moves the file that has the name now: should the name itself be lost, the file is not.
func (m *memory) rename(from, to string) error {
	if err := m.step(); err != nil {
		return err
	}
	content := m.live[from]
	m.change(func(names map[string][]byte) {
		delete(names, from)
		names[to] = content
	})
	return nil
}

func (m *memory) sync(dir string) error {
	if dir != filepath.Dir("/dir/file") {
		return fs.ErrInvalid
	}
	if err := m.step(); err != nil {
		return err
	}
	m.durable, m.pending = maps.Clone(m.live), nil
	return nil
}

// losePower loses the unsynced changes whose bit in choice is set, and returns their number.
func (m *memory) losePower(choice int) (lost int) {
	if len(m.pending) > maxPending {
		panic("more changes are pending than choices are tried")
	}
	for i, how := range m.pending {
		if choice&(1<<i) == 0 {
			how(m.durable)
		} else {
			lost++
		}
	}
	m.live, m.pending = maps.Clone(m.durable), nil
	return lost
}
