package learner

import (
	"errors"
	"fmt"
	"sync"

	"holdfast/session"
)

// relay is a node's work under one leader, over one link: it answers heartbeats and forwards requests.
type relay struct {
	link *sharedLink
	// term is the leader's term.
	term  uint64
	table *TouchTable
	// recordHeartbeat processes a heartbeat, onComparison the comparison in it; onComparison may be nil, see
	// Config.OnComparison.
	recordHeartbeat func(term uint64, beat *session.Heartbeat)
	// confirmed is called when the table may have confirmed touches.
	confirmed    func()
	onComparison func(reported session.StateDigest, found session.Comparison)
	// beats holds the one unanswered heartbeat (R1 rounds).
	beats chan session.Heartbeat
	// Only the answering goroutine uses answerer, apart from its log of answers.
	answerer *answerer
	calls    *calls
	// forwarder sends writes; nil if the leader accepts none.
	forwarder *forwarder
}

// sharedLink is a link on which any goroutine may send. The goroutines take turns in the order of their calls: a request
// waits while one chunk of an answer is sent, and goes before the next chunk.
type sharedLink struct {
	Link
	// turn holds one value during a goroutine's turn.
	turn chan struct{}
	// failed is the first error of a Send. Only the goroutine whose turn it is uses failed.
	failed error
}

func (l *sharedLink) Send(m session.LearnerMessage) error {
	return l.sendNext(func() (session.LearnerMessage, bool) { return m, true })
}

// sendNext waits for this goroutine's turn, calls next, and sends the message that next returns, if any. After a failed
// Send it returns that error and does not call next.
func (l *sharedLink) sendNext(next func() (session.LearnerMessage, bool)) error {
	l.turn <- struct{}{}
	defer func() { <-l.turn }()
	if l.failed != nil {
		return l.failed
	}
	if m, some := next(); some {
		l.failed = l.Link.Send(m)
	}
	return l.failed
}

var errProtocol = errors.New("leader broke the protocol")

// newRelay waits for the leader's welcome on link.
func newRelay(s *Server, link Link) (*relay, error) {
	m, err := link.Recv()
	if err != nil {
		return nil, fmt.Errorf("waiting for the leader's welcome: %w", err)
	}
	if m.Welcome == nil {
		return nil, fmt.Errorf("%w: its first message is not a welcome", errProtocol)
	}
	// Good rounds of a term count as newer than those of all earlier terms (S4 jeopardy). A term that Raft has not
	// reached would keep the rounds of Raft's own leaders from counting for ever. A genuine leader's Raft is as far as
	// its tracker, and this node's Raft soon reaches the term.
	if own := s.view.Term(); m.Welcome.Term > own {
		return nil, fmt.Errorf("%w: the welcome names term %d, but this node's Raft is in term %d", session.ErrNoLeader,
			m.Welcome.Term, own)
	}
	shared := &sharedLink{Link: link, turn: make(chan struct{}, 1)}
	return &relay{
		link:            shared,
		term:            m.Welcome.Term,
		table:           s.table,
		recordHeartbeat: s.recordHeartbeat,
		confirmed:       s.confirmations.recheck,
		onComparison:    s.cfg.OnComparison,
		beats:           make(chan session.Heartbeat, 1),
		answerer: &answerer{
			link: shared, table: s.table, clock: s.clock, view: s.view, log: &answerLog{}, drain: &s.modeFacts.drain,
			full: s.cfg.FullDisk,
		},
		calls:     newCalls(),
		forwarder: newForwarder(s, link),
	}, nil
}

// run serves the leader until the link ends. The goroutine that ends first closes the link, which ends the others.
func (r *relay) run() error {
	var wg sync.WaitGroup
	var answerErr, requestErr error
	wg.Go(func() { answerErr = errors.Join(r.answerHeartbeats(), r.link.Close()) })
	wg.Go(func() { requestErr = errors.Join(r.sendRequests(), r.link.Close()) })
	if r.forwarder != nil {
		wg.Go(r.forwarder.run)
	}
	err := r.read()
	r.calls.finish()
	if r.forwarder != nil {
		r.forwarder.finish()
	}
	err = errors.Join(err, r.link.Close())
	wg.Wait()
	return errors.Join(err, answerErr, requestErr)
}

// read processes the leader's messages.
func (r *relay) read() error {
	for {
		m, err := r.link.Recv()
		if err != nil {
			return fmt.Errorf("receiving from the leader of term %d: %w", r.term, err)
		}
		switch {
		case m.Heartbeat != nil:
			r.receiveHeartbeat(m.Heartbeat)
			select {
			case r.beats <- *m.Heartbeat:
			default:
				return fmt.Errorf("%w: heartbeat of round %d came before the answer to the previous heartbeat", errProtocol,
					m.Heartbeat.Round)
			}
		default:
			r.calls.replies(m.Replies)
		}
	}
}

// receiveHeartbeat processes a heartbeat before it is answered: the confirmed touches (S1 confirmed touches), whether a
// round was good (S4), and the leader's progress (M3 served in the leader's term).
func (r *relay) receiveHeartbeat(beat *session.Heartbeat) {
	log := r.answerer.log
	if confirmed := log.confirm(beat.Confirmed, beat.Processed); confirmed.processed > 0 || len(beat.RejectedTouches) > 0 {
		r.table.confirm(confirmed, beat.RejectedTouches)
		r.confirmed()
	}
	r.recordHeartbeat(r.term, beat)
	if r.onComparison != nil {
		r.onComparison(log.digest(), beat.Compared)
	}
}

// answerHeartbeats answers the heartbeats, one at a time (R1).
func (r *relay) answerHeartbeats() error {
	r.table.beginStream()
	first := true
	for {
		select {
		case beat := <-r.beats:
			if err := r.answerer.answer(&beat, first); err != nil {
				return fmt.Errorf("sending an answer to the leader of term %d: %w", r.term, err)
			}
			first = false
		case <-r.calls.done:
			return nil
		}
	}
}

// sendRequests sends the queued requests. It takes a batch from the queue only in its turn: when the link ends, a request
// in the queue was certainly not sent, and a request that was taken has an unknown outcome.
func (r *relay) sendRequests() error {
	batch := func() (session.LearnerMessage, bool) {
		requests := r.calls.nextBatch()
		return session.LearnerMessage{Requests: requests}, len(requests) > 0
	}
	for {
		select {
		case <-r.calls.wake:
			if err := r.link.sendNext(batch); err != nil {
				return fmt.Errorf("sending requests to the leader of term %d: %w", r.term, err)
			}
		case <-r.calls.done:
			return nil
		}
	}
}
