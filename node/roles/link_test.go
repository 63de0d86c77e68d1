package roles

import (
	"testing"

	"holdfast/learner"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// told is a stream of a leader.
type told struct {
	learner.ForwardingLink
	messages []session.LeaderMessage
}

func (l *told) Recv() (session.LeaderMessage, error) {
	m := l.messages[0]
	l.messages = l.messages[1:]
	return m, nil
}

// What another node says at the leader's address is no word of the leader's directory.
func TestJ6OnlyTheLeaderTellsOfItsDirectory(t *testing.T) {
	for leader, want := range map[session.Node]raftnet.Position{2: {Term: 7, Index: 101}, 3: {}} {
		var saw raftnet.Position
		of := &told{messages: []session.LeaderMessage{
			{Welcome: &session.Welcome{Term: 7, Leader: leader}}, {Heartbeat: &session.Heartbeat{Committed: 101}},
		}}
		l := &observedLink{leader: 2, record: func(at raftnet.Position) { saw = at }, ForwardingLink: of}
		for range 2 {
			if _, err := l.Recv(); err != nil {
				t.Fatal(err)
			}
		}
		if saw != want {
			t.Errorf("of what node %d says, %v is noted, want %v", leader, saw, want)
		}
	}
}
