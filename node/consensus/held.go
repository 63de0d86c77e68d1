package consensus

import (
	"runtime"
	"sync"
)

// held keeps the goroutines whose write failed until Raft is about to end. Safe for concurrent use.
type held struct {
	once     sync.Once
	released chan struct{}
}

func newHeld() *held { return &held{released: make(chan struct{})} }

// hold keeps the calling goroutine until release, and then ends it: its deferred calls run. A goroutine of Raft whose
// write failed calls hold, because what Raft would do next could rest on a vote or an entry that is not on disk.
func (h *held) hold() {
	<-h.released
	runtime.Goexit()
}

// release ends the goroutines that hold keeps. Raft must be about to end, or must not have begun: Raft's Shutdown waits
// for those goroutines.
func (h *held) release() { h.once.Do(func() { close(h.released) }) }
