package clientport

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
)

func TestEventsAreBatchedInOrder(t *testing.T) {
	service := &fakeService{}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stalled := newStall()
		network.Cut = stalled.wrap
		stream := connected(t, network)
		send(t, stream, touchMessage(1))
		receive(t, stream)
		events := service.newest()
		stalled.hold()
		since := session.TimeOfMS(99)
		// Enough messages that gRPC takes no more from the writer.
		for range 2000 {
			events.Jeopardy(since, []string{strings.Repeat("n", 50)})
			synctest.Wait()
		}
		for id := range session.ID(maxEventBatch + 1) {
			events.Gone(porttest.Certificate(id + 1))
		}
		closed := porttest.Certificate(9001)
		closed.Cause = session.CauseClosed
		events.Gone(closed)
		events.Moved(9002, 10, 5)
		events.Moved(9003, 10, 6)
		events.JeopardyEnded()
		stalled.release()
		for range 2000 {
			j := receive(t, stream).GetJeopardy()
			if !j.GetSince().AsTime().Equal(since) || len(j.GetTry()) != 1 {
				t.Fatalf("got %v", j)
			}
		}
		var batches []int
		for last := uint64(0); last != maxEventBatch+1; {
			gone := receive(t, stream).GetGone()
			if n := len(gone.GetIds()); n == 0 || n > maxEventBatch || n != len(gone.GetCertificate()) {
				t.Fatalf("a batch of %d with %d certificates", n, len(gone.GetCertificate()))
			}
			batches = append(batches, len(gone.GetIds()))
			last = gone.GetIds()[len(gone.GetIds())-1]
		}
		if len(batches) > 3 {
			t.Errorf("%d ends came in batches of %v, want few", maxEventBatch+1, batches)
		}
		if gone := receive(t, stream).GetGone(); gone.GetCause() != holdfastv1.Cause_CAUSE_CLOSED ||
			!slices.Equal(gone.GetIds(), []uint64{9001}) {
			t.Errorf("got %v, want the closed session by itself", gone)
		}
		if moved := receive(t, stream).GetMoved(); !slices.Equal(moved.GetIds(), []uint64{9002, 9003}) ||
			!slices.Equal(moved.GetInstances(), []uint64{5, 6}) {
			t.Errorf("got %v, want both moves in one message, with the instances that have the sessions", moved)
		}
		if receive(t, stream).GetJeopardyEnded() == nil {
			t.Error("want the end of jeopardy last")
		}
	})
}

// TestEventsWaitForTheSessionsAnswer: an answer goes through the request's goroutine, and an event does
// not, but the client gets the answer first.
func TestEventsWaitForTheSessionsAnswer(t *testing.T) {
	service := &fakeService{}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, touchMessage(1))
		receive(t, stream)
		events := service.newest()

		service.open = func(context.Context, session.OpenRequest) (session.Grant, error) {
			events.Moved(7, 10, 5)
			events.Gone(porttest.Certificate(7)) // the end replaces the move before it
			return porttest.Grant(7), nil
		}
		send(t, stream, openMessage(2))
		if receive(t, stream).GetOpened() == nil || !slices.Equal(receive(t, stream).GetGone().GetIds(), []uint64{7}) {
			t.Error("want the answer first, then the end")
		}

		attachment := uint64(10) // another connection resumed the session after this one
		service.resume = func(context.Context, session.ResumeRequest) (session.Grant, error) {
			events.Moved(8, attachment, 5)
			return porttest.Grant(8), nil
		}
		send(t, stream, resumeMessage(3, 8))
		if receive(t, stream).GetResumed() == nil ||
			!slices.Equal(receive(t, stream).GetMoved().GetIds(), []uint64{8}) {
			t.Error("want the answer first, then the move")
		}
		attachment = 8 // this connection resumed the session after the other
		send(t, stream, resumeMessage(4, 8))
		if receive(t, stream).GetResumed() == nil {
			t.Error("want the answer")
		}
		synctest.Wait()
		if got := s.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions, want only the session that was resumed again", got)
		}
		service.resume = func(context.Context, session.ResumeRequest) (session.Grant, error) {
			events.Moved(8, 10, 5)
			return session.Grant{}, session.ErrClosing
		}
		send(t, stream, resumeMessage(5, 8))
		if receive(t, stream).GetFailed() == nil || receive(t, stream).GetMoved() == nil {
			t.Error("want the refusal, then the move")
		}
		// Without a request under way, an event is told at once, also of an unknown session.
		events.Gone(porttest.Certificate(77))
		if !slices.Equal(receive(t, stream).GetGone().GetIds(), []uint64{77}) {
			t.Error("want the end of an unknown session")
		}
	})
}

