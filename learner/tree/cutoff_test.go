package tree_test

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/watch"
)

// stands has the node of w stand, or not because of why.
func (w *world) stands(why error) {
	w.node.mu.Lock()
	defer w.node.mu.Unlock()
	w.node.standing = why
}

// G6: a watch of sessions ends at a node that is cut off, which may miss all later changes: its watcher can continue
// elsewhere. It outlasts an election, and one whose watcher allows old answers stays.
func TestG6WatchesOfSessionsLeaveANodeThatIsCutOff(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		ended := make(chan error, 2)
		told := w.watchSessions(w.Context(), session.SessionWatch{}, func(err error) { ended <- err })
		stale := session.SessionWatch{Options: tree.ReadOptions{AllowStale: true}}
		toldOld := w.watchSessions(w.Context(), stale, func(err error) { ended <- err })
		told()
		toldOld()
		w.stands(session.ErrNoLeader)
		time.Sleep(watch.QuietAfter + 1) // one look
		w.stands(nil)
		time.Sleep(2 * watch.QuietAfter)
		if len(ended) > 0 {
			w.Fatalf("ended with %v after an election", <-ended)
		}
		w.stands(session.ErrNoLeader)
		time.Sleep(2*watch.QuietAfter + 1)
		if len(ended) != 1 {
			w.Fatalf("%d of two watches ended at a node that is cut off, want one", len(ended))
		}
		if err := <-ended; !errors.Is(err, session.ErrNoLeader) {
			w.Errorf("ended with %v", err)
		}
		w.opens(one)
		if got := toldOld(); len(got) == 0 {
			w.Error("the watch that takes old answers hears nothing")
		}
	})
}
