package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/session"
)

// Follow serves one member's stream. It sends the welcome, and returns when the stream ends, ctx ends, or the term is
// over; the error says why. The error is [session.ErrWrongCluster] for a node that is not a member, [ErrDirectory] for
// a node on another data directory than the member's, and [ErrSuperseded] once the node has opened a newer stream (T6
// newest stream only). The leader's own relay follows like every other. Follow does not wait for a blocked Send or
// Recv: the caller makes them return.
func (t *Tracker) Follow(ctx context.Context, hello session.Hello, link Link) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if t.term.isOver() {
		return ErrTermOver
	}
	t.heartbeats.reconfigure()
	s := newStream(hello)
	old, err := t.admit(ctx, s)
	if err != nil {
		return fmt.Errorf("follow by node %d: %w", hello.Node, err)
	}
	if old != nil {
		old.stop(ErrSuperseded)
	}
	t.logger.Debug("stream opened", "node", hello.Node, "stream", hello.Stream, "term", t.term.number)
	go func() { s.stop(t.write(s, link)) }()
	go func() { s.stop(t.read(ctx, s, link)) }()
	select {
	case <-s.done:
	case <-ctx.Done():
		s.stop(ctx.Err())
	case <-t.term.over:
		s.stop(ErrTermOver)
	}
	t.heartbeats.close(s)
	t.logger.Debug("stream ended", "node", hello.Node, "stream", hello.Stream, "term", t.term.number,
		"reason", s.reason)
	return s.reason
}

// admit makes s the newest stream of its node, and returns the former one. If s is not newer, admit asks the node
// itself: another process may have opened the newest stream in the node's name.
func (t *Tracker) admit(ctx context.Context, s *stream) (*stream, error) {
	old, err := t.heartbeats.open(s)
	if !errors.Is(err, ErrSuperseded) || t.cfg.Ask == nil || s.hello.Node == t.cfg.Node {
		return old, err
	}
	newest, ok := t.cfg.Ask(ctx, s.hello.Node)
	if !ok {
		return nil, err
	}
	return t.heartbeats.reopen(s, newest)
}

// write sends heartbeats and replies, heartbeats first.
func (t *Tracker) write(s *stream, link Link) error {
	welcome := &session.Welcome{Term: t.term.number, Leader: t.cfg.Node}
	if err := link.Send(session.LeaderMessage{Welcome: welcome}); err != nil {
		return fmt.Errorf("send welcome: %w", err)
	}
	for {
		more, err := t.writeNext(s, link)
		if err != nil {
			return err
		}
		if more && !s.stopped() {
			continue // a heartbeat goes before more replies
		}
		select {
		case <-s.done:
			return nil
		case <-s.beats:
		case <-s.replied:
		}
	}
}

// writeNext sends a heartbeat if one is due, and one message of replies. It reports whether it sent replies.
func (t *Tracker) writeNext(s *stream, link Link) (bool, error) {
	if beat := t.heartbeat(s); beat != nil {
		if err := link.Send(session.LeaderMessage{Heartbeat: beat}); err != nil {
			return false, fmt.Errorf("send heartbeat: %w", err)
		}
	}
	replies := s.waiting()
	if len(replies) == 0 {
		return false, nil
	}
	if err := link.Send(session.LeaderMessage{Replies: replies}); err != nil {
		return false, fmt.Errorf("send replies: %w", err)
	}
	return true, nil
}

// heartbeat returns the heartbeat to send on s now; nil for none.
func (t *Tracker) heartbeat(s *stream) *session.Heartbeat {
	attachment := t.view.Attachment()
	if !t.term.current() {
		return nil // entries that a deposed leader applies as a follower do not count (M3 served in the leader's term)
	}
	beat := t.heartbeats.send(s)
	if beat == nil {
		return nil
	}
	beat.Committed = t.view.CommitIndex()
	beat.Attachment, beat.RejectedTouches = attachment, s.named(beat.Processed)
	return beat
}

// read receives and processes the learner's messages.
func (t *Tracker) read(ctx context.Context, s *stream, link Link) error {
	for {
		m, err := link.Recv()
		switch {
		case err != nil:
			return fmt.Errorf("receive: %w", err)
		case s.stopped():
			return nil
		case m.Answer != nil:
			if err := t.receiveAnswer(s, m.Answer); err != nil {
				return err
			}
		case len(m.Requests) > 0:
			t.requests.serve(ctx, s, m.Requests)
		default:
			return fmt.Errorf("receive: message with neither answer nor requests: %w", ErrProtocol)
		}
	}
}

// receiveAnswer processes one chunk of an answer. The goroutine of [Tracker.Run] then checks rounds and expiry.
func (t *Tracker) receiveAnswer(s *stream, a *session.Answer) error {
	now, sent, due := t.heartbeats.awaits(s, a.Round)
	if !due {
		return fmt.Errorf("receive: unexpected answer to round %d: %w", a.Round, ErrProtocol)
	}
	refused, err := t.ingest(s.hello.Node, a, now)
	if err == nil {
		err = s.refuse(a.Round, refused)
	}
	if err != nil || !a.Last {
		return err
	}
	if s.hello.Node == t.cfg.Node && a.Term > t.term.number {
		t.term.end(fmt.Errorf("lead term %d: this node answers from term %d: %w", t.term.number, a.Term, ErrTermOver))
		return ErrTermOver
	}
	if t.cfg.OnAnswer != nil {
		t.cfg.OnAnswer(s.hello.Node, sent)
	}
	t.heartbeats.recordAnswer(s, a, now)
	return nil
}

// ingest records the touches of a chunk that arrived at now (T5 a touch moves the deadline), and returns the sessions
// whose touches were rejected (S1 confirmed touches).
func (t *Tracker) ingest(from session.Node, a *session.Answer, now time.Duration) ([]session.ID, error) {
	in := intake{registry: t.registry, state: t.view, from: from, attachment: a.Attachment, now: now}
	err := in.all(session.Touches{Bytes: a.Touches})
	for _, touch := range in.missing {
		in.lookUp(touch)
	}
	t.stats.accepted.Add(in.accepted)
	t.stats.rejected.Add(uint64(len(in.refused)))
	if err != nil {
		return nil, fmt.Errorf("answer of node %d: %w", from, err)
	}
	return in.refused, nil
}
