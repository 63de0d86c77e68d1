package learner

import (
	"testing"
	"testing/synctest"

	"holdfast/session"
	"holdfast/test/bubble"
)

// B3: a request waits for one chunk of a large answer, and not for its other chunks. After a change of leaders, the
// first answer of a node has all its sessions.
func TestB3RequestsGoBetweenTheChunksOfAnAnswer(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		for i := range 3*chunk + 1 {
			w.server.table.attach(session.Session{ID: session.ID(i + 10), Spec: session.Spec{Timeout: timeout}}, nil,
				mark{tag: w.server.table.nextTag()}, 0)
		}
		l := newFakeLeader(t)
		l.toLeader = make(chan session.LearnerMessage) // a chunk takes as long as the leader does
		w.followed(l)
		l.toRelay <- session.LeaderMessage{Heartbeat: &session.Heartbeat{Round: 1, Interval: interval}}
		synctest.Wait() // the first chunk is being sent
		w.opening()
		synctest.Wait()
		for i, isRequest := range []bool{false, true, false, false, false} {
			if m := <-l.toLeader; (len(m.Requests) > 0) != isRequest || isRequest == (m.Answer != nil) {
				t.Errorf("message %d: %d requests, answer %t", i, len(m.Requests), m.Answer != nil)
			} else if m.Answer != nil && m.Answer.Last != (i == 4) {
				t.Errorf("message %d: last chunk %t", i, m.Answer.Last)
			}
			synctest.Wait()
		}
	})
}
