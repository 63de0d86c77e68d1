package storage

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/storage/segments"
)

// guardedStore ends the node when a write fails. Raft itself would continue after a failed write, or panic. The outcome
// of the write is unknown, so the node must end and start again from its disk.
type guardedStore struct {
	logs   raft.LogStore
	stable raft.StableStore
	path   string
	// halt, watch and synced are Halt, Watch and Synced of [Options].
	halt   func(error)
	watch  func(doing string) (end func())
	synced func(time.Duration)
	// cuts keeps Raft from deleting applied entries.
	cuts cutGuard
	// writes counts the written batches of entries.
	writes atomic.Uint64
}

// write runs one write and returns when it succeeds. A failed write ends the node, and write never returns: Raft's next
// step could depend on a vote or an entry that is not on disk. The calling goroutine waits while the node stops, and
// ends when Raft is about to end: its deferred calls run then, and Raft's Shutdown waits for nothing else.
func (g *guardedStore) write(doing string, do func() error) error {
	end := g.watch(doing)
	err := do()
	end()
	if err == nil {
		return nil
	}
	g.halt(fmt.Errorf("%s in %s: %w: the node stops, because it cannot know what reached its disk; nothing "+
		"acknowledged is lost: check the disk (space, permissions, health) and start the node again", doing, g.path,
		err))
	return err
}

func (g *guardedStore) FirstIndex() (uint64, error)          { return g.logs.FirstIndex() }
func (g *guardedStore) LastIndex() (uint64, error)           { return g.logs.LastIndex() }
func (g *guardedStore) Get(key []byte) ([]byte, error)       { return g.stable.Get(key) }
func (g *guardedStore) GetUint64(key []byte) (uint64, error) { return g.stable.GetUint64(key) }

// GetLog ends the node when the file does not have an entry that it should have: Raft would panic, or leave a follower
// without the entry for ever.
func (g *guardedStore) GetLog(index uint64, log *raft.Log) error {
	err := g.logs.GetLog(index, log)
	switch {
	case errors.Is(err, raft.ErrLogNotFound), errors.Is(err, segments.ErrClosed):
		return err
	case err == nil && log.Index == index:
		return nil
	case err == nil:
		err = fmt.Errorf("the entry there says that it is entry %d", log.Index)
	}
	g.halt(unusable(filepath.Join(g.path, LogFolder), fmt.Sprintf("is damaged at entry %d", index), err))
	return err
}

func (g *guardedStore) StoreLog(log *raft.Log) error {
	return g.StoreLogs([]*raft.Log{log})
}

func (g *guardedStore) StoreLogs(logs []*raft.Log) error {
	g.writes.Add(1)
	began := time.Now()
	err := g.write("writing the Raft log", func() error { return g.logs.StoreLogs(logs) })
	g.synced(time.Since(began))
	return err
}

func (g *guardedStore) DeleteRange(first, last uint64) error {
	begins, err := g.logs.FirstIndex()
	if err != nil {
		return err
	}
	if err = g.cuts.cut(begins, first, last); err != nil {
		g.halt(err)
		return err
	}
	return g.write("cutting the Raft log", func() error { return g.logs.DeleteRange(first, last) })
}

func (g *guardedStore) Set(key, value []byte) error {
	return g.write("writing Raft's own state", func() error { return g.stable.Set(key, value) })
}

func (g *guardedStore) SetUint64(key []byte, value uint64) error {
	return g.write("writing Raft's own state", func() error { return g.stable.SetUint64(key, value) })
}
