package fsm

import (
	"testing"

	"holdfast/session"
)

// TestS2RepeatSaysSo holds that an open or move which an earlier command had done is told from the first: it moves no
// deadline, so it confirms no touch.
func TestS2RepeatSaysSo(t *testing.T) {
	r := newReplica()
	results := r.apply(t, 1, opening(1), opening(1), opening(2))
	move := session.MoveSession{ID: results[0].Session.ID, NewOwner: 2, Instance: 5, Attempt: 1}
	results = append(results, r.apply(t, 1, move, move)...)
	again := move
	again.NewOwner = 3
	results = append(results, r.apply(t, 1, again)...)
	for i, want := range []bool{false, true, false, false, true, false} {
		if results[i].Err != nil || results[i].Repeated != want {
			t.Errorf("result %d: repeated %v, %v; want %v", i, results[i].Repeated, results[i].Err, want)
		}
	}
}
