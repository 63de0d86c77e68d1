package learner

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// resumesOf is a request to resume sessions by attachments.
func (w *world) resumesOf(attachments map[session.ID]uint64, order ...session.ID) session.ResumesRequest {
	r := session.ResumesRequest{Instance: 9}
	for _, id := range order {
		t := w.token(id, attachments[id])
		r.Sessions = append(r.Sessions, session.Resuming{
			ID: id, Credential: t.Credential, Attachment: t.Attachment, Attempt: uint64(id) + 1,
		})
	}
	return r
}

// startResumes begins to resume sessions. The channel gets the outcomes, and panics at a second time.
func (w *world) startResumes(c session.Connection, r session.ResumesRequest) <-chan []session.Resumed {
	told := make(chan []session.Resumed, 1)
	c.StartResumes(r, func(all []session.Resumed) {
		select {
		case told <- all:
		default:
			panic("a request is told a second outcome")
		}
	})
	return told
}

func (w *world) untoldResumes(what string, told <-chan []session.Resumed) {
	w.t.Helper()
	w.settle()
	select {
	case all := <-told:
		w.t.Fatalf("%s: told %+v", what, all)
	default:
	}
}

// owned puts sessions of this node into the state, with an attachment each.
func (w *world) owned(attachments map[session.ID]uint64) {
	for id, attachment := range attachments {
		w.view.put(session.Session{
			ID: id, Spec: session.Spec{Timeout: timeout}, Owner: 1, Attachment: attachment,
			Instance: 9,
		})
	}
}

func wantOutcomes(t *testing.T, got []session.Resumed, want ...error) {
	t.Helper()
	for i, w := range want {
		if len(got) != len(want) || !errors.Is(got[i].Err, w) || (w == nil) != (got[i].Attachment != 0) {
			t.Fatalf("outcomes %+v, want %v for session %d of %d", got, w, i, len(want))
		}
	}
}

// M3: many resumes are one request to the leader. Each session is served once this node has applied the entry, and not
// before; a refused one is not. The promise counts from the moment the request came (S2 opens and moves are touches).
func TestM3ResumesServeOnlyWhatIsApplied(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.owned(map[session.ID]uint64{1: 11, 3: 13})
		begun := time.Now()
		told := w.startResumes(w.conn, w.resumesOf(map[session.ID]uint64{1: 1, 2: 2, 3: 3}, 1, 2, 3))
		r := l.request()
		if r.Resumes == nil || len(r.Resumes.Sessions) != 3 || r.Resumes.Instance != 9 ||
			r.Resumes.Sessions[2] != (session.Resuming{
				ID: 3, Credential: w.token(3, 3).Credential, Attachment: 3, Attempt: 4,
			}) {
			t.Fatalf("the leader was asked %+v", r)
		}
		l.reply(session.Reply{Seq: r.Seq, Term: 1, Index: 7, Moved: []session.MoveResult{
			{Attachment: 11}, {Err: session.ErrClosing}, {Attachment: 13, Repeated: true},
		}})
		time.Sleep(300 * time.Millisecond)
		w.untoldResumes("before this node has applied the entry", told)
		if n := w.server.table.Len(); n != 0 {
			t.Errorf("%d sessions are served before this node has applied their moves", n)
		}
		w.view.apply(7)
		got := <-told
		wantOutcomes(t, got, nil, session.ErrClosing, nil)
		if got[0].SafeFor != promised(0) || got[0].Attachment != 11 {
			t.Errorf("outcome %+v, want attachment 11 with the whole promise", got[0])
		}
		if got[2].SafeFor >= 0 {
			t.Errorf("a repeated move is promised %v: it confirms no touch (S2)", got[2].SafeFor)
		}
		if w.server.table.Len() != 2 || w.server.table.find(2) != nil {
			t.Errorf("%d sessions are served, want 1 and 3", w.server.table.Len())
		}
		w.promises("of the session", promised(time.Since(begun)), 1)
	})
}

