package learner

import (
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// ForwardLink is one stream of writes to a leader, after the leader's welcome. One goroutine at a time calls Send, and
// one calls Recv, which returns writes that the leader refuses. Both return an error once the stream has ended, by
// Close or together with the stream of heartbeats. Any goroutine may call Close, also more than once.
type ForwardLink interface {
	Send(m session.ForwardMessage) error
	Recv() ([]session.WriteRefusal, error)
	Close() error
}

// ForwardingLink is a [Link] to a leader that accepts writes. Forward opens a stream for them. It returns within a
// bound of its own, and soon after the link has ended.
type ForwardingLink interface {
	Link
	Forward() (ForwardLink, error)
}

// PendingWrites are this node's unanswered writes. The forwarder pulls them: a write leaves the table when the stream
// to the leader can send it, so no writes wait in between. Safe for concurrent use: refusals arrive during Next. One
// forwarder at a time calls Next.
type PendingWrites interface {
	// StreamWanted reports whether writes wait for a stream.
	StreamWanted() bool
	// Wake has space for one signal: StreamWanted or Next may have changed.
	Wake() <-chan struct{}
	// Next returns the next message to send on the open stream. Without one it returns false, and the time of the next
	// call if no signal comes before; a zero time means never.
	Next() (m session.ForwardMessage, more bool, again time.Time)
	// ForwardBegan says that a stream is open. Its first write of each session must have the session's lowest number
	// without an answer (X7 queue of the node).
	ForwardBegan()
	// WritesRefused says that the leader has certainly not appended some writes, and never will.
	WritesRefused(all []session.WriteRefusal)
	// ForwardEnded says that the stream has ended. Only the log shows the outcome of its writes (W4 answers from
	// applied entries).
	ForwardEnded(err error)
}

// minReopen and maxReopen bound the wait before the next stream is opened. The wait doubles, until a stream has lasted
// longer than maxReopen.
const minReopen, maxReopen = 20 * time.Millisecond, time.Second

// forwarder sends writes to one leader, over one stream at a time. It opens a stream when there are writes to send.
type forwarder struct {
	open   func() (ForwardLink, error)
	writes PendingWrites
	logger hclog.Logger
	// ever says that this node has had writes to send, to this leader or a former leader.
	ever *atomic.Bool
	// over is closed when the node follows the leader no more.
	over chan struct{}

	mu sync.Mutex
	// link is the open stream, nil without one. guarded by mu
	link ForwardLink
}

// newForwarder returns the forwarder for the leader behind link; nil if that leader accepts no writes.
func newForwarder(s *Server, link Link) *forwarder {
	to, ok := link.(ForwardingLink)
	if !ok {
		return nil
	}
	return &forwarder{
		open: to.Forward, writes: s.cfg.Writes, logger: s.cfg.Logger, ever: &s.upstream.forwards,
		over: make(chan struct{}),
	}
}

// run opens a stream whenever one is wanted, until finish. Once the node has wanted a stream, it wants one to each
// later leader: clients that write continue.
func (f *forwarder) run() {
	wanted := f.ever.Load()
	wait := minReopen
	for f.awaitWanted(wanted) {
		wanted = true // until a stream has been opened
		begun := time.Now()
		if link, err := f.open(); err != nil {
			f.logger.Debug("opening a stream for writes failed", "error", err)
		} else {
			f.serve(link)
			wanted = false
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

// awaitWanted returns when a stream is wanted, or immediately if one already is; false after finish.
func (f *forwarder) awaitWanted(wanted bool) bool {
	for !wanted && !f.writes.StreamWanted() {
		select {
		case <-f.writes.Wake():
		case <-f.over:
			return false
		}
	}
	f.ever.Store(true)
	return !f.finished()
}

// pause waits for d; false after finish.
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

// serve sends writes on link, and reports the refusals, until link ends.
func (f *forwarder) serve(link ForwardLink) {
	f.use(link)
	if f.finished() { // finish may have seen no link
		f.close(link)
	}
	f.writes.ForwardBegan()
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
			f.writes.WritesRefused(all)
		}
	}
	f.use(nil)
	close(ended)
	f.close(link)
	wg.Wait()
	f.writes.ForwardEnded(err)
}

// use makes link the open stream; nil means none.
func (f *forwarder) use(link ForwardLink) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.link = link
}

func (f *forwarder) close(link ForwardLink) {
	if err := link.Close(); err != nil {
		f.logger.Debug("ending a stream of writes", "error", err)
	}
}

// write sends pending writes until the stream has ended.
func (f *forwarder) write(link ForwardLink, ended <-chan struct{}) error {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		m, more, again := f.writes.Next()
		if more {
			if err := link.Send(m); err != nil {
				return err
			}
			continue
		}
		timer.Stop()
		if !again.IsZero() {
			timer.Reset(time.Until(again))
		}
		select {
		case <-f.writes.Wake():
		case <-timer.C:
		case <-ended:
			return nil
		}
	}
}

// finish ends run and its stream.
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
