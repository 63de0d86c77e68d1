package fsm

import (
	"testing"
	"time"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/tree/form"
)

// TestH2: the entry of a session that expires lingers without an owner, from the log clock of the entry of the log that
// ends the session, and nobody can end that early but by deleting it. A close takes such an entry away at once.
func TestH2(t *testing.T) {
	const delay = 10 * time.Second
	r := newTree(t)
	expires, closes := r.open(t, 1, 7), r.open(t, 2, 8)
	lock := func(path string) tree.Create {
		return tree.Create{Path: path, Kind: tree.Ephemeral, LockDelay: delay, Data: []byte("holder")}
	}
	for _, w := range []tree.NumberedWrite{
		numbered(expires, 1, lock("/expired"), lock("/broken")), numbered(closes, 1, lock("/closed")),
	} {
		if result, err := r.write(t, w); err != nil || result.Outcome.Refused != nil {
			t.Fatalf("%+v, %v", result, err)
		}
	}
	closed := closing(1, closes)
	closed.Cause = session.CauseClosed
	r.clock = time.Minute // the newest log clock that the state knows is a minute old
	r.at(t, closing(1, expires), closed)
	if r.has("/closed") {
		t.Error("the entry of a session that was closed lingers")
	}
	stat, ok := r.now.Root.Stat("/expired")
	if !ok || stat.Kind != tree.InLockDelay || stat.Owner != 0 || stat.Due != time.Minute+delay {
		t.Fatalf("the entry of a session that has expired: %v, %+v", ok, stat)
	}
	reap := func() {
		encoded, err := form.AppendReap(nil, r.now.Root.Due(time.Hour, 10))
		if err != nil {
			t.Fatal(err)
		}
		r.at(t, session.TreeCommand{Encoded: encoded, Weight: 1})
	}
	if r.clock += delay - time.Millisecond; len(r.now.Root.Due(r.clock, 10)) != 0 {
		t.Error("due early")
	}
	if reap(); !r.has("/expired") || !r.has("/broken") {
		t.Error("the lock-delay ends early")
	}
	breaker := r.open(t, 3, 9)
	if result, err := r.write(t, numbered(breaker, 1, tree.Delete{Path: "/broken", Version: tree.Any})); err != nil ||
		result.Outcome.Refused != nil || r.has("/broken") {
		t.Errorf("an entry that lingers is deleted: %+v, %v", result, err)
	}
	r.clock += time.Millisecond
	if reap(); r.has("/expired") {
		t.Error("the lock-delay does not end")
	}
}