// M4: a session that moved on, or ended, before it was served here is not served, whatever the leader has granted.
func TestM4ResumesOfWhatHasMovedOn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorld(t)
		l := w.follow()
		w.owned(map[session.ID]uint64{1: 11, 2: 40, 3: 13})
		told := w.startResumes(w.conn, w.resumesOf(map[session.ID]uint64{1: 1, 2: 2, 3: 3}, 1, 2, 3))
		w.view.drop(session.Certificate{ID: 3, Cause: session.CauseClosed})
		l.reply(session.Reply{Seq: l.request().Seq, Term: 1, Index: 0, Moved: []session.MoveResult{
			{Attachment: 11}, {Attachment: 12}, {Attachment: 13},
		}})
		got := <-told
		wantOutcomes(t, got, nil, session.ErrMoved, session.ErrExpired)
		if moved, ok := errors.AsType[*session.MovedError](got[1].Err); !ok || moved.Attachment != 40 {
			t.Errorf("the refusal is %+v, want the present attachment, 40", got[1].Err)
		}
		if w.server.table.Len() != 1 {
			t.Errorf("%d sessions are served, want 1", w.server.table.Len())
		}
	})
}

// Nothing is asked of the leader before this node has applied what the client has seen (N4 seen index), nor while it is
// read-only (N2 read-only refusals), nor for a session that is here as a local one (M5 lagging, not expired).
func TestN4ResumesWaitForWhatWasSeen(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := newWorldOf(t, localConfig())
		l := w.follow()
		w.claims(firstLocal)
		g := w.openLocal(w.conn, 1)
		w.owned(map[session.ID]uint64{1: 11})
		w.view.apply(7)
		r := w.resumesOf(map[session.ID]uint64{1: 1, g.Session.ID: 1}, 1, g.Session.ID)
		r.Seen = 8
		begun, late := time.Now(), w.startResumes(w.conn, r)
		w.unasked("a resume of a client that has seen 8")
		wantOutcomes(t, <-late, session.ErrLagging, session.ErrLagging)
		if waited := time.Since(begun); waited != w.server.wait.bound {
			t.Errorf("LAGGING after %v, want %v", waited, w.server.wait.bound)
		}
		told := w.startResumes(w.conn, r)
		w.view.apply(8)
		asked := l.request()
		if len(asked.Resumes.Sessions) != 1 || asked.Resumes.Sessions[0].ID != 1 {
			t.Errorf("the leader was asked %+v, want session 1 only", asked.Resumes)
		}
		l.reply(session.Reply{Seq: asked.Seq, Term: 1, Index: 8, Moved: []session.MoveResult{{Attachment: 11}}})
		wantOutcomes(t, <-told, nil, session.ErrLagging)
	})
}

// Each session has the outcome of a request that fails as a whole, and of a connection that has ended.
func TestResumesThatFailAsAWhole(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w, _ := cutOff(t)
		r := w.resumesOf(map[session.ID]uint64{1: 1, 2: 2}, 1, 2)
		wantOutcomes(t, <-w.startResumes(w.conn, r), session.ErrReadOnly, session.ErrReadOnly)
		r.Seen = 1 << 40
		wantOutcomes(t, <-w.startResumes(w.conn, r), session.ErrReadOnly, session.ErrReadOnly)
	})
	for name, test := range map[string]struct {
		reply session.Reply
		want  error
	}{
		"refused":      {session.Reply{Err: &session.LimitError{Name: "moves_per_stream"}}, session.ErrLimit},
		"short answer": {session.Reply{Moved: []session.MoveResult{{Attachment: 11}}}, session.ErrOutcomeUnknown},
		"connection ended": {
			session.Reply{Moved: []session.MoveResult{{Attachment: 11}, {Attachment: 12}}}, session.ErrOutcomeUnknown,
		},
	} {
		bubble.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.follow()
			w.owned(map[session.ID]uint64{1: 11, 2: 12})
			c := w.connect(&events{})
			told := w.startResumes(c, w.resumesOf(map[session.ID]uint64{1: 1, 2: 2}, 1, 2))
			test.reply.Seq = l.request().Seq
			if name == "connection ended" {
				c.Disconnect()
			}
			l.reply(test.reply)
			got := <-told
			wantOutcomes(t, got, test.want, test.want)
			if w.server.table.Len() != 0 {
				t.Errorf("%s: %d sessions are served", name, w.server.table.Len())
			}
			if fmt.Sprint(got[0].SafeFor) != "-1ns" {
				t.Errorf("%s: a refused session is promised %v", name, got[0].SafeFor)
			}
		})
	}
}

