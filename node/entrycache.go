package node

import (
	"sync"

	"github.com/hashicorp/raft"

	"holdfast/fsm"
)

// cachedBytes bounds the payloads that an [entryCache] keeps: two of the largest entries. One entry is on its way at a
// time, so a follower in step needs the newest entry alone. A follower that is behind reads the file, which the
// system keeps in memory as well.
const cachedBytes = 2 * fsm.DefaultEntryBytes

// entryCache keeps the newest entries of a log in memory. It takes the place of raft.LogCache, which keeps the pointers
// that it is given. On a leader each points into a future, so that cache keeps the results of all commands in its
// entries alive: some 230 bytes for each open. entryCache keeps copies of the entries, and bounds their bytes besides
// their number. Safe for concurrent use, as the log under it is.
type entryCache struct {
	raft.LogStore

	mu sync.Mutex
	// newest are consecutive entries, the oldest first: at most cachedBytes, or a single entry. guarded by mu
	newest []raft.Log
	// bytes is the size of their payloads. guarded by mu
	bytes int
}

// cachedEntries bounds the number of entries in an [entryCache], whatever their size.
const cachedEntries = 2 * maxAppendEntries

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

// StoreLogs writes entries, and keeps them once they are written. A reader before that finds what the log has.
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

// keep keeps a copy of an entry, and drops the oldest ones for it. An entry that does not follow the newest one takes
// the place of all. The caller holds mu.
func (c *entryCache) keep(log *raft.Log) {
	if n := len(c.newest); n > 0 && log.Index != c.newest[n-1].Index+1 {
		c.newest, c.bytes = nil, 0
	}
	drop, size := 0, len(log.Data)
	for drop < len(c.newest) && (c.bytes+size > cachedBytes || len(c.newest)-drop >= cachedEntries) {
		c.bytes -= len(c.newest[drop].Data)
		drop++
	}
	kept := copy(c.newest, c.newest[drop:])
	clear(c.newest[kept:])
	c.newest = append(c.newest[:kept], *log)
	c.bytes += size
}

// DeleteRange deletes entries. No reader finds a deleted entry in memory: only writes are cached, and while a range is
// deleted Raft writes none of its entries. It cuts off the end of the log on the goroutine that writes, and the start,
// after a snapshot, on another one while newer entries are written.
func (c *entryCache) DeleteRange(first, last uint64) error {
	c.mu.Lock()
	c.newest, c.bytes = nil, 0
	c.mu.Unlock()
	return c.LogStore.DeleteRange(first, last)
}
