package clientport

import (
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/ratelimit"
	"holdfast/transport/wire"
)

func resumesMessage(seq uint64, ids ...uint64) *holdfastv1.ClientMessage {
	r := &holdfastv1.ResumeSessions{Seq: seq, Instance: 1, Ids: ids}
	for _, id := range ids {
		t := porttest.Grant(session.ID(id)).Token
		r.Credentials = append(r.Credentials, t.Credential[:]...)
		r.Attachments, r.Attempts = append(r.Attachments, t.Attachment), append(r.Attempts, 1)
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_ResumeSessions{ResumeSessions: r}}
}

// bulks is a node that holds the requests to resume many sessions.
type bulks struct {
	fakeService
	mu   sync.Mutex
	held []heldBulk
}

type heldBulk struct {
	session.ResumesRequest
	done func([]session.Resumed)
}

func newBulks() *bulks {
	b := &bulks{}
	b.resumes = func(r session.ResumesRequest, done func([]session.Resumed)) {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.held = append(b.held, heldBulk{r, done})
	}
	return b
}

func (b *bulks) take(t *testing.T) heldBulk {
	t.Helper()
	synctest.Wait()
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.held) == 0 {
		t.Fatal("the node was not asked")
	}
	one := b.held[0]
	b.held = b.held[1:]
	return one
}

// Many sessions are one request to the node and one answer, in their order. Each is granted or refused by itself, and
// the granted ones are sessions of the stream.
func TestResumesAreAnsweredOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		s, network, stop := clientPort(t, Config{}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, resumesMessage(5, 7, 8, 9))
		asked := node.take(t)
		if len(asked.Sessions) != 3 || asked.Instance != 1 ||
			asked.Sessions[1].Token() != porttest.Grant(8).Token || asked.Sessions[1].Attempt != 1 {
			t.Fatalf("the node was asked %+v", asked.ResumesRequest)
		}
		asked.done([]session.Resumed{
			{Attachment: 17, SafeFor: 2500 * time.Microsecond},
			{SafeFor: -1, Err: session.ErrClosing},
			{Attachment: 19, SafeFor: -1},
		})
		m := receive(t, stream)
		got := m.GetResumedSessions()
		if m.GetState() == nil || got.GetSeq() != 5 || !slices.Equal(got.GetAttachments(), []uint64{17, 0, 19}) ||
			!slices.Equal(got.GetSafeForMs(), []uint64{2, 0, 0}) || len(got.GetFailures()) != 1 ||
			got.GetFailures()[0].GetId() != 8 ||
			got.GetFailures()[0].GetError().GetReason() != holdfastv1.Reason_REASON_CLOSING {
			t.Errorf("the answer is %v", m)
		}
		if n := s.Stats().Sessions; n != 2 {
			t.Errorf("the stream has %d sessions, want 2", n)
		}
	})
}

// The budget counts sessions: it admits as many as fit, in their order, and refuses the others, each with a retry time
// of its own.
func TestTheBudgetCountsTheSessionsOfResumes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		_, network, stop := clientPort(t, Config{RateLimits: ratelimit.Config{Resumes: 20}}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, resumesMessage(5, 7, 8, 9, 10, 11))
		asked := node.take(t)
		if len(asked.Sessions) != 2 || asked.Sessions[0].ID != 7 || asked.Sessions[1].ID != 8 {
			t.Fatalf("the node was asked for %+v, want the two that a tenth of a second's budget has room for", asked.Sessions)
		}
		asked.done([]session.Resumed{{Attachment: 17, SafeFor: -1}, {Attachment: 18, SafeFor: -1}})
		got := receive(t, stream).GetResumedSessions()
		if !slices.Equal(got.GetAttachments(), []uint64{17, 18, 0, 0, 0}) || len(got.GetFailures()) != 3 {
			t.Fatalf("the answer is %v", got)
		}
		for i, f := range got.GetFailures() {
			limit := porttest.RefusedBy(t, wire.FromDetail(f.GetError(), ""))
			if want := time.Duration(i+1) * 50 * time.Millisecond; f.GetId() != uint64(9+i) || limit.RetryAfter != want {
				t.Errorf("session %d is refused with %+v, want to retry after %v", f.GetId(), limit, want)
			}
		}
		time.Sleep(150 * time.Millisecond)
		send(t, stream, resumesMessage(6, 9, 10, 11))
		if again := node.take(t); len(again.Sessions) != 2 {
			t.Errorf("when their time has come the node is asked for %d sessions, want 2, a whole burst", len(again.Sessions))
		} else {
			again.done([]session.Resumed{{SafeFor: -1, Err: session.ErrNoLeader}, {SafeFor: -1, Err: session.ErrNoLeader}})
		}
		receive(t, stream)
		send(t, stream, resumesMessage(7, 9, 10))
		if again := node.take(t); len(again.Sessions) != 2 {
			t.Errorf("after NO_LEADER the node is asked for %d sessions, want 2: nothing was used up", len(again.Sessions))
		} else {
			again.done(make([]session.Resumed, 2))
		}
		receive(t, stream)
	})
}

