package leader

import (
	"context"
	"fmt"
	"time"

	"holdfast/session"
)

// Numbers of sessions that are touched, or filled in, under a shard's lock before it is given to others.
const (
	run     = 256
	maxHold = 1024
)

// ingest takes the touches of a chunk that arrived at now (T5), and returns the sessions that were not taken (S1).
func (t *Tracker) ingest(from session.Node, a *session.Answer, now time.Duration) ([]session.ID, error) {
	in := intake{t: t, from: from, attachment: a.Attachment, now: now}
	err := in.all(session.Touches{Bytes: a.Touches})
	for _, touch := range in.missing {
		in.lookUp(touch)
	}
	t.stats.taken.Add(in.taken)
	t.stats.notTaken.Add(uint64(len(in.refused)))
	if err != nil {
		return nil, fmt.Errorf("answer of node %d: %w", from, err)
	}
	return in.refused, nil
}

// intake is the taking of one chunk.
type intake struct {
	t          *Tracker
	from       session.Node
	attachment uint64
	now        time.Duration

	taken   uint64
	refused []session.ID
	// missing are touches of sessions that may not be filled in yet.
	missing []session.Touch
}

// all takes touches in runs of one shard.
func (in *intake) all(r session.Touches) error {
	var touches [run]session.Touch
	var items [run]*item
	touch, ok, err := r.Next()
	for ok && err == nil {
		s, n := in.t.shard(touch.ID), 0
		for ; ok && err == nil && n < run && in.t.shard(touch.ID) == s; n++ {
			touches[n] = touch
			touch, ok, err = r.Next()
		}
		s.mu.Lock()
		s.queue.FindAll(touches[:n], items[:n])
		for i, it := range items[:n] {
			in.take(s, it, touches[i])
		}
		s.mu.Unlock()
	}
	return err
}

// take takes one touch, or notes that it was not. Called with the shard's mu held.
func (in *intake) take(s *shard, it *item, touch session.Touch) {
	switch {
	case it == nil && s.filling():
		in.missing = append(in.missing, touch)
	case it == nil || !in.touch(it, touch.Age):
		in.refused = append(in.refused, touch.ID)
	default:
		in.taken++
	}
}

// touch moves the deadline if the session is owned by the node that answers, under an attachment that the node had
// applied: a touch of a former attachment may be of a time before other moves (T5). A closing session's deadline moves,
// but the touch is not taken (E4).
func (in *intake) touch(it *item, age time.Duration) bool {
	if it.Value.owner != in.from || it.Value.attachment > in.attachment {
		return false
	}
	it.Touch(in.now - age + it.Value.extension())
	return !it.Marked()
}

// lookUp takes a touch of a session that is not filled in yet, if it exists.
func (in *intake) lookUp(touch session.Touch) {
	s := in.t.shard(touch.ID)
	one, exists := in.t.view.Session(touch.ID)
	if exists {
		in.t.timed(one.Timeout)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var it *item
	if exists {
		it = s.adopt(touch.ID, hold(&one))
	}
	if it == nil || !in.touch(it, touch.Age) {
		in.refused = append(in.refused, touch.ID)
		return
	}
	in.taken++
}

// Applied takes what an entry changed. It implements the state machine's observer: it is called on the goroutine that
// applies, in the order of the log, and returns soon.
func (t *Tracker) Applied(index, _ uint64, changes []session.Change) {
	if len(changes) == 0 {
		return
	}
	now := t.now()
	opened := false
	for i := range changes {
		c := &changes[i]
		if c.Kind != session.Ended {
			t.timed(c.Session.Timeout)
		}
		s := t.shard(c.Session.ID)
		s.mu.Lock()
		if c.Kind == session.Ended {
			s.remove(c.Session.ID)
		} else {
			s.applied(&c.Session, now)
		}
		s.mu.Unlock()
		opened = opened || c.Kind == session.Opened
	}
	if opened {
		t.opens.note(index, now)
	}
}

// fill files the sessions of the frozen copy while the tracker serves. Until it is done, who asks for a session that is
// not here looks it up.
func (t *Tracker) fill(ctx context.Context, frozen Sessions) {
	batch := make([]session.Session, 0, maxHold)
	var in *shard
	flush := func() {
		if len(batch) == 0 {
			return
		}
		in.mu.Lock()
		for i := range batch {
			in.adopt(batch[i].ID, hold(&batch[i]))
		}
		in.mu.Unlock()
		t.stats.filled.Add(uint64(len(batch)))
		batch = batch[:0]
	}
	frozen.Ascend(0, func(one session.Session) bool {
		if s := t.shard(one.ID); s != in || len(batch) == maxHold {
			flush()
			in = s
		}
		t.timed(one.Timeout)
		batch = append(batch, one)
		return !t.isOver() && ctx.Err() == nil
	})
	flush()
	if t.isOver() || ctx.Err() != nil {
		return
	}
	for i := range t.shards {
		s := &t.shards[i]
		s.mu.Lock()
		s.ended = nil
		s.mu.Unlock()
	}
	t.stats.fillTime.Store(int64(max(t.mono(), 1)))
	t.wake()
	t.logger.Info("queue filled", "sessions", t.stats.filled.Load(), "took", t.mono(), "term", t.cfg.Term)
}
