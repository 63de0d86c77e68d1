package core

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// mover is a client whose node was lost, at the moment when another node is there. The test plays that node.
type mover struct {
	t        *testing.T
	core     *Core
	now      time.Time
	conn     *Conn
	sessions []*Session
}

// newMover returns a client with sessions 1 to n, whose connection to the next node is just up.
func newMover(t *testing.T, n int) *mover {
	t.Helper()
	m := &mover{t: t, core: newTestCore(), now: time.Now()}
	for i := range n {
		h := m.core.hold(new(Call), session.Token{ID: session.ID(i + 1), Attachment: uint64(i + 1)})
		h.joining, h.state, h.timeout = nil, StateConnected, 10*time.Second
		h.until = m.now.Add(9 * time.Second)
		m.sessions = append(m.sessions, h)
	}
	m.conn = m.turn(nil)[0].Conn
	return m
}

func (m *mover) turn(in ...Input) []Action {
	m.t.Helper()
	return m.core.Turn(Moment{Now: m.now}, in...).Actions
}

// state is what a node that takes batches says of itself.
func (m *mover) state(batch uint32) *holdfastv1.NodeState {
	s := wire.StateProto(session.NodeState{Node: 2, Mode: session.ModeReadWrite, Index: 10})
	s.MaxBatch = batch
	return s
}

// says has the node say something.
func (m *mover) says(answer *holdfastv1.ServerMessage, batch uint32) []Action {
	m.t.Helper()
	answer.State = m.state(batch)
	return m.turn(Received{m.conn, answer})
}

func resumedProto(seq uint64, t *holdfastv1.Token) *holdfastv1.ServerMessage {
	s := session.Session{
		ID: session.ID(t.GetSessionId()), Timeout: 10 * time.Second, Owner: 2, Attachment: 1000 + t.GetSessionId(),
	}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
		Seq: seq, Session: wire.SessionProto(s), SafeFor: wire.PromiseProto(8 * time.Second),
		Token: wire.TokenProto(session.Token{ID: s.ID, Attachment: s.Attachment}),
	}}}
}

// A client that lost its node resumes one session to learn what the next node takes, and then all others with a few
// messages, each session with an attempt of its own.
func TestAClientResumesAllItsSessionsWithAFewMessages(t *testing.T) {
	for batch, want := range map[uint32][]int{1024: {1024, 976}, 100_000: {1024, 976}, 250: {250, 250}} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			m := newMover(t, 2001)
			first := m.turn(Up{m.conn})
			if len(first) != 1 || first[0].Message.GetResume() == nil {
				t.Fatalf("%d messages at first, want one resume", len(first))
			}
			resume := first[0].Message.GetResume()
			attempts := map[uint64]bool{resume.GetAttempt(): true}
			var sizes []int
			singles := 0
			for _, a := range m.says(resumedProto(resume.GetSeq(), resume.GetToken()), batch) {
				many := a.Message.GetResumeSessions()
				if one := a.Message.GetResume(); one != nil {
					singles++
					attempts[one.GetAttempt()] = true
					continue
				}
				sizes = append(sizes, len(many.GetIds()))
				for i, id := range many.GetIds() {
					attempts[many.GetAttempts()[i]] = true
					if many.GetAttachments()[i] != id || many.GetInstance() != 77 || many.GetSeenIndex() != 10 {
						t.Fatalf("session %d is resumed with attachment %d", id, many.GetAttachments()[i])
					}
				}
			}
			all := 1 + singles
			for _, n := range sizes {
				all += n
			}
			if fmt.Sprint(sizes) != fmt.Sprint(want) || singles != 0 {
				t.Errorf("%d resumes, and messages for %v, want %v", singles, sizes, want)
			}
			if len(attempts) != all {
				t.Errorf("%d attempts for %d resumes", len(attempts), all)
			}
		})
	}
}

// The outcome of each session is what it would be after a resume of its own, whatever the outcome is.
func TestM1EachOfManyIsResumedAsByItself(t *testing.T) {
	refusals := []error{
		nil, nil, &session.ExpiredError{ID: 1}, session.ErrBadCredential, &session.MovedError{Instance: 78, Attachment: 3},
		&session.MovedError{Instance: 77, Attachment: 3}, session.ErrClosing, session.ErrLagging, session.ErrNoLeader,
		session.ErrReadOnly, session.ErrStopping, session.ErrOutcomeUnknown, &session.LimitError{Name: "sessions"},
		&session.LimitError{Name: "arrivals", RetryAfter: time.Second}, &session.FieldError{Field: "x"},
		&session.LimitError{Name: "arrivals", RetryAfter: 30 * time.Second},
	}
	for _, refusal := range refusals {
		for _, granted := range []bool{true, false} {
			t.Run(fmt.Sprint(refusal, granted), func(t *testing.T) {
				outcome := func(id uint64) error {
					if granted && id%2 == 0 {
						return nil
					}
					return refusal
				}
				one, many := newMover(t, 12), newMover(t, 12)
				one.judgeSingly(outcome)
				many.judgeTogether(outcome)
				for i, h := range one.sessions {
					if got, want := many.told(many.sessions[i]), one.told(h); got != want {
						t.Errorf("session %d is %s, by itself %s", h.id, got, want)
					}
				}
				if got, want := many.where(), one.where(); got != want {
					t.Errorf("the client is %s, with single resumes %s", got, want)
				}
			})
		}
	}
}