// An invalid request, and one above the number of requests in flight, is refused as a whole. Sessions above the
// stream's bound are refused one by one.
func TestLimitsOfResumes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		_, network, stop := clientPort(t, Config{Stream: StreamLimits{Sessions: 2, Requests: 1}}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, resumesMessage(1, 7, 7))
		if f := receive(t, stream).GetFailed(); f.GetSeq() != 1 || f.GetError().GetField() != "ids" {
			t.Errorf("a session that is named twice: %v", f)
		}
		send(t, stream, resumesMessage(2, 7, 8, 9))
		asked := node.take(t)
		if len(asked.Sessions) != 2 {
			t.Errorf("the node was asked for %d sessions, want 2", len(asked.Sessions))
		}
		send(t, stream, resumesMessage(3, 10))
		if f := receive(t, stream).GetFailed(); f.GetSeq() != 3 ||
			f.GetError().GetField() != "max_requests_per_connection" {
			t.Errorf("a request above the bound: %v", f)
		}
		asked.done([]session.Resumed{{Attachment: 17, SafeFor: -1}, {Attachment: 18, SafeFor: -1}})
		got := receive(t, stream).GetResumedSessions()
		if len(got.GetFailures()) != 1 || got.GetFailures()[0].GetId() != 9 ||
			got.GetFailures()[0].GetError().GetField() != "max_sessions_per_connection" {
			t.Errorf("the session above the bound: %v", got)
		}
		send(t, stream, resumesMessage(4, 9))
		if one := receive(t, stream).GetResumedSessions(); len(one.GetFailures()) != 1 {
			t.Errorf("a session beside as many as there may be: %v, want it refused without asking the node", one)
		}
		send(t, stream, resumesMessage(5, 9, 7))
		again := node.take(t)
		if len(again.Sessions) != 1 || again.Sessions[0].ID != 7 {
			t.Fatalf("the node was asked for %+v, want the session that the stream has already", again.Sessions)
		}
		again.done([]session.Resumed{{Attachment: 27, SafeFor: -1}})
		got = receive(t, stream).GetResumedSessions()
		if !slices.Equal(got.GetAttachments(), []uint64{0, 27}) || len(got.GetFailures()) != 1 ||
			got.GetFailures()[0].GetId() != 9 {
			t.Errorf("a session too many before one that the stream has: %v", got)
		}
	})
}

// A move that the node reports during the resume is not sent before the answer, and not at all when the answer grants
// that attachment or a newer one.
func TestEventsFollowTheAnswerToResumes(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		_, network, stop := clientPort(t, Config{}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, resumesMessage(1, 7, 8, 9))
		asked := node.take(t)
		tell := node.newest()
		tell.Moved(7, 17, 1) // to the attachment that the answer grants
		tell.Moved(8, 30, 2) // by another process, afterwards
		tell.Gone(porttest.Certificate(9))
		asked.done([]session.Resumed{
			{Attachment: 17, SafeFor: -1}, {Attachment: 18, SafeFor: -1}, {Attachment: 19, SafeFor: -1},
		})
		if m := receive(t, stream); m.GetResumedSessions() == nil {
			t.Fatalf("first came %v, want the answer", m)
		}
		var gone, moved []uint64
		for range 2 {
			m := receive(t, stream)
			gone, moved = append(gone, m.GetGone().GetIds()...), append(moved, m.GetMoved().GetIds()...)
		}
		if !slices.Equal(gone, []uint64{9}) || !slices.Equal(moved, []uint64{8}) {
			t.Errorf("told %v gone and %v moved, want 9 and 8", gone, moved)
		}
	})
}

// A refusal of all sessions that is about the node is one error. One that is about a session is that session's own.
func TestResumesThatTheNodeCannotServe(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		_, network, stop := clientPort(t, Config{}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		for i, test := range []struct {
			second error
			whole  bool
		}{{session.ErrNoLeader, true}, {session.ErrClosing, false}} {
			seq := uint64(i + 1)
			send(t, stream, resumesMessage(seq, 7, 8))
			node.take(t).done([]session.Resumed{{SafeFor: -1, Err: session.ErrNoLeader}, {SafeFor: -1, Err: test.second}})
			m := receive(t, stream)
			if f := m.GetFailed(); test.whole && (f.GetSeq() != seq ||
				f.GetError().GetReason() != holdfastv1.Reason_REASON_NO_LEADER) {
				t.Errorf("two sessions without a leader: %v, want one error", m)
			}
			if !test.whole && len(m.GetResumedSessions().GetFailures()) != 2 {
				t.Errorf("two refusals of two kinds: %v, want both", m)
			}
		}
		send(t, stream, resumesMessage(3, 7))
		node.take(t).done([]session.Resumed{{SafeFor: -1, Err: session.ErrClosing}})
		if m := receive(t, stream); len(m.GetResumedSessions().GetFailures()) != 1 {
			t.Errorf("a session that is closing: %v, want its refusal", m)
		}
	})
}