// TestAMoveToAGrantedAttachmentIsNotSent: a client without an answer resumes again, and all its resumes take effect in
// one entry. The newest may be answered first. The client then holds the session, and must not get the event that an
// earlier resume took it away.
func TestAMoveToAGrantedAttachmentIsNotSent(t *testing.T) {
	service := &fakeService{}
	answer := make(map[uint64]chan error)
	bubble.Test(t, func(t *testing.T) {
		for attempt := uint64(1); attempt <= 3; attempt++ {
			answer[attempt] = make(chan error)
		}
		service.resume = func(_ context.Context, r session.ResumeRequest) (session.Grant, error) {
			return porttest.Grant(8), <-answer[r.Attempt]
		}
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		for attempt := uint64(1); attempt <= 3; attempt++ {
			m := resumeMessage(attempt, 8)
			m.GetResume().Attempt = attempt
			send(t, stream, m)
		}
		synctest.Wait()
		service.newest().Moved(8, 7, 5) // by the first of the three resumes, which get 7, 8 and 9
		answer[3] <- nil
		if receive(t, stream).GetResumed() == nil {
			t.Error("want the answer to the newest resume")
		}
		answer[1] <- session.ErrMoved
		answer[2] <- session.ErrMoved
		for range 2 {
			if m := receive(t, stream); m.GetFailed() == nil {
				t.Errorf("got %v, want the others refused", m)
			}
		}
		synctest.Wait()
		if got := s.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions, want only the resumed session", got)
		}
		send(t, stream, touchMessage(4))
		if m := receive(t, stream); m.GetTouched() == nil {
			t.Errorf("got %v, want nothing but the answer to a touch", m)
		}
	})
}

func TestAnEventWaitsForNoLaterOpen(t *testing.T) {
	service := &fakeService{}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		slow := true
		service.open = func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
			if slow {
				slow = false
				return porttest.Grant(7), porttest.Sleep(ctx, time.Second)
			}
			return porttest.Grant(8), porttest.Sleep(ctx, time.Hour)
		}
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		synctest.Wait()
		service.newest().Moved(66, 10, 5)
		send(t, stream, openMessage(2))
		if receive(t, stream).GetOpened() == nil || receive(t, stream).GetMoved() == nil {
			t.Error("want the first open's answer, then the move")
		}
	})
}

// Whoever has heard that a session ended or moved looks for its connection in vain.
func TestAStreamForgetsASessionBeforeItSendsItsEnd(t *testing.T) {
	forgot := 0
	stats := new(counters)
	c := &connection{
		server: &sessionServer{stats: stats},
		out:    newOutbox(100, new(port.Account), port.ReadTimeout, noState),
	}
	c.streamState = newStreamState(StreamLimits{Sessions: 2, Requests: 1}, func(busy bool) {
		if busy {
			return
		}
		forgot++
		if n := c.out.unsent(); n != 0 {
			t.Errorf("a stream with %d bytes for its client has forgotten its last session only then", n)
		}
	})
	q := &request{resume: 7}
	for _, lose := range []func(){
		func() { c.Gone(session.Certificate{ID: 7}) },
		func() { c.Moved(7, 10, 1) },
	} {
		if err := c.streamState.begin(q); err != nil {
			t.Fatal(err)
		}
		c.streamState.release()
		_, change := c.streamState.answered(q, session.Token{ID: 7, Attachment: 9})
		c.count(change)
		lose()
		if c.out.unsent() == 0 || c.streamState.serves(7) || stats.sessions.Load() != 0 {
			t.Error("the event is not queued, or the session is still the stream's")
		}
		c.out = newOutbox(100, new(port.Account), port.ReadTimeout, noState)
	}
	if forgot != 2 {
		t.Errorf("the stream was told %d times to serve nothing, want twice", forgot)
	}
}
