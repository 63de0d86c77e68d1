package leader

import (
	"time"

	"holdfast/session"
)

// run is the largest number of sessions that are touched before a shard's lock is released for others.
const run = 256

// intake records the touches of one chunk.
type intake struct {
	registry   *registry
	state      State
	from       session.Node
	attachment uint64
	now        time.Duration

	accepted uint64
	refused  []session.ID
	// missing are touches of sessions that may not be filed yet.
	missing []session.Touch
}

// all records touches in runs of one shard.
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
			in.record(s, it, touches[i])
		}
		s.mu.Unlock()
	}
	return err
}

// record records one touch as accepted or rejected. Called with the shard's mu held.
func (in *intake) record(s *shard, it *item, touch session.Touch) {
	switch {
	case it == nil && s.filling():
		in.missing = append(in.missing, touch)
	case it == nil || !in.touch(it, touch.Age):
		in.refused = append(in.refused, touch.ID)
	default:
		in.accepted++
	}
}

// touch moves the deadline if the answering node owns the session under an attachment that the node had applied: a
// touch under a former attachment may be older than later moves (T5 a touch moves the deadline). The deadline of a
// closing session moves too, but its touch is rejected (E4 closing mark).
func (in *intake) touch(it *item, age time.Duration) bool {
	if it.Value.owner != in.from || it.Value.attachment > in.attachment {
		return false
	}
	it.Touch(in.now - age + it.Value.extension())
	return !it.Marked()
}

// lookUp records a touch of a session that is not filed yet, if the session exists.
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
	in.accepted++
}
