package learner

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// ForwardLink is one stream of writes to a leader that has welcomed it. One goroutine at a time calls Send, and one
// calls Recv, which returns writes that the leader refuses. Both return an error once the stream has ended, by Close or
// with the stream of heartbeats beside it. Any goroutine may call Close, also more than once.
type ForwardLink interface {
	Send(m session.ForwardMessage) error
	Recv() ([]session.WriteRefusal, error)
	Close() error
}

// ForwardingLink is a [Link] to a leader that takes writes. Forward opens a stream for them. It returns within a bound
// of its own, and soon after the link has ended.
type ForwardingLink interface {
	Link
	Forward() (ForwardLink, error)
}

// ForwardEvents is told of the streams on which this node's writes go to a leader. The calls come one after the other,
// without a lock, and must return soon. They may call [Server.Forward].
type ForwardEvents interface {
	// ForwardBegan says that a stream takes writes, which must begin with the lowest number without an answer of each
	// session (X7).
	ForwardBegan()
	// WritesRefused says that the leader certainly has not appended some writes, and never will.
	WritesRefused(all []session.WriteRefusal)
	// ForwardEnded says that the stream takes no more. What became of the writes on it, only the log says (W4).
	ForwardEnded(err error)
}

const (
	// maxUnsent bounds the bytes of writes that wait for a stream, with writeOverhead for each (W7): two messages. What
	// waits here is in its order for good. The others wait in the queue, where connections take turns (W9).
	maxUnsent     = 2 * session.MaxForwardBytes
	writeOverhead = 64
	// maxAcknowledged bounds the acknowledgements that wait, by their sessions.
	maxAcknowledged = 64 << 10
	// minReopen and maxReopen bound the wait before another stream is opened. It doubles, until a stream has lasted for
	// longer than maxReopen.
	minReopen, maxReopen = 20 * time.Millisecond, time.Second
)

// Forward sends writes to the leader, in their order, and returns at once. The commands are not copied. It takes all
// writes or none. Its error is [session.ErrNoLeader] while no stream is open. One is opened then, as soon as there is a
// leader, and [ForwardEvents.ForwardBegan] says when to send again. The error is a [session.LimitError] while too much
// waits. Safe for concurrent use; the order of calls is the order of the writes.
func (s *Server) Forward(writes []session.ForwardedWrite) error {
	s.upstream.forwards.Store(true) // before the look for a leader: the next one's forwarder looks after it can be found
	if f := s.upstream.forwarder(); f != nil {
		return f.send(writes)
	}
	return session.ErrNoLeader
}

// Acknowledge tells the leader of results that clients have in hand (X3), as Forward does writes. They may be lost.
func (s *Server) Acknowledge(all []session.Acknowledged) error {
	s.upstream.forwards.Store(true)
	if f := s.upstream.forwarder(); f != nil {
		return f.acknowledge(all)
	}
	return session.ErrNoLeader
}

// forwarder returns the present leader's, nil without a leader that takes writes.
func (u *upstream) forwarder() *forwarder {
	if r := u.current(); r != nil {
		return r.forwarder
	}
	return nil
}

// forwarder sends writes to one leader, over one stream at a time. It opens a stream when there is something to send.
// Safe for concurrent use.
type forwarder struct {
	open   func() (ForwardLink, error)
	events ForwardEvents
	logger hclog.Logger
	// ever says that this node has had something to send, to this leader or a former one.
	ever *atomic.Bool
	// wake has room for one signal: a stream is wanted, or something waits to be sent. over is closed when the leader
	// is followed no more.
	wake, over chan struct{}

	mu sync.Mutex
	// wanted says that a stream is to be opened. guarded by mu
	wanted bool
	// link is the open stream, nil without one. guarded by mu
	link ForwardLink
	// writes and acknowledged wait to be sent, bytes is the size of writes. guarded by mu
	writes       []session.ForwardedWrite
	bytes        int
	acknowledged []session.Acknowledged
}

// newForwarder returns the forwarder for the leader behind link; nil if that takes no writes, or nobody is told of
// them.
func newForwarder(s *Server, link Link) *forwarder {
	to, ok := link.(ForwardingLink)
	if !ok || s.cfg.Forwards == nil {
		return nil
	}
	return &forwarder{
		open: to.Forward, events: s.cfg.Forwards, logger: s.cfg.Logger, ever: &s.upstream.forwards,
		wake: make(chan struct{}, 1), over: make(chan struct{}),
	}
}

func (f *forwarder) send(writes []session.ForwardedWrite) error {
	size := 0
	for i := range writes {
		size += len(writes[i].Command) + writeOverhead
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.link == nil:
		return f.want()
	case len(f.writes) > 0 && f.bytes+size > maxUnsent:
		return &session.LimitError{
			Name: "forward_bytes_unsent", Limit: fmt.Sprint(maxUnsent), RetryAfter: session.BusyRetryAfter,
		}
	}
	f.writes = append(f.writes, writes...)
	f.bytes += size
	notify(f.wake)
	return nil
}

