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

// errFull is the error of a link to which nothing can be sent.
var errFull = errors.New("full")

// brokenLink is a link to which nothing can be sent.
type brokenLink struct{ sink }

func (brokenLink) Send(session.LearnerMessage) error { return errFull }

// E4: after a failed Send, no request is taken from the queue.
func TestE4NoRequestIsTakenAfterAFailedSend(t *testing.T) {
	l := &sharedLink{Link: brokenLink{}, turn: make(chan struct{}, 1)}
	if err := l.Send(session.LearnerMessage{}); !errors.Is(err, errFull) {
		t.Errorf("the first send: %v, want %v", err, errFull)
	}
	err := l.sendNext(func() (session.LearnerMessage, bool) {
		t.Error("a message was taken")
		return session.LearnerMessage{}, true
	})
	if !errors.Is(err, errFull) {
		t.Errorf("the next send: %v, want %v", err, errFull)
	}
}

// sendingAChunk returns a leader to which the node sends its first answer, four chunks. The leader receives a message
// only when the test does, and the node is sending the first chunk.
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
