package core

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client/internal/core/conn"
	sessions "holdfast/client/internal/core/session"
	"holdfast/client/internal/route"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/wire"
)

// mover is a client whose node was lost, at the moment when another node is there. The test acts as that node.
type mover struct {
	t        *testing.T
	core     *Core
	now      time.Time
	conn     *conn.Conn
	sessions []*sessions.Session
	// attached, promised, states and ended are the sessions' events.
	attached map[*sessions.Session]uint64
	promised map[*sessions.Session]time.Time
	states   map[*sessions.Session]sessions.State
	ended    map[*sessions.Session]error
	wakeAt   time.Time
	// singly: the node refuses messages that resume several sessions.
	singly bool
}

// steady draws the same number again and again, so that two clients wait equally long.
type steady struct{}

// Uint64 implements rand.Source.
func (steady) Uint64() uint64 { return 0x5555_5555_5555_5555 }

// newMover returns a client with sessions 1 to n, whose connection to the next node is dialed.
func newMover(t *testing.T, n int) *mover {
	t.Helper()
	m := &mover{
		t: t, now: time.Now(), promised: map[*sessions.Session]time.Time{}, ended: map[*sessions.Session]error{},
		states: map[*sessions.Session]sessions.State{}, attached: map[*sessions.Session]uint64{},
	}
	m.core = New(Config{
		Instance: 77, Servers: []string{"n1:7400"}, OnlyServers: true,
		ConnectTimeout: 2 * time.Second, HedgeDelay: 250 * time.Millisecond,
		Jitter: route.NewJitter(steady{}, testMinBackoff, 2*time.Second),
	})
	var in []Input
	for i := range n {
		in = append(in, Resume{Call: new(sessions.Call), Token: session.Token{
			ID: session.ID(i + 1), Attachment: uint64(i + 1),
		}})
	}
	former := dialed(m.turn(in...))
	m.conn = former
	resumes := sends(m.turn(Up{former}))
	for len(resumes) > 0 {
		var more []conn.Action
		for _, a := range resumes {
			r := a.Message.GetResume()
			answer := resumedProto(r.GetSeq(), r.GetToken())
			answer.GetResumed().Session.Attachment = r.GetToken().GetSessionId()
			answer.GetResumed().Token.Attachment = r.GetToken().GetSessionId()
			answer.GetResumed().SafeFor = wire.PromiseProto(9 * time.Second)
			more = append(more, sends(m.says(answer, 0))...)
		}
		resumes = more
	}
	if len(m.sessions) != n {
		t.Fatalf("%d sessions are attached, want %d", len(m.sessions), n)
	}
	if m.conn = dialed(m.turn(Down{former, errors.New("connection reset")})); m.conn == nil {
		m.conn = m.dials()
	}
	return m
}

// dials lets time pass until the client dials.
func (m *mover) dials() *conn.Conn {
	m.t.Helper()
	for range 100 {
		m.now = m.now.Add(50 * time.Millisecond)
		if c := dialed(m.turn()); c != nil {
			return c
		}
	}
	m.t.Fatal("the client does not dial")
	return nil
}

// dialed returns the connection that the client dials; nil for none.
func dialed(all []conn.Action) *conn.Conn {
	for _, a := range all {
		if a.Do == conn.Dial {
			return a.Conn
		}
	}
	return nil
}

// sends returns the actions that send resumes.
func sends(all []conn.Action) []conn.Action {
	return slices.DeleteFunc(slices.Clone(all), func(a conn.Action) bool {
		return a.Do != conn.Send || a.Message.GetResume() == nil && a.Message.GetResumeSessions() == nil
	})
}

// up opens the connection to the next node, and returns the resumes. If batch is not 0, the node has first reported
// that it accepts batches.
func (m *mover) up(batch uint32) []conn.Action {
	m.t.Helper()
	if batch == 0 {
		return sends(m.turn(Up{m.conn}))
	}
	return sends(m.turn(Received{m.conn, &holdfastv1.ServerMessage{State: m.state(batch)}}, Up{m.conn}))
}

