package session

import (
	"errors"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// A resume is granted after the client has released the session. The node serves it, so touches have to name the
// sessions that the client holds.
func TestResumeOfAReleasedSessionMakesTouchesNameIDs(t *testing.T) {
	s := newStage(t)
	delete(s.sessions, s.h.id)
	s.resumed(s.c, &window.Request{}, &resumeBody{s: s.Manager, h: s.h}, &holdfastv1.Resumed{})
	if !s.c.Touches.Named {
		t.Error("touches without ids would keep the session alive")
	}
}

// A local session and a session that a caller resumes each need a separate answer, so they share no message.
func TestOnlyGlobalSessionsThatAreHeldAreResumedTogether(t *testing.T) {
	for name, want := range map[string]bool{"held": true, "local": false, "joining": false} {
		s := newStage(t)
		s.h.token.Local = name == "local"
		if name == "joining" {
			s.h.callers.joining = new(Call)
		}
		if b := (&resumeBody{s: s.Manager, h: s.h}); b.Batches() != want {
			t.Errorf("%s: resumed with others: %v, want %v", name, !want, want)
		}
	}
}

// When the next node refuses a session, the session can be resumed where it was.
func TestRefusedCandidateLeavesNoResumeBehind(t *testing.T) {
	s := newStage(t)
	next := s.candidate(errTest)
	r, b := s.resumeOn(next)
	s.h.attachment.on = nil
	s.resumeRefused(next, r, b, session.ErrNoLeader)
	if s.conns.Candidate() != nil || len(queued(s.c)) != 1 || s.h.attachment.resuming != queued(s.c)[0] {
		t.Errorf("candidate %v, queue %v, want the session resumed on the current connection", s.conns.Candidate(),
			queued(s.c))
	}
}

// A take-over that is given up closes nothing: its token may name the attachment of the process that has the session.
func TestM1ATakeOverThatIsGivenUpClosesNothing(t *testing.T) {
	for contested, want := range []int{1, 0} {
		s := newStage(t)
		s.h.attachment.on, s.h.attachment.contested = nil, contested
		s.h.callers.joining = &Call{Want: Want{Spec: session.Spec{Timeout: 12 * time.Second}}} // an open that was answered
		s.abandon(s.h, session.ErrClosed)
		if got := len(queued(s.c)); got != want {
			t.Errorf("after %d refusals: %d closes, want %d", contested, got, want)
		}
	}
}

// A close names an attachment. The refusal of a former attachment does not concern the present one: it neither ends the
// session nor resumes it, since the next close would be refused the same way.
func TestRefusedCloseOfAFormerAttachmentIsIgnored(t *testing.T) {
	s := newStage(t)
	s.closing()
	since, h := s.h.attachment.since, s.h
	s.closeRefused(s.c, &window.Request{Seq: since, Body: &closeBody{h}}, h, session.ErrMoved)
	if !s.Holds(h) || h.Conn() != s.c || h.Resuming() {
		t.Errorf("held %v, served %v, resuming %v; want held and served as before", s.Holds(h), h.Conn() == s.c,
			h.Resuming())
	}
	s.closeRefused(s.c, &window.Request{Seq: since + 1, Body: &closeBody{h}}, h,
		session.MovedTo(session.Session{Attachment: 10, Instance: s.cfg.Instance + 1}))
	if !errors.Is(h.err, session.ErrMoved) {
		t.Errorf("after the close of the present attachment was refused: %v, want that the session has moved", h.err)
	}
}

// A lagging node refuses a resume that may have taken effect. The Moved that follows names the instance that resumed
// the session (M1 a resume is a move).
func TestM1OwnResumeThatTookEffectLate(t *testing.T) {
	for _, tt := range []struct {
		name  string
		by    func(own uint64) uint64
		holds bool
	}{
		{"by this client's own", func(own uint64) uint64 { return own }, true},
		{"by another's", func(own uint64) uint64 { return own + 1 }, false},
		{"by nobody knows whose", func(uint64) uint64 { return 0 }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStage(t)
			next := s.candidate(errTest)
			r, b := s.resumeOn(next)
			s.resumeRefused(next, r, b, session.ErrLagging)
			s.movedAll(s.c, &holdfastv1.Moved{
				Ids: []uint64{uint64(s.h.id)}, Instances: []uint64{tt.by(s.cfg.Instance)},
			})
			if holds := s.Holds(s.h) && s.h.err == nil; holds != tt.holds || s.h.Resuming() != tt.holds {
				t.Errorf("held %v, resumed again %v, ended with %v; want %v", holds, s.h.Resuming(), s.h.err, tt.holds)
			}
		})
	}
}

// moving returns a manager that leaves a node with its session, which is being closed there, and whose callers want to
// know when the answer to a request in flight cannot come any more.
func moving(t *testing.T) (s *stage, next *conn.Conn, closing *Call) {
	t.Helper()
	s = newStage(t)
	s.cfg.FailInFlight = true
	closing = s.closing()
	s.conns.Pump(s.c)
	return s, s.candidate(conn.ErrSilent), closing
}

