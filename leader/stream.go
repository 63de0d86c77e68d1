package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
)

// Bounds of one stream.
const (
	// maxRequests is the number of requests of one kind under way, see arrives; more are refused.
	maxRequests = 4096
	// maxReplies is the number of replies that wait to be sent; a learner that lets more wait loses its stream.
	maxReplies = 2 * 2 * maxRequests
	// maxNotTaken is the number of touches not taken that wait for their confirmation; more cost the learner its
	// stream, and a new one starts complete (T3).
	maxNotTaken = 1 << 16
)

// stream is one member's stream.
type stream struct {
	hello session.Hello
	// beats says that a heartbeat may have to be sent.
	beats   chan struct{}
	replies chan *session.Reply
	// arrivals counts the requests under way that make sessions, others the rest of them.
	arrivals, others atomic.Int32
	// done is closed when the stream has ended, after reason was set.
	done   chan struct{}
	once   sync.Once
	reason error

	// sentAt is when the newest heartbeat was sent, on the monotonic clock. Guarded by the tracker's mu.
	sentAt time.Duration

	mu sync.Mutex
	// refused are the touches not taken that no heartbeat has named yet, in the order of their answers. Guarded by mu.
	refused []refusal
}

// refusal is a touch that was not taken, and the round of its answer.
type refusal struct {
	round uint64
	id    session.ID
}

func newStream(hello session.Hello) *stream {
	return &stream{
		hello:   hello,
		beats:   make(chan struct{}, 1),
		replies: make(chan *session.Reply, maxReplies),
		done:    make(chan struct{}),
	}
}

// stop ends the stream with the first reason it is given.
func (s *stream) stop(reason error) {
	s.once.Do(func() {
		s.reason = reason
		close(s.done)
	})
}

func (s *stream) stopped() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// beat has the writer look for a heartbeat to send.
func (s *stream) beat() {
	select {
	case s.beats <- struct{}{}:
	default:
	}
}

// reply queues a reply; when the learner does not read, that ends the stream.
func (s *stream) reply(r *session.Reply) {
	select {
	case s.replies <- r:
	default:
		s.stop(fmt.Errorf("%d replies wait: %w", maxReplies, ErrSlow))
	}
}

// refuse notes touches of the answer to a round that were not taken (S1).
func (s *stream) refuse(round uint64, ids []session.ID) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.refused)+len(ids) > maxNotTaken {
		return fmt.Errorf("more than %d touches not taken and not confirmed: %w", maxNotTaken, ErrSlow)
	}
	for _, id := range ids {
		s.refused = append(s.refused, refusal{round, id})
	}
	return nil
}

// confirm returns the touches of answers up to the one to round that were not taken and not named yet (S1).
func (s *stream) confirm(round uint64) []session.ID {
	s.mu.Lock()
	defer s.mu.Unlock()
	var ids []session.ID
	for _, r := range s.refused {
		if r.round > round {
			break
		}
		ids = append(ids, r.id)
	}
	s.refused = s.refused[len(ids):]
	if len(s.refused) == 0 {
		s.refused = nil
	}
	return ids
}

// Follow serves one member's stream until it ends, ctx ends, or the term is over, and returns why. It is
// [session.ErrWrongCluster] for a node that is no member, [ErrDirectory] for one on another data directory than the
// member's, and [ErrSuperseded] once the node has opened a newer stream (T6). It sends the welcome. The leader's own
// relay comes through here too. A Send or Recv that is blocked is left behind: the caller makes it return.
func (t *Tracker) Follow(ctx context.Context, hello session.Hello, link Link) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.isOver() {
		return ErrTermOver
	}
	t.reconfigure()
	s := newStream(hello)
	old, err := t.admit(ctx, s)
	if err != nil {
		return fmt.Errorf("follow by node %d: %w", hello.Node, err)
	}
	if old != nil {
		old.stop(ErrSuperseded)
	}
	t.logger.Debug("stream opened", "node", hello.Node, "stream", hello.Stream, "term", t.cfg.Term)
	go func() { s.stop(t.write(s, link)) }()
	go func() { s.stop(t.read(ctx, s, link)) }()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.stop(ctx.Err())
	case <-t.over:
		s.stop(ErrTermOver)
	}
	t.mu.Lock()
	t.rounds.close(s, t.clock.read(t.mono()))
	t.mu.Unlock()
	t.wake()
	t.logger.Debug("stream ended", "node", hello.Node, "stream", hello.Stream, "term", t.cfg.Term, "reason", s.reason)
	return s.reason
}

