package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// maxEvents bounds the events after which a stream can resume: more than ten minutes of events.
const maxEvents = 1024

// event is one server-sent event.
type event struct {
	number uint64
	kind   string
	data   string
}

// eventLog holds the newest events for all open pages, numbered without gaps. A slow page costs nothing: the console
// asks a page that has fallen behind to reload. Safe for concurrent use.
type eventLog struct {
	// processID distinguishes event numbers of this process from those of an earlier one.
	processID string

	mu sync.Mutex
	// events are the newest; the last has the number last.
	events []event
	last   uint64
	// changed is closed at the next event.
	changed chan struct{}
	closed  bool
}

func newEventLog(process string) *eventLog {
	return &eventLog{processID: process, changed: make(chan struct{})}
}

// publish appends an event.
func (n *eventLog) publish(kind, data string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return
	}
	n.last++
	if len(n.events) == maxEvents {
		n.events = append(n.events[:0], n.events[maxEvents/4:]...)
	}
	n.events = append(n.events, event{n.last, kind, data})
	close(n.changed)
	n.changed = make(chan struct{})
}

// close ends all streams.
func (n *eventLog) close() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.closed {
		n.closed = true
		close(n.changed)
	}
}

// eventBatch is the next part of a stream.
type eventBatch struct {
	events []event
	// changed is closed at the next event.
	changed <-chan struct{}
	// complete is false if the stream has missed events that are no longer kept. closed is true after the last event.
	complete, closed bool
}

// after returns the events after a number.
func (n *eventLog) after(number uint64) eventBatch {
	n.mu.Lock()
	defer n.mu.Unlock()
	missing := n.last - number
	if number > n.last || missing > uint64(len(n.events)) {
		return eventBatch{changed: n.changed, closed: n.closed}
	}
	events := slices.Clone(n.events[uint64(len(n.events))-missing:])
	return eventBatch{events: events, changed: n.changed, complete: true, closed: n.closed}
}

// newest returns the number of the newest event.
func (n *eventLog) newest() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// id returns the stream's id of an event number.
func (n *eventLog) id(number uint64) string { return fmt.Sprintf("%s-%d", n.processID, number) }

// number parses an id. It returns false for an id of another process.
func (n *eventLog) number(id string) (uint64, bool) {
	text, ours := strings.CutPrefix(id, n.processID+"-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, ours && err == nil
}