// The close has taken effect at the node that is left, and its answer is lost: the session ends once.
func TestASessionWhoseCloseWasInFlightEndsOnce(t *testing.T) {
	for _, refusal := range []error{&session.ExpiredError{ID: 1}, session.ErrBadCredential} {
		s, next, call := moving(t)
		r, b := s.resumeOn(next)
		s.resumeRefused(next, r, b, refusal)
		if ended, events := len(s.Effects.Ended), len(s.Effects.Events); ended != 1 || events != 1 {
			t.Errorf("%v: ended %d times with %d events, want once", refusal, ended, events)
		}
		if a := s.answered(call); a == nil || !errors.Is(a.Err, session.ErrOutcomeUnknown) {
			t.Errorf("%v: the caller gets %+v, want that the outcome is unknown", refusal, a)
		}
	}
}

// The next node serves a session that its caller has given up with the former one: touches there leave it out.
func TestASessionWhoseCloseWasInFlightIsNotServedAgain(t *testing.T) {
	s, next, _ := moving(t)
	s.resumedAt(next, s.h, session.Session{ID: 1, Owner: 2, Attachment: 10}, 9*time.Second)
	if s.h.Attached() || len(s.Effects.Granted) != 0 || !s.conns.Current().Touches.Named {
		t.Errorf("on %v, %d grants: want a session that is over", s.h.Conn(), len(s.Effects.Granted))
	}
}

// An open that is in flight at two nodes, and whose caller got an unknown outcome, leaves no session that the client
// keeps alive without a caller.
func TestAnOpenInFlightAtTwoNodesIsHeldOnce(t *testing.T) {
	s := newStage(t)
	s.cfg.FailInFlight = true
	call := &Call{Want: Want{Spec: session.Spec{Timeout: testTimeout}}}
	s.Open(call)
	s.conns.Pump(s.c)
	next := s.candidate(conn.ErrSilent)
	r := s.queueOpenOn(next, call)
	s.conns.Pump(next)
	s.answerOpen(next, r, session.Session{ID: 2, Owner: 2, Attachment: 10}, 9*time.Second)
	if a := s.answered(call); a == nil || !errors.Is(a.Err, session.ErrOutcomeUnknown) {
		t.Errorf("the caller gets %+v, want that the outcome is unknown", a)
	}
	if s.sessions[2] != nil || !s.conns.Current().Touches.Named {
		t.Error("the client holds a session that nobody has")
	}
}

// L6: a node that does not know a local session says nothing of the global session that it has become.
func TestL6AnUnknownLocalSessionDoesNotEndTheGlobalOne(t *testing.T) {
	for name, served := range map[string]bool{"served where it was": true, "served nowhere": false} {
		t.Run(name, func(t *testing.T) {
			s := newStage(t)
			s.h.token.Local = true
			next := s.candidate(errTest)
			r, b := s.resumeOn(next)
			s.h.token = session.Token{ID: 1, Attachment: 10} // the former node has reported that the session is global
			if !served {
				s.conns.Lost(s.c, errTest)
			}
			s.resumeRefused(next, r, b, &session.ExpiredError{ID: 1, LocalTo: 1})
			again := s.h.attachment.resuming
			if err := s.h.err; err != nil || again == nil || again == r || !s.h.resumingOn(next) {
				t.Errorf("the session ended with %v; asked for again: %v", err, again != nil && again != r)
			}
		})
	}
}

// A grant of the local session that arrives after the session has become global does not make it local again.
func TestALateGrantOfTheLocalSession(t *testing.T) {
	s := newStage(t)
	s.h.token.Local = true
	next := s.candidate(errTest)
	s.resumeOn(next)
	global := session.Token{ID: 1, Attachment: 10}
	s.h.token = global
	s.resumedAt(next, s.h, session.Session{ID: 1, Owner: 1, Attachment: 2, Local: true}, 9*time.Second)
	if s.h.Conn() != next || s.h.token != global {
		t.Errorf("the token is %+v, want %+v; served by the new connection: %v", s.h.token, global,
			s.h.Conn() == next)
	}
}

// Each resume carries the index that the client has seen (N4 seen index).
func TestN4ResumesCarryTheSeenIndex(t *testing.T) {
	s := newStage(t)
	seen := func() uint64 {
		return (&resumeBody{s: s.Manager, h: s.h}).Message(1).GetResume().GetSeenIndex()
	}
	s.conns.RecordKnown(conn.Known{Seen: 7})
	s.conns.RecordKnown(conn.Known{Seen: 5})
	if got := seen(); got != 7 {
		t.Errorf("resume says %d was seen, want 7", got)
	}
	s.conns.Received(s.c, wire.StateProto(session.NodeState{Node: 1, Mode: session.ModeReadWrite, Index: 9}))
	if got := seen(); got != 9 {
		t.Errorf("resume says %d was seen, want 9", got)
	}
}
