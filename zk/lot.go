package zk

import (
	"sync"
	"time"
)

// lot keeps connections that wait for their clients, without a goroutine for each (Z10). A connection that is parked
// has no other owner than the lot, which gives it back once: when something has come, when its client was silent for
// too long, or when it is asked for. The zero value has no poller yet, and gets one with the first connection. Safe for
// concurrent use.
type lot struct {
	mu sync.Mutex
	// poller says which connections have something to read; nil before there is one to wait for. guarded by mu
	poller *poller
	// places are the connections that are parked, by keys, which are never used again. guarded by mu
	places map[uint64]place
	key    uint64 // the newest key. guarded by mu
	closed bool   // guarded by mu
}

// place is where a connection is parked.
type place struct {
	of *parked
	// silence fires when the client was silent for too long.
	silence *time.Timer
}

// parked is what a lot needs of a connection. Its owner uses it: the lot while the connection is parked.
type parked struct {
	// on is the connection for the poller; nil for one that cannot be parked.
	on *watched
	// come is called when something can be read, silent when that is not so until the given moment. Each is called in a
	// goroutine of its own, which owns the connection then.
	come, silent func()
	// key is that of the connection's place, 0 without one. guarded by the lot's mu
	key uint64
}

// park parks a connection. The owner has lost it when park reports true, even if it was given back by then.
func (l *lot) park(p *parked, until time.Time) bool {
	if p.on == nil {
		return false
	}
	l.mu.Lock()
	key, poller := l.reserve(p, until)
	l.mu.Unlock()
	if key == 0 {
		return false
	}
	if poller.wait(p.on, key) == nil {
		return true
	}
	// It is closed, and whoever closed it may have asked for it; or the kernel has no room.
	mine := l.take(key)
	if mine {
		p.on = nil
	}
	return !mine
}

// reserve gives a connection a place. It returns the key, 0 when there is none. Called with mu held.
func (l *lot) reserve(p *parked, until time.Time) (uint64, *poller) {
	if l.closed {
		return 0, nil
	}
	if l.poller == nil {
		var err error
		if l.poller, err = newPoller(l.come, l.fail); err != nil {
			return 0, nil // the connection waits in its goroutine, and the next one tries again
		}
		l.places = make(map[uint64]place)
	}
	l.key++
	key := l.key
	p.key = key
	l.places[key] = place{p, time.AfterFunc(time.Until(until), func() {
		if l.take(key) {
			p.silent()
		}
	})}
	return key, l.poller
}

// take ends the stay at a place. It reports false when that has ended already.
func (l *lot) take(key uint64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leave(key) != nil
}

// unpark asks for a connection. It reports whether it was parked; then the caller owns it.
func (l *lot) unpark(p *parked) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.leave(p.key) != nil
}

// come gives connections back that have something to read. Of those at other keys it knows that others have taken them.
func (l *lot) come(keys []uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, key := range keys {
		if p := l.leave(key); p != nil {
			go p.come()
		}
	}
}

// fail gives all connections back, and parks no more: the poller does not work.
func (l *lot) fail() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	for key := range l.places {
		go l.leave(key).come()
	}
}

// leave returns the connection of a place and ends its stay, nil when nobody is there. Called with mu held.
func (l *lot) leave(key uint64) *parked {
	at, ok := l.places[key]
	if !ok {
		return nil
	}
	delete(l.places, key)
	at.silence.Stop()
	at.of.key = 0
	return at.of
}

// size is how many connections are parked.
func (l *lot) size() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.places)
}

// close ends the lot, in which nobody is parked any more. Nobody will be.
func (l *lot) close() {
	l.mu.Lock()
	l.closed = true
	p := l.poller
	l.mu.Unlock()
	if p != nil {
		p.close()
	}
}