// judgeSingly answers single resumes: first those that are granted.
func (m *mover) judgeSingly(outcome func(id uint64) error) {
	var resumes []*holdfastv1.Resume
	for _, a := range m.turn(Up{m.conn}) {
		resumes = append(resumes, a.Message.GetResume())
	}
	m.now = m.now.Add(time.Millisecond)
	for _, granted := range []bool{true, false} {
		for id := uint64(1); id <= uint64(len(m.sessions)); id++ {
			for _, r := range resumes {
				err := outcome(id)
				if r.GetToken().GetSessionId() != id || err == nil != granted {
					continue
				}
				answer := resumedProto(r.GetSeq(), r.GetToken())
				if err != nil {
					answer = &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{
						Failed: wire.FailedProto(r.GetSeq(), err),
					}}
				}
				m.says(answer, 0)
			}
		}
	}
}

// judgeTogether answers one message for all sessions.
func (m *mover) judgeTogether(outcome func(id uint64) error) {
	m.conn.heard, m.conn.batch = true, 1024
	actions := m.turn(Up{m.conn})
	many := actions[0].Message.GetResumeSessions()
	if len(actions) != 1 || len(many.GetIds()) != len(m.sessions) {
		m.t.Fatalf("%d messages, the first for %d sessions", len(actions), len(many.GetIds()))
	}
	m.now = m.now.Add(time.Millisecond)
	answer := &holdfastv1.ResumedSessions{Seq: many.GetSeq()}
	for _, id := range many.GetIds() {
		err := outcome(id)
		if err != nil {
			answer.Failures = append(answer.Failures, &holdfastv1.TouchFailure{Id: id, Error: wire.Detail(err)})
			answer.Attachments, answer.SafeForMs = append(answer.Attachments, 0), append(answer.SafeForMs, 0)
			continue
		}
		answer.Attachments = append(answer.Attachments, 1000+id)
		answer.SafeForMs = append(answer.SafeForMs, 8000)
	}
	m.says(&holdfastv1.ServerMessage{
		Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: answer},
	}, 1024)
}

// told is what the client knows of a session.
func (m *mover) told(h *Session) string {
	waits := "none"
	if h.resuming != nil {
		waits = fmt.Sprint("refused ", h.resuming.Refused, ", names a moment: ", !h.resuming.Named.IsZero(),
			", waits: ", !h.resuming.Due.IsZero())
	}
	return fmt.Sprintf("on the new node: %v, held: %v, state %d, err %v, safe for %v, attachment %d, resume: %s",
		h.on == m.conn, m.core.holds(h), h.state, h.err, h.until.Sub(m.now), h.token.Attachment, waits)
}

// where is where the client is.
func (m *mover) where() string {
	why := error(nil)
	if m.core.cur != nil {
		why = m.core.cur.failing
	}
	return fmt.Sprintf("there: %v, tries it: %v, leaves it: %v, moves: %v", m.core.cur == m.conn, m.core.next == m.conn,
		why, m.core.router.Moving)
}

