package learner

import (
	"errors"
	"testing"
	"testing/synctest"

	"holdfast/session"
	"holdfast/test/bubble"
)

// B3: requests wait for one chunk of a large answer, and not for its other chunks. After a change of leaders, the first
// answer of a node has all its sessions.
func TestB3RequestsGoBetweenTheChunksOfAnAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.sendingAChunk()
		for range 2 { // one after the other
			w.opening()
			synctest.Wait()
		}
		for i, requests := range []int{0, 2, 0, 0, 0} {
			if m := <-l.toLeader; len(m.Requests) != requests || (requests > 0) == (m.Answer != nil) {
				t.Errorf("message %d: %d requests, answer %t", i, len(m.Requests), m.Answer != nil)
			} else if m.Answer != nil && m.Answer.Last != (i == 4) {
				t.Errorf("message %d: last chunk %t", i, m.Answer.Last)
			}
			synctest.Wait()
		}
	})
}

// E4: a request that waits for a chunk was never sent when the link ends.
func TestE4ARequestBehindAChunkWasNeverSent(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.sendingAChunk()
		opening := w.opening()
		synctest.Wait()
		l.end()
		if got := <-opening; !errors.Is(got.err, session.ErrNoLeader) {
			t.Errorf("%v, want %v", got.err, session.ErrNoLeader)
		}
	})
}

// sendingAChunk returns a leader to which the node sends its first answer: four chunks, each of which takes as long as
// the leader does. Only the first one is on its way.
func (w *world) sendingAChunk() *fakeLeader {
	w.t.Helper()
	for i := range 3*chunk + 1 {
		w.server.table.attach(session.Session{ID: session.ID(i + 10), Spec: session.Spec{Timeout: timeout}}, nil,
			mark{tag: w.server.table.nextTag()}, 0)
	}
	l := newFakeLeader(w.t)
	l.toLeader = make(chan session.LearnerMessage)
	w.followed(l)
	l.toRelay <- session.LeaderMessage{Heartbeat: &session.Heartbeat{Round: 1, Interval: interval}}
	synctest.Wait()
	return l
}
