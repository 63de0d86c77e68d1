package console

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// newsKept is how many events a stream can resume over: more than ten minutes of them.
const newsKept = 1024

// event is one server-sent event.
type event struct {
	number uint64
	kind   string
	data   string
}

// news is what all open pages are told: the newest events, with numbers that grow by one. A page that reads slowly
// costs nothing: it falls behind, and is told to load anew. Safe for concurrent use.
type news struct {
	// process sets the numbers of this process apart from those of a former one.
	process string

	mu sync.Mutex
	// events are the newest, the last one has the number last.
	events []event
	last   uint64
	// more is closed when another event comes.
	more  chan struct{}
	ended bool
}

func newNews(process string) *news { return &news{process: process, more: make(chan struct{})} }

// tell appends an event.
func (n *news) tell(kind, data string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	n.last++
	if len(n.events) == newsKept {
		n.events = append(n.events[:0], n.events[newsKept/4:]...)
	}
	n.events = append(n.events, event{n.last, kind, data})
	close(n.more)
	n.more = make(chan struct{})
}

// end ends all streams.
func (n *news) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.ended {
		n.ended = true
		close(n.more)
	}
}

// newer is what a stream is told next.
type newer struct {
	events []event
	// more is closed when there are further events.
	more <-chan struct{}
	// complete is false when events are gone that the stream has not had, ended true after the last event for ever.
	complete, ended bool
}

// after returns the events after one with a number.
func (n *news) after(number uint64) newer {
	n.mu.Lock()
	defer n.mu.Unlock()
	missing := n.last - number
	if number > n.last || missing > uint64(len(n.events)) {
		return newer{more: n.more, ended: n.ended}
	}
	events := slices.Clone(n.events[uint64(len(n.events))-missing:])
	return newer{events: events, more: n.more, complete: true, ended: n.ended}
}

// newest returns the number of the newest event.
func (n *news) newest() uint64 {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// id is how a stream names a number.
func (n *news) id(number uint64) string { return fmt.Sprintf("%s-%d", n.process, number) }

// number reads an id; false for that of another process.
func (n *news) number(id string) (uint64, bool) {
	text, ours := strings.CutPrefix(id, n.process+"-")
	number, err := strconv.ParseUint(text, 10, 64)
	return number, ours && err == nil
}