func (f *forwarder) acknowledge(all []session.Acknowledged) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	switch {
	case f.link == nil:
		return f.want()
	case len(f.acknowledged)+len(all) > maxAcknowledged:
		return &session.LimitError{
			Name: "acknowledgements_unsent", Limit: fmt.Sprint(maxAcknowledged), RetryAfter: session.BusyRetryAfter,
		}
	}
	f.acknowledged = append(f.acknowledged, all...)
	notify(f.wake)
	return nil
}

// want asks for a stream. The caller holds mu.
func (f *forwarder) want() error {
	f.wanted = true
	notify(f.wake)
	return session.ErrNoLeader
}

// run opens a stream whenever one is wanted, until finish. If the node has ever wanted one, it wants one of each
// leader: it may have asked while there was none.
func (f *forwarder) run() {
	if f.ever.Load() {
		f.mu.Lock()
		f.wanted = true
		f.mu.Unlock()
	}
	wait := minReopen
	for f.awaitWant() {
		begun := time.Now()
		if link, err := f.open(); err != nil {
			f.logger.Debug("no stream for writes", "error", err)
		} else {
			f.serve(link)
		}
		if time.Since(begun) > maxReopen {
			wait = minReopen
		}
		if !f.pause(wait) {
			return
		}
		wait = min(2*wait, maxReopen)
	}
}

// awaitWant returns when a stream is wanted; false after finish.
func (f *forwarder) awaitWant() bool {
	for {
		f.mu.Lock()
		wanted := f.wanted
		f.mu.Unlock()
		if wanted && !f.finished() {
			return true
		}
		select {
		case <-f.wake:
		case <-f.over:
			return false
		}
	}
}

// pause waits; false after finish.
func (f *forwarder) pause(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-f.over:
		return false
	}
}

// serve sends on link, and tells of its refusals, until it ends.
func (f *forwarder) serve(link ForwardLink) {
	f.use(link)
	if f.finished() { // finish may have seen no link
		f.close(link)
	}
	f.events.ForwardBegan()
	ended := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := f.write(link, ended); err != nil {
			f.logger.Debug("sending writes", "error", err)
			f.close(link)
		}
	})
	var err error
	for err == nil {
		var all []session.WriteRefusal
		if all, err = link.Recv(); err == nil {
			f.events.WritesRefused(all)
		}
	}
	f.use(nil)
	close(ended)
	f.close(link)
	wg.Wait()
	f.events.ForwardEnded(err)
}

// use makes link the stream that takes writes; nil: there is none. What waited for a former stream is dropped: it is
// sent again from the lowest number without an answer.
func (f *forwarder) use(link ForwardLink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link, f.wanted = link, false
	f.writes, f.bytes, f.acknowledged = nil, 0, nil
}

func (f *forwarder) close(link ForwardLink) {
	if err := link.Close(); err != nil {
		f.logger.Debug("ending a stream of writes", "error", err)
	}
}

// write sends what waits until the stream has ended.
func (f *forwarder) write(link ForwardLink, ended <-chan struct{}) error {
	for {
		m, more := f.take()
		if more {
			if err := link.Send(m); err != nil {
				return err
			}
			continue
		}
		select {
		case <-f.wake:
		case <-ended:
			return nil
		}
	}
}

// take returns the next message to send. Acknowledgements are few, and go first.
func (f *forwarder) take() (m session.ForwardMessage, more bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if n := min(len(f.acknowledged), session.MaxPeerBatch); n > 0 {
		m.Acknowledged = f.acknowledged[:n:n]
		f.acknowledged = f.acknowledged[n:]
		return m, true
	}
	n, bytes := 0, 0
	for n < min(len(f.writes), session.MaxPeerBatch) {
		size := len(f.writes[n].Command)
		if n > 0 && bytes+size > session.MaxForwardBytes {
			break
		}
		bytes += size
		n++
	}
	m.Writes = f.writes[:n:n]
	f.bytes -= bytes + n*writeOverhead
	if f.writes = f.writes[n:]; len(f.writes) == 0 {
		f.writes = nil // what was taken belongs to its message
	}
	return m, n > 0
}

// finish ends run, and its stream.
func (f *forwarder) finish() {
	close(f.over)
	f.mu.Lock()
	link := f.link
	f.mu.Unlock()
	if link != nil {
		f.close(link)
	}
}

func (f *forwarder) finished() bool {
	select {
	case <-f.over:
		return true
	default:
		return false
	}
}
