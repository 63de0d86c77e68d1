package storage

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// countedLogs counts the entries that are read from a log in memory, and can refuse writes.
type countedLogs struct {
	*raft.InmemStore
	reads int
	fails error
}

func (s *countedLogs) GetLog(index uint64, log *raft.Log) error {
	s.reads++
	return s.InmemStore.GetLog(index, log)
}

func (s *countedLogs) StoreLogs(logs []*raft.Log) error {
	if s.fails != nil {
		return s.fails
	}
	return s.InmemStore.StoreLogs(logs)
}

func newEntryCache() (*entryCache, *countedLogs) {
	under := &countedLogs{InmemStore: raft.NewInmemStore()}
	return &entryCache{LogStore: under, limit: cachedEntries}, under
}

func entry(index, term uint64, size int) *raft.Log {
	return &raft.Log{Index: index, Term: term, Data: make([]byte, size)}
}

// store writes entries and checks that each is then read as it was written.
func store(t *testing.T, c *entryCache, logs ...*raft.Log) {
	t.Helper()
	if err := c.StoreLogs(logs); err != nil {
		t.Fatal(err)
	}
	for _, want := range logs {
		wantEntry(t, c, want.Index, want.Term)
	}
}

func wantEntry(t *testing.T, c *entryCache, index, term uint64) {
	t.Helper()
	var got raft.Log
	if err := c.GetLog(index, &got); err != nil || got.Index != index || got.Term != term {
		t.Errorf("entry %d is %d of term %d, %v; want term %d", index, got.Index, got.Term, err, term)
	}
}

func TestEntryCacheKeepsTheNewestEntries(t *testing.T) {
	c, under := newEntryCache()
	for i := range uint64(3 * cachedEntries) {
		store(t, c, entry(i+1, 1, 10))
	}
	if under.reads != 0 {
		t.Errorf("%d new entries were read from the log under the cache", under.reads)
	}
	wantEntry(t, c, 2*cachedEntries+1, 1)
	if under.reads != 0 {
		t.Error("the oldest of the newest entries is not cached")
	}
	wantEntry(t, c, 2*cachedEntries, 1)
	wantEntry(t, c, 1, 1)
	if under.reads != 2 {
		t.Errorf("%d old entries were read from the log under the cache, want 2", under.reads)
	}
}

func TestEntryCacheBoundsBytes(t *testing.T) {
	c, under := newEntryCache()
	for i := range uint64(10) {
		store(t, c, entry(i+1, 1, cachedBytes/4))
	}
	if len(c.newest) != 4 || c.bytes != cachedBytes {
		t.Errorf("%d entries of %d bytes are cached, want 4 of %d", len(c.newest), c.bytes, cachedBytes)
	}
	store(t, c, entry(11, 1, cachedBytes+1)) // the newest entry stays, whatever its size
	if len(c.newest) != 1 || c.bytes != cachedBytes+1 || under.reads != 0 {
		t.Errorf("%d entries of %d bytes are cached, %d reads below", len(c.newest), c.bytes, under.reads)
	}
	store(t, c, entry(12, 1, 1))
	if len(c.newest) != 1 || c.bytes != 1 {
		t.Errorf("%d entries of %d bytes are cached, want 1 of 1", len(c.newest), c.bytes)
	}
}

// A follower deletes entries that conflict with its leader's, and writes others in their place.
func TestEntryCacheForgetsWhatIsDeleted(t *testing.T) {
	c, _ := newEntryCache()
	store(t, c, entry(1, 1, 1), entry(2, 1, 1), entry(3, 1, 1))
	if err := c.DeleteRange(2, 3); err != nil {
		t.Fatal(err)
	}
	var got raft.Log
	for index := uint64(2); index <= 3; index++ {
		if err := c.GetLog(index, &got); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("deleted entry %d: %v, %v", index, got, err)
		}
	}
	store(t, c, entry(2, 2, 1))
	wantEntry(t, c, 1, 1)
	// Raft appends behind a gap after it has installed a snapshot.
	store(t, c, entry(9, 3, 1))
	wantEntry(t, c, 2, 2)
	for _, index := range []uint64{3, 8, 10} {
		if err := c.GetLog(index, &got); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("entry %d, which was never written: %v, %v", index, got, err)
		}
	}
}

func TestEntryCacheKeepsNothingThatIsNotWritten(t *testing.T) {
	c, under := newEntryCache()
	under.fails = errors.New("the disk is full")
	if err := c.StoreLog(entry(1, 1, 1)); !errors.Is(err, under.fails) {
		t.Fatalf("got %v", err)
	}
	var got raft.Log
	if err := c.GetLog(1, &got); !errors.Is(err, raft.ErrLogNotFound) {
		t.Errorf("an entry that was not written: %v, %v", got, err)
	}
}

// Raft gives a leader's store entries that are fields of futures, which hold the results of their commands.
func TestEntryCacheHoldsNoFuture(t *testing.T) {
	type future struct {
		log      raft.Log
		response any
	}
	c, under := newEntryCache()
	under.InmemStore = raft.NewInmemStore()
	freed := make(chan struct{})
	func() {
		f := &future{log: *entry(1, 1, 10), response: "result"}
		runtime.AddCleanup(f, func(freed chan struct{}) { close(freed) }, freed)
		if err := c.StoreLogs([]*raft.Log{&f.log}); err != nil {
			t.Fatal(err)
		}
	}()
	under.InmemStore = raft.NewInmemStore() // it keeps the pointers that it is given
	deadline := time.After(time.Minute)
	for {
		runtime.GC()
		select {
		case <-freed:
			wantEntry(t, c, 1, 1)
			if under.reads != 0 {
				t.Error("the entry is not cached")
			}
			return
		case <-deadline:
			t.Fatal("the cache keeps the future of an entry")
		default:
			runtime.Gosched()
		}
	}
}