// A panic of the node is an answer for each session, and costs nobody else anything.
func TestAPanicOfResumesIsAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		node.resumes = func(session.ResumesRequest, func([]session.Resumed)) { panic("no") }
		s, network, stop := clientPort(t, Config{}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, resumesMessage(1, 7, 8))
		got := receive(t, stream).GetResumedSessions()
		if len(got.GetFailures()) != 2 || s.Stats().Panics != 1 ||
			errors.Is(wire.FromDetail(got.GetFailures()[0].GetError(), ""), session.ErrExpired) {
			t.Errorf("the answer is %v with %d panics", got, s.Stats().Panics)
		}
	})
}

// A panic before the node is asked, and one while its answer is processed, are answers too. The stream then no longer
// counts the request: it accepts another one, and ends.
func TestAPanicOfResumesLeavesNothingCounted(t *testing.T) {
	type client = holdfastv1.SessionService_ConnectClient
	for name, panics := range map[string]func(t *testing.T, c *connection, node *bulks, stream client){
		"in the admission": func(t *testing.T, c *connection, _ *bulks, stream client) {
			t.Helper()
			good := c.reservations
			c.reservations = nil
			send(t, stream, resumesMessage(1, 7, 8))
			synctest.Wait()
			c.reservations = good
		},
		"in the answer": func(t *testing.T, _ *connection, node *bulks, stream client) {
			t.Helper()
			send(t, stream, resumesMessage(1, 7, 8))
			node.take(t).done(make([]session.Resumed, 3)) // one outcome too many
		},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				node := newBulks()
				s, network, stop := clientPort(
					t, Config{Stream: StreamLimits{Requests: 1, Sessions: 2}}, &node.fakeService,
				)
				defer stop()
				stream := connected(t, network)
				send(t, stream, touchMessage(9))
				receive(t, stream)
				c, _ := node.newest().(*connection)
				panics(t, c, node, stream)
				if m := receive(t, stream); m.GetFailed().GetSeq() != 1 && len(m.GetResumedSessions().GetFailures()) != 2 {
					t.Errorf("the answer is %v, want a refusal", m)
				}
				if got := s.Stats(); got.Panics != 1 || got.Waiting != 0 {
					t.Errorf("%d panics with %d bytes counted for them, want 1 and 0", got.Panics, got.Waiting)
				}
				send(t, stream, resumesMessage(2, 9, 10))
				node.take(t).done(make([]session.Resumed, 2))
				if m := receive(t, stream); len(m.GetResumedSessions().GetAttachments()) != 2 {
					t.Errorf("another request is answered %v", m)
				}
			})
		})
	}
}

// A request for many sessions reserves no less than it holds: a client whose node has no leader may have many of them
// in flight.
func TestResumesReserveWhatTheyHold(t *testing.T) {
	const messages, each = 24, session.MaxBatch
	bubble.Test(t, func(t *testing.T) {
		node := newBulks()
		s, network, stop := clientPort(t, Config{}, &node.fakeService)
		defer stop()
		stream := connected(t, network)
		send(t, stream, resumesMessage(1, 7))
		node.take(t).done([]session.Resumed{{SafeFor: -1, Err: session.ErrNoLeader}})
		receive(t, stream)
		before := heap()
		for seq := range messages {
			ids := manyIDs(each)
			for i := range ids {
				ids[i] += uint64(seq * each)
			}
			send(t, stream, resumesMessage(uint64(seq+2), ids...))
		}
		synctest.Wait()
		holds, reserved := heap()-before, int(s.Stats().Waiting)
		// The fake holds none of what a node holds beside it: its copies, its places and outcomes, and the leader's
		// word.
		const atNode = 40 + 8 + 32 + 32
		if holds += messages * each * atNode; holds > reserved {
			t.Errorf("%d bytes a session are held, and %d reserved", holds/messages/each, reserved/messages/each)
		}
		t.Logf("%d bytes a session are held, %d reserved", holds/messages/each, reserved/messages/each)
		for range messages {
			one := node.take(t)
			all := make([]session.Resumed, len(one.Sessions))
			for i := range all {
				all[i] = session.Resumed{SafeFor: -1, Err: session.ErrNoLeader}
			}
			one.done(all)
			receive(t, stream)
		}
		if got := s.Stats().Waiting; got != 0 {
			t.Errorf("%d bytes are counted for nothing", got)
		}
	})
}

// Sessions that have written also learn which of their writes were applied (X4 a new instance starts anew); an answer
// without any says nothing.
func TestAnswerToManyResumesNamesWrites(t *testing.T) {
	b := &bulk{
		c: &connection{server: &sessionServer{stats: &counters{}}}, seq: 9, ids: []uint64{1, 2, 3},
		outcomes: []session.Resumed{{Attachment: 5}, {Attachment: 6, Applied: 9, Floor: 8}, {Attachment: 7, Applied: 1}},
	}
	got := b.answer()
	if !slices.Equal(got.GetApplied(), []uint64{0, 9, 1}) || !slices.Equal(got.GetFloors(), []uint64{0, 8, 0}) {
		t.Errorf("got %v", got)
	}
	b.outcomes[1].Applied, b.outcomes[2].Applied = 0, 0
	if got = b.answer(); got.GetApplied() != nil || got.GetFloors() != nil {
		t.Errorf("got %v without writes", got)
	}
}