func (m *mover) turn(in ...Input) []conn.Action {
	m.t.Helper()
	e := m.core.Turn(Moment{Now: m.now}, in...)
	for _, g := range e.Sessions.Granted {
		if !slices.Contains(m.sessions, g.Session) {
			m.sessions = append(m.sessions, g.Session)
		}
		m.attached[g.Session] = g.Grant.Session.Attachment
	}
	for _, p := range e.Sessions.Promised {
		m.promised[p.Session] = p.Until
	}
	for _, v := range e.Sessions.Events {
		m.states[v.Session] = v.To
	}
	for _, end := range e.Sessions.Ended {
		m.ended[end.Session] = end.Err
	}
	m.wakeAt = e.WakeAt
	return e.Conns.Actions
}

// state is the reported state of a node that accepts batches.
func (m *mover) state(batch uint32) *holdfastv1.NodeState {
	s := wire.StateProto(session.NodeState{Node: 2, Mode: session.ModeReadWrite, Index: 10})
	s.MaxBatch = batch
	return s
}

// says has the node say something.
func (m *mover) says(answer *holdfastv1.ServerMessage, batch uint32) []conn.Action {
	m.t.Helper()
	answer.State = m.state(batch)
	return m.turn(Received{m.conn, answer})
}

func resumedProto(seq uint64, t *holdfastv1.Token) *holdfastv1.ServerMessage {
	s := session.Session{
		ID: session.ID(t.GetSessionId()), Spec: session.Spec{Timeout: 10 * time.Second}, Owner: 2,
		Attachment: 1000 + t.GetSessionId(),
	}
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Resumed{Resumed: &holdfastv1.Resumed{
		Seq: seq, Session: wire.SessionProto(s), SafeFor: wire.PromiseProto(8 * time.Second),
		Token: wire.TokenProto(session.Token{ID: s.ID, Attachment: s.Attachment}),
	}}}
}

// A client that lost its node resumes one session to learn what the next node accepts, and then all others with a few
// messages, each session with a separate attempt.
func TestAClientResumesAllItsSessionsWithAFewMessages(t *testing.T) {
	for batch, want := range map[uint32][]int{1024: {1024, 976}, 100_000: {1024, 976}, 250: {250, 250}} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			m := newMover(t, 2001)
			first := m.up(0)
			if len(first) != 1 || first[0].Message.GetResume() == nil {
				t.Fatalf("%d messages at first, want one resume", len(first))
			}
			resume := first[0].Message.GetResume()
			attempts := map[uint64]bool{resume.GetAttempt(): true}
			var sizes []int
			singles := 0
			for _, a := range sends(m.says(resumedProto(resume.GetSeq(), resume.GetToken()), batch)) {
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

// The outcome of each session is the same as after a separate resume, whatever the outcome is, and the client goes on in
// the same way.
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
				one.singly = true
				got, want := many.playNode(outcome), one.playNode(outcome)
				for i := range max(len(got), len(want)) {
					if i >= len(got) || i >= len(want) || got[i] != want[i] {
						t.Fatalf("after\n%s\nthe client does\n%s\nwith single resumes\n%s", strings.Join(got[:i], "\n"),
							strings.Join(got[i:], "\n"), strings.Join(want[i:], "\n"))
					}
				}
			})
		}
	}
}

// playNode plays the node that the client has dialed, for ten seconds. Then it loses the connection, and opens the next
// one. It returns what the client does, and when.
func (m *mover) playNode(outcome func(id uint64) error) (did []string) {
	m.t.Helper()
	begun := m.now
	did = m.answerResumes(m.up(1024), begun, outcome)
	for _, h := range m.sorted() {
		did = append(did, fmt.Sprintf("session %02d is %s", h.ID(), m.told(h)))
	}
	did = append(did, "the client is "+m.where())
	for turns := 0; !m.wakeAt.IsZero() && m.wakeAt.Before(begun.Add(10*time.Second)); turns++ {
		if turns == 1000 {
			m.t.Fatal("the client spins")
		}
		m.now = route.Latest(m.now, m.wakeAt)
		did = append(did, m.answerResumes(m.turn(), begun, outcome)...)
	}
	did = append(did, "the connection is lost")
	m.conn = dialed(m.turn(Down{m.conn, errors.New("connection reset")}))
	for m.conn == nil && m.core.sessions.Len() > 0 {
		m.now = route.Latest(m.now, m.wakeAt)
		m.conn = dialed(m.turn())
	}
	if m.conn == nil {
		return append(did, "the client holds nothing")
	}
	begun = m.now
	return append(did, m.answerResumes(m.up(1024), begun, outcome)...)
}