// An answer that does not fit its request says nothing of any session. A node that does not take the message at all is
// asked for each session by itself.
func TestAnAnswerForManyThatDoesNotFitEndsNoSession(t *testing.T) {
	refused := func(err error) func(uint64) *holdfastv1.ServerMessage {
		return func(seq uint64) *holdfastv1.ServerMessage {
			return &holdfastv1.ServerMessage{
				Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)},
			}
		}
	}
	for name, tt := range map[string]struct {
		answer  func(seq uint64) *holdfastv1.ServerMessage
		singles bool
	}{
		"short": {answer: func(seq uint64) *holdfastv1.ServerMessage {
			return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_ResumedSessions{
				ResumedSessions: &holdfastv1.ResumedSessions{Seq: seq, Attachments: []uint64{5}, SafeForMs: []uint64{5}},
			}}
		}},
		"without reasons": {answer: func(seq uint64) *holdfastv1.ServerMessage {
			return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_ResumedSessions{
				ResumedSessions: &holdfastv1.ResumedSessions{
					Seq: seq, Attachments: make([]uint64, 12), SafeForMs: make([]uint64, 12),
				},
			}}
		}},
		"invalid":         {answer: refused(&session.FieldError{Field: "ids", Limit: "1 to 5"}), singles: true},
		"bad credential":  {answer: refused(session.ErrBadCredential), singles: true},
		"no leader":       {answer: refused(session.ErrNoLeader)},
		"outcome unknown": {answer: refused(session.ErrOutcomeUnknown)},
		"later":           {answer: refused(&session.LimitError{Name: "requests_to_leader", RetryAfter: session.BusyRetryAfter})},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMover(t, 12)
			m.conn.heard, m.conn.batch = true, 1024
			seq := m.turn(Up{m.conn})[0].Message.GetResumeSessions().GetSeq()
			actions := m.says(tt.answer(seq), 1024)
			singles := 0
			for _, a := range actions {
				if a.Do == Send && a.Message.GetResume() != nil {
					singles++
				}
			}
			if want := 12; tt.singles && singles != want || !tt.singles && singles != 0 {
				t.Errorf("%d resumes follow: %v", singles, tt.singles)
			}
			for _, h := range m.sessions {
				if !m.core.holds(h) || h.on != nil {
					t.Fatalf("session %d is %s", h.id, m.told(h))
				}
			}
		})
	}
}

// The outcome of a message for many is unknown when its connection is lost. All its sessions are resumed at the next.
func TestALostMessageForManyIsRepeated(t *testing.T) {
	m := newMover(t, 12)
	m.conn.heard, m.conn.batch = true, 1024
	m.turn(Up{m.conn})
	var dialled *Conn
	for _, a := range m.turn(Down{m.conn, errors.New("connection reset")}) {
		if a.Do == Dial {
			dialled = a.Conn
		}
	}
	for dialled == nil {
		m.now = m.core.wakeAt()
		for _, a := range m.turn() {
			if a.Do == Dial {
				dialled = a.Conn
			}
		}
	}
	dialled.heard, dialled.batch = true, 1024
	if many := m.turn(Up{dialled})[0].Message.GetResumeSessions(); len(many.GetIds()) != 12 {
		t.Errorf("%d sessions are resumed at the next node, want all", len(many.GetIds()))
	}
}

// A local session, a session that a caller takes over, and one that is being joined are resumed one by one.
func TestOnlyGlobalSessionsThatAreHeldAreResumedTogether(t *testing.T) {
	m := newMover(t, 6)
	m.sessions[0].token.Local = true
	m.sessions[1].joining = new(Call)
	m.conn.heard, m.conn.batch = true, 1024
	singles, together := 0, 0
	for _, a := range m.turn(Up{m.conn}) {
		if one := a.Message.GetResume(); one != nil {
			singles++
			continue
		}
		for _, id := range a.Message.GetResumeSessions().GetIds() {
			if together++; id < 3 {
				t.Errorf("session %d is resumed with others", id)
			}
		}
	}
	if together+singles != 6 || singles < 2 {
		t.Errorf("%d resumes alone and %d together", singles, together)
	}
}

// A node that is overloaded names a moment. A resume whose promise still lasts comes back after half of the rest at most.
// One whose promise has lapsed waits for the moment: many such clients would otherwise overload the node for ever.
func TestAResumeWithoutAPromiseWaitsForTheNamedMoment(t *testing.T) {
	const hint, timeout = 8 * time.Second, 10 * time.Second
	for name, tt := range map[string]struct {
		until          func(now time.Time) time.Time
		earliest, last time.Duration
	}{
		"promised": {
			func(now time.Time) time.Time { return now.Add(6 * time.Second) }, 3 * time.Second, 3 * time.Second,
		},
		"just lapsed": {func(now time.Time) time.Time { return now }, hint, hint + timeout/connectPart},
		"lapse told":  {func(time.Time) time.Time { return time.Time{} }, hint, hint + timeout/connectPart},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMover(t, 1)
			l, h := m.core, m.sessions[0]
			l.now, h.until = m.now, tt.until(m.now)
			for n := 1; n <= 40; n++ {
				r := &window.Request{Body: &resumeBody{h: h}}
				got := l.comesBack(r, n, &session.LimitError{RetryAfter: hint})
				if got < tt.earliest || got > tt.last {
					t.Errorf("refusal %d: comes back after %v, want %v to %v", n, got, tt.earliest, tt.last)
				}
			}
		})
	}
}
