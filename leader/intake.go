package leader

import (
	"time"

	"holdfast/session"
)

// run is the number of sessions that are touched before a shard's lock is released for others.
const run = 256

// intake takes the touches of one chunk.
type intake struct {
	registry   *registry
	state      State
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
		s, n := in.registry.shard(touch.ID), 0
		for ; ok && err == nil && n < run && in.registry.shard(touch.ID) == s; n++ {
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

// take takes one touch, or notes that it was not taken. Called with the shard's mu held.
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

// touch moves the deadline if the answering node owns the session, under an attachment that the node had applied: a
// touch of a former attachment may be older than other moves (T5). The deadline of a closing session moves as well, but
// its touch is not taken (E4).
func (in *intake) touch(it *item, age time.Duration) bool {
	if it.Value.owner != in.from || it.Value.attachment > in.attachment {
		return false
	}
	it.Touch(in.now - age + it.Value.extension())
	return !it.Marked()
}

// lookUp takes a touch of a session that is not filled in yet, if the session exists.
func (in *intake) lookUp(touch session.Touch) {
	s := in.registry.shard(touch.ID)
	one, exists := in.state.Session(touch.ID)
	if exists {
		in.registry.note(one.Timeout)
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