// A panic while the outcome of many resumes is processed is the outcome of its session alone. That session is not
// served, whichever step it was in, and the others are.
func TestAPanicAmongResumesIsOneOutcome(t *testing.T) {
	for call := 1; call <= 2; call++ { // a look at the state before the session is in the table, and one after that
		bubble.Test(t, func(t *testing.T) {
			w := newWorld(t)
			l := w.follow()
			w.owned(map[session.ID]uint64{1: 11, 2: 12, 3: 13})
			told := w.startResumes(w.conn, w.resumesOf(map[session.ID]uint64{1: 1, 2: 2, 3: 3}, 1, 2, 3))
			reply := session.Reply{Seq: l.request().Seq, Term: 1, Index: 7, Moved: []session.MoveResult{
				{Attachment: 11}, {Attachment: 12}, {Attachment: 13},
			}}
			looks := 0
			var look func()
			look = func() {
				if looks++; looks == 2+call {
					panic("planted")
				}
				w.view.onSession = look
			}
			w.view.onSession = look
			l.reply(reply)
			w.view.apply(7)
			got := <-told
			if p, ok := errors.AsType[*session.PanicError](got[1].Err); !ok || p.Value != "planted" {
				t.Errorf("look %d: the session is told %v, want the panic", call, got[1].Err)
			}
			if got[0].Attachment != 11 || got[2].Attachment != 13 {
				t.Errorf("look %d: the others are told %+v", call, got)
			}
			if w.server.table.Len() != 2 || w.server.table.find(2) != nil {
				t.Errorf("look %d: %d sessions are served, want 1 and 3", call, w.server.table.Len())
			}
			w.promises("of the other sessions", promised(0), 1, 3)
		})
	}
}

// A connection that ends while the outcome of its requests is processed keeps none of their sessions: the table refers
// to it as long as they live, so they would live as long as it.
func TestAnEndedConnectionKeepsNoSessions(t *testing.T) {
	for name, ask := range map[string]func(w *world, c session.Connection, l *fakeLeader){
		"one resume": func(w *world, c session.Connection, l *fakeLeader) {
			told := w.starting(c, session.Request{
				Resume: &session.ResumeRequest{Token: w.token(1, 1), Instance: 9, Attempt: 2},
			})
			s, _ := w.view.Session(1)
			w.view.onSession = c.Disconnect
			l.reply(session.Reply{Seq: l.request().Seq, Term: 1, Index: 0, Session: s})
			<-told
		},
		"many": func(w *world, c session.Connection, l *fakeLeader) {
			told := w.startResumes(c, w.resumesOf(map[session.ID]uint64{1: 1}, 1))
			seq := l.request().Seq
			w.view.onSession = c.Disconnect
			l.reply(session.Reply{Seq: seq, Term: 1, Index: 0, Moved: []session.MoveResult{{Attachment: 11}}})
			<-told
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				w := newWorld(t)
				l := w.follow()
				w.owned(map[session.ID]uint64{1: 11})
				c, ok := w.connect(&events{}).(*connection)
				if !ok {
					t.Fatal("the connection is of another type")
				}
				ask(w, c, l)
				if !c.over.Load() || w.view.onSession != nil {
					t.Fatal("the connection did not end in the middle of the outcome")
				}
				if n := c.sessions.size(); n != 0 {
					t.Errorf("the ended connection keeps %d sessions", n)
				}
			})
		})
	}
}