// answerResumes answers resumes after a millisecond, each by itself if the node resumes no sessions together. It
// returns what the client has done. Sessions that are resumed in one turn are in the order of their ids.
func (m *mover) answerResumes(all []conn.Action, begun time.Time, outcome func(id uint64) error) (did []string) {
	m.t.Helper()
	for all = slices.Clone(all); len(all) > 0; { // the next turn reuses all
		var resumed []string
		resumes := func(id, attachment uint64) {
			resumed = append(resumed, fmt.Sprintf("%v: resumes %02d, attachment %d", m.now.Sub(begun), id, attachment))
		}
		var singles []*holdfastv1.Resume
		var answers []*holdfastv1.ServerMessage
		for i := 0; i < len(all); i++ {
			a := all[i]
			one, many := a.Message.GetResume(), a.Message.GetResumeSessions()
			switch {
			case one != nil:
				resumes(one.GetToken().GetSessionId(), one.GetToken().GetAttachment())
				singles = append(singles, one)
			case many != nil && m.singly:
				all = append(all, m.says(failedProto(many.GetSeq(), &session.FieldError{Field: "x"}), 1024)...)
			case many != nil:
				for i, id := range many.GetIds() {
					resumes(id, many.GetAttachments()[i])
				}
				answers = append(answers, answerToMany(many, outcome))
			case a.Conn == m.conn && a.Do != conn.AskMembers:
				did = append(did, fmt.Sprintf("%v: action %d, touch of %v", m.now.Sub(begun), a.Do,
					a.Message.GetTouch().GetIds()))
			}
		}
		if slices.Sort(resumed); len(resumed) == 1 { // a probe, for which the client takes any session
			resumed[0] = fmt.Sprintf("%v: resumes one", m.now.Sub(begun))
		}
		did, all = append(did, resumed...), nil
		for _, granted := range []bool{true, false} { // first the sessions that are granted
			for _, r := range singles {
				if err := outcome(r.GetToken().GetSessionId()); err == nil == granted {
					answers = append(answers, answerTo(r, err))
				}
			}
		}
		if len(answers) > 0 {
			m.now = m.now.Add(time.Millisecond)
		}
		for _, answer := range answers {
			all = append(all, m.says(answer, 1024)...)
		}
	}
	return did
}

// answerTo answers a single resume.
func answerTo(r *holdfastv1.Resume, err error) *holdfastv1.ServerMessage {
	if err == nil {
		return resumedProto(r.GetSeq(), r.GetToken())
	}
	return failedProto(r.GetSeq(), err)
}

func failedProto(seq uint64, err error) *holdfastv1.ServerMessage {
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Failed{Failed: wire.FailedProto(seq, err)}}
}

// answerToMany answers a resume of several sessions.
func answerToMany(many *holdfastv1.ResumeSessions, outcome func(id uint64) error) *holdfastv1.ServerMessage {
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
	return &holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_ResumedSessions{ResumedSessions: answer}}
}

// sorted returns the sessions by their ids.
func (m *mover) sorted() []*sessions.Session {
	return slices.SortedFunc(slices.Values(m.sessions), func(x, y *sessions.Session) int {
		return cmp.Compare(x.ID(), y.ID())
	})
}

// told is what the application has heard of a session.
func (m *mover) told(h *sessions.Session) string {
	return fmt.Sprintf("on the new node: %v, held: %v, state %d, err %v, safe for %v, attachment %d, resuming: %v",
		h.Conn() == m.conn, m.core.Holds(h.ID()), m.states[h], m.ended[h], m.promised[h].Sub(m.now), m.attached[h],
		h.Resuming())
}

// where is where the client is.
func (m *mover) where() string {
	why := error(nil)
	current, candidate := m.core.conns.Current(), m.core.conns.Candidate()
	if current != nil {
		why = current.Failing()
	}
	return fmt.Sprintf("there: %v, tries it: %v, leaves it: %v", current == m.conn, candidate == m.conn, why)
}