// admit makes s the newest stream of its node, and returns the former one. A stream that is not newer is asked about:
// what opened the newest may have been somebody else, in the node's name.
func (t *Tracker) admit(ctx context.Context, s *stream) (*stream, error) {
	t.mu.Lock()
	old, err := t.rounds.open(s, t.clock.read(t.mono()))
	t.mu.Unlock()
	if !errors.Is(err, ErrSuperseded) || t.cfg.Ask == nil || s.hello.Node == t.cfg.Node {
		return old, err
	}
	newest, ok := t.cfg.Ask(ctx, s.hello.Node)
	if !ok {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.rounds.reopen(s, newest, t.clock.read(t.mono()))
}

// write sends what there is to send, heartbeats first.
func (t *Tracker) write(s *stream, link Link) error {
	welcome := &session.Welcome{Term: t.cfg.Term, Leader: t.cfg.Node}
	if err := link.Send(session.LeaderMessage{Welcome: welcome}); err != nil {
		return fmt.Errorf("send welcome: %w", err)
	}
	for {
		if beat := t.heartbeat(s); beat != nil {
			if err := link.Send(session.LeaderMessage{Heartbeat: beat}); err != nil {
				return fmt.Errorf("send heartbeat: %w", err)
			}
		}
		select {
		case <-s.done:
			return nil
		case <-s.beats:
		case r := <-s.replies:
			if err := link.Send(session.LeaderMessage{Reply: r}); err != nil {
				return fmt.Errorf("send reply: %w", err)
			}
		}
	}
}

// heartbeat returns the heartbeat to send on s now, nil if there is none.
func (t *Tracker) heartbeat(s *stream) *session.Heartbeat {
	attachment := t.view.Attachment()
	if !t.current() {
		return nil // what a deposed leader has applied as a follower does not count (M3)
	}
	t.mu.Lock()
	mono := t.mono()
	now := t.clock.read(mono)
	r := t.rounds.next(s, now)
	if r != nil {
		s.sentAt = mono
	}
	good, confirmed, votesFrom := t.rounds.good.number(), t.rounds.confirmed(s), t.rounds.votesFrom(s, now)
	compare, compared := t.rounds.comparison.index, t.rounds.comparison.found
	interval := t.rounds.interval
	t.mu.Unlock()
	if r == nil {
		return nil
	}
	return &session.Heartbeat{
		Round: r.n, Good: good, Confirmed: confirmed, NotTaken: s.confirm(confirmed), Attachment: attachment,
		VotesFrom: votesFrom, Compare: compare, Compared: compared, Interval: interval,
	}
}

// read takes what the learner says.
func (t *Tracker) read(ctx context.Context, s *stream, link Link) error {
	for {
		m, err := link.Recv()
		switch {
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case s.stopped():
			return nil
		case m.Answer != nil:
			if err := t.hear(s, m.Answer); err != nil {
				return err
			}
		case m.Request != nil:
			t.serve(ctx, s, m.Request)
		default:
			return fmt.Errorf("empty message: %w", ErrProtocol)
		}
	}
}

// hear takes one chunk of an answer. What the rounds and the expirer make of it follows in the goroutine of Run.
func (t *Tracker) hear(s *stream, a *session.Answer) error {
	t.mu.Lock()
	now := t.clock.read(t.mono())
	expected, sent := t.rounds.expects(s, a.Round), s.sentAt
	t.mu.Unlock()
	if !expected {
		return fmt.Errorf("answer to round %d, which is not awaited: %w", a.Round, ErrProtocol)
	}
	refused, err := t.ingest(s.hello.Node, a, now)
	if err == nil {
		err = s.refuse(a.Round, refused)
	}
	if err != nil || !a.Last {
		return err
	}
	if s.hello.Node == t.cfg.Node && a.Term > t.cfg.Term {
		t.end(fmt.Errorf("own node answers from term %d, led %d: %w", a.Term, t.cfg.Term, ErrTermOver))
		return ErrTermOver
	}
	if t.cfg.Heard != nil {
		t.cfg.Heard(s.hello.Node, t.start.Add(sent))
	}
	t.mu.Lock()
	if t.rounds.expects(s, a.Round) {
		t.rounds.answer(s, a, now)
		t.rounds.decide(now)
	}
	t.mu.Unlock()
	t.wake()
	return nil
}
