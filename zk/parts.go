package zk

import (
	"container/list"
	"errors"
	"sync"
)

// maxParts bounds what frames of which a part has come hold of a node, besides the first [readAhead] bytes of each.
// Without: a client that begins frames on all connections that it may have, and ends none, takes 1 MiB with each.
const maxParts = 256 << 20

// errParts is why a connection ends whose frame does not come.
var errParts = errors.New("frames of which a part has come hold too much, and this one is the oldest")

// parts are the frames of which more than [readAhead] bytes have come, and not all. When they hold too much, the one
// that began first ends with its connection: a client that sends all of its frame is soon no longer among the oldest.
// Safe for concurrent use.
type parts struct {
	most int

	mu    sync.Mutex
	bytes int       // of all. guarded by mu
	all   list.List // of *part, in the order in which they began. guarded by mu
}

// part is a frame of which a part has come.
type part struct {
	end   func(error)
	bytes int
	// at is where it stands; nil before it has grown, and when it has ended. gone says that it was ended for others.
	// guarded by the mu of parts
	at   *list.Element
	gone bool
}

// grow counts more bytes of a frame. Its error says that the frame was ended for the sake of others.
func (s *parts) grow(p *part, bytes int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p.gone {
		return errParts
	}
	if p.at == nil {
		p.at = s.all.PushBack(p)
	}
	p.bytes += bytes
	s.bytes += bytes
	for s.bytes > s.most {
		oldest := s.all.Front().Value.(*part) //nolint:errcheck,forcetypeassert // the list has nothing else
		s.leave(oldest)
		oldest.gone = true
		go oldest.end(errParts) // it closes a connection, which may take a while
	}
	if p.gone {
		return errParts
	}
	return nil
}

// done is called when a frame has come as a whole, or comes no more.
func (s *parts) done(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(p)
}

// leave takes a frame out. Called with mu held.
func (s *parts) leave(p *part) {
	if p.at == nil {
		return
	}
	s.all.Remove(p.at)
	s.bytes -= p.bytes
	p.at = nil
}
