package local

import (
	"context"
	"errors"
	"testing"
	"time"

	"holdfast/session"
)

// L8: when the node cannot wait for the entry, the outcome is unknown, and the session stays as it is.
func TestL8AnEndThatIsNotAppliedHere(t *testing.T) {
	s, c, u := upgrading(t)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.endUpgraded(over, u, 100); !errors.Is(err, session.ErrOutcomeUnknown) || len(c.gone) > 0 ||
		!s.table.Has(firstLocal) {
		t.Errorf("%v, told %v; want %v, and the session unchanged", err, c.gone, session.ErrOutcomeUnknown)
	}
}

// L8: a resume does not wait again and again for an upgrade that is over and has left the session.
func TestL8AResumeDoesNotSpin(t *testing.T) {
	s, c, u := upgrading(t)
	u.finish(nil)
	token := session.Token{ID: firstLocal, Attachment: firstAttachment, Local: true}
	_, here, err := s.Resume(t.Context(), session.ResumeRequest{Token: token, Instance: 1, Attempt: 1}, c)
	if !here || !errors.Is(err, session.ErrOutcomeUnknown) {
		t.Errorf("resume: %v, %v, want %v", here, err, session.ErrOutcomeUnknown)
	}
}

// L4, L8: while an upgrade is in flight, promises count from its beginning, and there are none after a suspension
// since.
func TestL8PromisesDuringAnUpgrade(t *testing.T) {
	suspended := false
	table := NewTable(TableConfig{
		Node: 1, Interval: width, SuspendedSince: func(time.Duration) bool { return suspended },
		Capacity: session.Capacity{MaxSessions: 10, MaxBytes: 1 << 30},
	})
	table.AddIDs(firstLocal, 2)
	all := map[session.ID]*Session{}
	for request := range byte(2) {
		s, err := table.Open(session.OpenRequest{
			RequestID: session.RequestID{request},
			Spec:      session.Spec{Timeout: timeout},
		}, &conn{}, 0)
		if err != nil {
			t.Fatal(err)
		}
		all[s.facts.ID] = s
	}
	touchAll := func(now, want time.Duration) {
		t.Helper()
		if got := table.TouchAll(all, now); got.Sessions != 2 || got.SafeFor != want || len(got.Failures) > 0 {
			t.Errorf("touched %+v at %v, want 2 sessions with a promise of %v", got, now, want)
		}
	}
	touchAll(time.Second, session.SafeFor(timeout, 0))
	if _, _, err := table.beginUpgrade(tokenOf(all[firstLocal]), 2*time.Second, 0); err != nil {
		t.Fatal(err)
	}
	touchAll(5*time.Second, session.SafeFor(timeout, 3*time.Second))
	suspended = true
	touchAll(5*time.Second, -1)
	if safe, err := table.Touch(all[firstLocal+1], 5*time.Second); safe != session.SafeFor(timeout, 0) || err != nil {
		t.Errorf("the session without an upgrade: %v, %v", safe, err)
	}
	if safe, err := table.Promised(all[firstLocal], 5*time.Second); safe != -1 || err != nil {
		t.Errorf("the session with an upgrade: %v, %v, want no promise", safe, err)
	}
}