// An answer that does not fit its request concerns no session. A node that refuses the message itself is asked for each
// session separately.
func TestAnAnswerForManyThatDoesNotFitEndsNoSession(t *testing.T) {
	refused := func(err error) func(uint64) *holdfastv1.ServerMessage {
		return func(seq uint64) *holdfastv1.ServerMessage { return failedProto(seq, err) }
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
			seq := m.up(1024)[0].Message.GetResumeSessions().GetSeq()
			actions := m.says(tt.answer(seq), 1024)
			singles := 0
			for _, a := range actions {
				if a.Do == conn.Send && a.Message.GetResume() != nil {
					singles++
				}
			}
			if want := 12; tt.singles && singles != want || !tt.singles && singles != 0 {
				t.Errorf("%d resumes follow: %v", singles, tt.singles)
			}
			for _, h := range m.sessions {
				if !m.core.Holds(h.ID()) || h.Attached() {
					t.Fatalf("session %d is %s", h.ID(), m.told(h))
				}
			}
		})
	}
}

// The outcome of a message for many is unknown when its connection is lost. All its sessions are resumed at the next.
func TestALostMessageForManyIsRepeated(t *testing.T) {
	m := newMover(t, 12)
	m.up(1024)
	next := dialed(m.turn(Down{m.conn, errors.New("connection reset")}))
	if next == nil {
		next = m.dials()
	}
	m.conn = next
	if many := m.up(1024)[0].Message.GetResumeSessions(); len(many.GetIds()) != 12 {
		t.Errorf("%d sessions are resumed at the next node, want all", len(many.GetIds()))
	}
}

// A session that is resumed while the client tries another server is asked for at the current one when the move to the
// new servers fails.
func TestAResumeDuringAFailedRebalanceIsSent(t *testing.T) {
	q := newQuiet(t, true)
	var next *conn.Conn
	var lookups []conn.Lookup
	for range 20 { // a third of the clients stay
		q.turn(Servers{[]string{"10.0.0.1:7400"}})
		e := q.turn(Servers{[]string{"10.0.0.1:7400", "10.0.0.2:7400", "n3:7400"}})
		if next, lookups = dialed(e.Conns.Actions), slices.Clone(e.Conns.Lookups); q.conn.Failing() != nil {
			break
		}
	}
	e := q.passes(250 * time.Millisecond)
	next, lookups = cmp.Or(next, dialed(e.Conns.Actions)), append(lookups, e.Conns.Lookups...)
	if next == nil || len(lookups) != 1 {
		t.Fatalf("dials %v and asks for %d names, want one of each", next, len(lookups))
	}
	q.turn(Up{next})
	resumedAt := func(in Input) (at *conn.Conn) {
		for _, a := range sends(q.turn(in).Conns.Actions) {
			if a.Message.GetResume().GetToken().GetSessionId() == 2 {
				at = a.Conn
			}
		}
		return at
	}
	if at := resumedAt(Resume{Call: new(sessions.Call), Token: session.Token{ID: 2}}); at != next {
		t.Fatalf("the session is asked for at %v, want the next server", at)
	}
	at := resumedAt(Resolved{Of: lookups[0], Err: errors.New("no such host")})
	if at != q.conn || q.conn.Failing() != nil {
		t.Errorf("the session is asked for at %v, and the node left because of %v; want the current node", at,
			q.conn.Failing())
	}
}

// The answer of a connection that the client has dropped teaches nothing: its list of members may be old.
func TestMembersByAFormerConnectionAreIgnored(t *testing.T) {
	for former, want := range map[bool][]string{true: nil, false: {"n5:7400"}} {
		m := newMover(t, 1)
		m.up(0)
		by := m.conn
		if former {
			by = new(conn.Conn)
		}
		e := m.core.Turn(Moment{Now: m.now}, Members{Conn: by, Addresses: []string{"n5:7400"}})
		if got := e.Conns.Learnt; !slices.Equal(got, want) {
			t.Errorf("former %v: learnt %q, want %q", former, got, want)
		}
	}
}
