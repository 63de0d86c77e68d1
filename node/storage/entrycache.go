package storage

import (
	"sync"

	"github.com/hashicorp/raft"
)

// cachedBytes bounds the payloads in an [entryCache]: those of a few of the largest commands. One entry is in flight at a
// time, so a follower in step, and the state machine, need only the newest entry. A follower that is behind reads the
// file, which the operating system keeps in memory as well.
const cachedBytes = 4 << 20

// entryCache keeps the newest entries of a log in memory. It replaces raft.LogCache, which keeps pointers to entries.
// On a leader each pointer leads into a future, so that raft.LogCache keeps the results of all commands in its entries
// in memory: about 230 bytes for each open. entryCache keeps copies of the entries, and bounds both their bytes and
// their number. Safe for concurrent use, as the underlying log is.
type entryCache struct {
	raft.LogStore
	// limit bounds the number of entries.
	limit int

	mu sync.Mutex
	// newest are consecutive entries, the oldest first: at most cachedBytes, or a single entry. guarded by mu
	newest []raft.Log
	// bytes is the size of their payloads. guarded by mu
	bytes int
}

// GetLog reads an entry.
func (c *entryCache) GetLog(index uint64, log *raft.Log) error {
	if c.cached(index, log) {
		return nil
	}
	return c.LogStore.GetLog(index, log)
}

func (c *entryCache) cached(index uint64, log *raft.Log) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.newest) == 0 || index < c.newest[0].Index || index > c.newest[len(c.newest)-1].Index {
		return false
	}
	*log = c.newest[index-c.newest[0].Index]
	return true
}

// StoreLog writes an entry.
func (c *entryCache) StoreLog(log *raft.Log) error { return c.StoreLogs([]*raft.Log{log}) }

// StoreLogs writes entries, and caches them after the write.
func (c *entryCache) StoreLogs(logs []*raft.Log) error {
	if err := c.LogStore.StoreLogs(logs); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, log := range logs {
		c.keep(log)
	}
	return nil
}

// keep caches a copy of an entry, and drops the oldest entries to make space. An entry that does not follow the newest
// one replaces all. The caller holds mu.
func (c *entryCache) keep(log *raft.Log) {
	if n := len(c.newest); n > 0 && log.Index != c.newest[n-1].Index+1 {
		c.newest, c.bytes = nil, 0
	}
	drop, size := 0, len(log.Data)
	for drop < len(c.newest) && (c.bytes+size > cachedBytes || len(c.newest)-drop >= c.limit) {
		c.bytes -= len(c.newest[drop].Data)
		drop++
	}
	kept := copy(c.newest, c.newest[drop:])
	clear(c.newest[kept:])
	c.newest = append(c.newest[:kept], *log)
	c.bytes += size
}

// DeleteRange deletes entries. No reader finds a deleted entry in the cache: the cache has only written entries, and
// Raft writes no entry of a range while it deletes the range. Raft deletes the end of the log on the goroutine that
// writes, and the beginning of the log, after a snapshot, on another goroutine while newer entries are written.
func (c *entryCache) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	c.newest, c.bytes = nil, 0
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}
