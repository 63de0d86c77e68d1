package main

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/bench/system"
	"holdfast/tree"
)

// writers opens sessions that write through all nodes.
func (c *cluster) writers(each int) (streams []*system.Stream, held []system.Session) {
	c.t.Helper()
	for i := range size {
		s := c.connect(i)
		c.t.Cleanup(s.End)
		streams = append(streams, s)
	}
	held = make([]system.Session, each*size)
	c.flood(len(held), func(i int, done func(error)) {
		streams[i%size].OpenWriter(40*time.Second, func(one system.Session, err error) {
			held[i] = one
			done(err)
		})
	})
	return streams, held
}

// flood makes n requests, 1,024 in flight.
func (c *cluster) flood(n int, do func(i int, done func(error))) {
	c.t.Helper()
	places, failed := make(chan struct{}, 1024), make(chan error, n)
	for i := range n {
		places <- struct{}{}
		do(i, func(err error) {
			if err != nil {
				failed <- err
			}
			<-places
		})
	}
	for range cap(places) {
		places <- struct{}{}
	}
	if len(failed) > 0 {
		c.t.Fatalf("%d requests failed, the first: %v", len(failed), <-failed)
	}
}

// Creates that wait at the same time share log entries, and their events to a watcher share messages. A change
// that many watch is one entry, and one message to each.
func TestCreatesShareEntriesAndEventsMessages(t *testing.T) {
	const (
		n = 8 * 1024
		// least creates of an entry, and events of a message.
		least, leastEvents = 64, 16
		watchers           = 30
	)
	c := newCluster(t)
	streams, held := c.writers(4)
	create := func(path string) func(i int, done func(error)) {
		return func(i int, done func(error)) {
			at := i % len(held)
			streams[at%size].Create(held[at], fmt.Sprintf("%s%d", path, i), make([]byte, 100), tree.Persistent, done)
		}
	}
	c.flood(1, create("/folder-"))
	watcher := c.connect(1)
	defer watcher.End()
	events := newEvents(t, n)
	c.flood(1, func(_ int, done func(error)) { watcher.Watch("/folder-0", tree.WatchRecursive, events.one, done) })
	entries := c.sum("holdfast_log_entries_proposed_total")
	c.flood(n, create("/folder-0/entry-"))
	entries = c.sum("holdfast_log_entries_proposed_total") - entries
	events.wait()
	messages := float64(watcher.EventMessages())
	t.Logf("%d creates: %.0f entries, %.0f creates an entry; %.0f messages, %.0f events a message", n, entries, n/entries,
		messages, n/messages)
	if entries < 1 || n/entries < least {
		t.Errorf("%d creates made %.0f entries: %.1f creates an entry, want %d at least", n, entries, n/entries, least)
	}
	if n/messages < leastEvents {
		t.Errorf("%d events came in %.0f messages: %.1f a message, want %d at least", n, messages, n/messages, leastEvents)
	}

	changed := newEvents(t, watchers)
	all := make([]*system.Stream, watchers)
	for i := range all {
		all[i] = c.connect(i % size)
		defer all[i].End()
	}
	c.flood(watchers, func(i int, done func(error)) {
		all[i].Watch("/folder-0/entry-7", tree.WatchData, changed.one, done)
	})
	entries = c.sum("holdfast_log_entries_proposed_total")
	c.flood(1, func(_ int, done func(error)) { streams[0].Set(held[0], "/folder-0/entry-7", nil, done) })
	changed.wait()
	if entries = c.sum("holdfast_log_entries_proposed_total") - entries; entries > 2 { // a clock may be one
		t.Errorf("a change that %d clients watch made %.0f entries, want 1", watchers, entries)
	}
	for i, s := range all {
		if got := s.EventMessages(); got != 1 {
			t.Errorf("client %d received one change in %d messages", i, got)
		}
	}
}

// eventCount waits for events.
type eventCount struct {
	t    *testing.T
	left atomic.Int64
	all  chan struct{}
}

func newEvents(t *testing.T, events int) *eventCount {
	t.Helper()
	h := &eventCount{t: t, all: make(chan struct{})}
	h.left.Store(int64(events))
	return h
}

// one counts one event. Those that come after the last, such as the end of the connection, are not counted.
func (h *eventCount) one(err error) {
	left := h.left.Add(-1)
	if left == 0 {
		close(h.all)
	}
	if left >= 0 && err != nil {
		h.t.Error(err)
	}
}

func (h *eventCount) wait() {
	h.t.Helper()
	select {
	case <-h.all:
	case <-time.After(bound):
		h.t.Fatalf("%d events are missing", h.left.Load())
	}
}
