package transport

import (
	"context"
	"errors"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubbles"
)

func TestConnectServesEachRequest(t *testing.T) {
	var opened session.OpenRequest
	service := &fakeService{
		open: func(_ context.Context, o session.OpenRequest) (session.Grant, error) {
			opened = o
			return grant(7), nil
		},
		touch: func(ids []session.ID) session.Touched {
			return session.Touched{SafeFor: 2 * time.Second, Failures: []session.TouchFailure{{ID: ids[1], Err: session.ErrMoved}}}
		},
	}
	bubbles.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		o := receive(t, stream).GetOpened()
		got, err := GrantFrom(o.GetSession(), o.GetToken(), o.GetSafeFor())
		if err != nil || o.GetSeq() != 1 || !reflect.DeepEqual(got, grant(7)) {
			t.Errorf("opened %+v, %v", got, err)
		}
		// The bubble's clock is before the epoch, which counts as 0 (O1).
		if opened.Timeout != time.Second || opened.MS != 0 {
			t.Errorf("the service was asked to open %+v", opened)
		}
		send(t, stream, resumeMessage(2, 8))
		r := receive(t, stream).GetResumed()
		if r.GetSeq() != 2 || r.GetToken().GetSessionId() != 8 {
			t.Errorf("resumed %v", r)
		}
		synctest.Wait() // an answer goes out before it is counted
		if got := s.Stats(); got.Sessions != 2 || got.Streams != 1 || got.Connections != 1 {
			t.Errorf("stats %+v, want 2 sessions on 1 stream", got)
		}
		send(t, stream, touchMessage(3, 7, 8))
		touched := receive(t, stream).GetTouched()
		if touched.GetSeq() != 3 || PromiseFrom(touched.GetSafeFor()) != 2*time.Second || len(touched.GetFailures()) != 1 ||
			touched.GetFailures()[0].GetId() != 8 || !errors.Is(FromDetail(touched.GetFailures()[0].GetError(), ""), session.ErrMoved) {
			t.Errorf("touched %v", touched)
		}
		send(t, stream, closeMessage(4, 7))
		if got := receive(t, stream).GetClosed(); got.GetSeq() != 4 {
			t.Errorf("closed %v", got)
		}
		if got := s.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions after a close, want 1", got)
		}
	})
	if got := service.ended(); got != 1 {
		t.Errorf("%d connections were disconnected, want 1", got)
	}
}

func TestConnectAnswersWhatIsUnderWayAfterTheClientsLastWord(t *testing.T) {
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		return grant(7), sleep(ctx, time.Second)
	}}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		if err := stream.CloseSend(); err != nil {
			t.Fatal(err)
		}
		if got := receive(t, stream).GetOpened().GetSeq(); got != 1 {
			t.Errorf("answered seq %d, want 1", got)
		}
		if _, err := stream.Recv(); !errors.Is(err, io.EOF) {
			t.Errorf("the stream ended with %v, want io.EOF", err)
		}
	})
}

// sleep waits in a bubble.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestConnectCancelsRequestsWithTheStream(t *testing.T) {
	cancelled := make(chan error, 1)
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		<-ctx.Done()
		cancelled <- ctx.Err()
		return session.Grant{}, ctx.Err()
	}}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx)
		if err != nil {
			t.Fatal(err)
		}
		send(t, stream, openMessage(1))
		synctest.Wait()
		cancel()
		synctest.Wait()
		if got := service.ended(); got != 1 {
			t.Errorf("%d connections disconnected after the client went, want 1", got)
		}
	})
	if err := <-cancelled; !errors.Is(err, context.Canceled) {
		t.Errorf("request ended with %v", err)
	}
}

func TestTouchesAreServedInOrderWhileOpensWait(t *testing.T) {
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		return grant(7), sleep(ctx, time.Second)
	}}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		for seq := range uint64(100) {
			send(t, stream, touchMessage(seq+2))
			if got := receive(t, stream).GetTouched().GetSeq(); got != seq+2 {
				t.Fatalf("answer %d, want %d", got, seq+2)
			}
		}
		if got := receive(t, stream).GetOpened().GetSeq(); got != 1 {
			t.Errorf("answered seq %d, want the open's", got)
		}
	})
}

func TestConnectLimits(t *testing.T) {
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		return grant(7), sleep(ctx, time.Second)
	}}
	limited := func(t *testing.T, m *holdfastv1.ServerMessage, seq uint64, name string) {
		t.Helper()
		err := FailedError(m.GetFailed())
		limit, ok := errors.AsType[*session.LimitError](err)
		if !ok || limit.Name != name || limit.Limit == "" || m.GetFailed().GetSeq() != seq || codes.Code(m.GetFailed().GetCode()) != codes.ResourceExhausted {
			t.Errorf("got %v (%v), want seq %d refused by %s", m, err, seq, name)
		}
	}
	t.Run("requests", func(t *testing.T) {
		bubbles.Test(t, func(t *testing.T) {
			_, network, stop := clientPort(t, ClientConfig{MaxRequests: 2}, service)
			defer stop()
			stream := connected(t, network)
			begun := time.Now()
			send(t, stream, openMessage(1), closeMessage(8, 1))
			if receive(t, stream).GetClosed() == nil {
				t.Error("a close beside an open was not served")
			}
			send(t, stream, openMessage(2), openMessage(3))
			limited(t, receive(t, stream), 3, "max_requests_per_connection")
			if got := time.Since(begun); got != 0 {
				t.Errorf("refused after %v, want at once", got)
			}
			receive(t, stream)
			receive(t, stream)
			send(t, stream, closeMessage(4, 1))
			if receive(t, stream).GetClosed() == nil {
				t.Error("a request after the others was not served")
			}
		})
	})
	t.Run("sessions", func(t *testing.T) {
		bubbles.Test(t, func(t *testing.T) {
			_, network, stop := clientPort(t, ClientConfig{MaxSessions: 2}, service)
			defer stop()
			stream := connected(t, network)
			send(t, stream, resumeMessage(1, 5))
			receive(t, stream)
			send(t, stream, openMessage(2), resumeMessage(3, 6))
			limited(t, receive(t, stream), 3, "max_sessions_per_connection")
			send(t, stream, openMessage(4))
			limited(t, receive(t, stream), 4, "max_sessions_per_connection")
			send(t, stream, resumeMessage(5, 5)) // not one more
			if receive(t, stream).GetResumed().GetSeq() != 5 {
				t.Error("resuming a session of the connection was refused")
			}
			receive(t, stream) // the open
			service.newest().Moved(5, 10)
			receive(t, stream)
			send(t, stream, resumeMessage(6, 6))
			if receive(t, stream).GetResumed().GetSeq() != 6 {
				t.Error("a session that moved away still counts")
			}
		})
	})
}

// TestAPlaceIsGivenBackBeforeTheAnswer: a client that keeps as many requests under way as it may sends the next one as
// soon as it has an answer.
func TestAPlaceIsGivenBackBeforeTheAnswer(t *testing.T) {
	service := &fakeService{}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{MaxRequests: 1}, service)
		defer stop()
		stream := connected(t, network)
		for seq := uint64(1); seq < 200; seq += 2 {
			send(t, stream, resumeMessage(seq, 8))
			if receive(t, stream).GetResumed() == nil {
				t.Fatal("want the answer")
			}
			send(t, stream, openMessage(seq+1))
			if m := receive(t, stream); m.GetOpened() == nil {
				t.Fatalf("the next request was answered %v", m)
			}
		}
	})
}

func TestEventsAreBatchedInOrder(t *testing.T) {
	service := &fakeService{}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		stalled := newStall()
		network.cut = stalled.wrap
		stream := connected(t, network)
		send(t, stream, touchMessage(1))
		receive(t, stream)
		events := service.newest()
		stalled.hold()
		since := session.TimeOfMS(99)
		// Enough that the writer has handed gRPC all it takes.
		for range 2000 {
			events.Jeopardy(since, []string{strings.Repeat("n", 50)})
			synctest.Wait()
		}
		for id := range session.ID(maxEventBatch + 1) {
			events.Gone(certificate(id + 1))
		}
		closed := certificate(9001)
		closed.Cause = session.CauseClosed
		events.Gone(closed)
		events.Moved(9002, 10)
		events.Moved(9003, 10)
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
		if gone := receive(t, stream).GetGone(); gone.GetCause() != holdfastv1.Cause_CAUSE_CLOSED || !slices.Equal(gone.GetIds(), []uint64{9001}) {
			t.Errorf("got %v, want the closed one by itself", gone)
		}
		if moved := receive(t, stream).GetMoved(); !slices.Equal(moved.GetIds(), []uint64{9002, 9003}) {
			t.Errorf("got %v, want both moves in one message", moved)
		}
		if receive(t, stream).GetJeopardyEnded() == nil {
			t.Error("want the end of jeopardy last")
		}
	})
}

// TestEventsWaitForTheAnswerThatTellsOfTheSession is about the order of an answer, which goes through the request's
// goroutine, and of an event, which does not.
func TestEventsWaitForTheAnswerThatTellsOfTheSession(t *testing.T) {
	service := &fakeService{}
	bubbles.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, touchMessage(1))
		receive(t, stream)
		events := service.newest()

		service.open = func(context.Context, session.OpenRequest) (session.Grant, error) {
			events.Moved(7, 10)
			events.Gone(certificate(7)) // the end counts, not the move before it
			return grant(7), nil
		}
		send(t, stream, openMessage(2))
		if receive(t, stream).GetOpened() == nil || !slices.Equal(receive(t, stream).GetGone().GetIds(), []uint64{7}) {
			t.Error("want the answer first, then the end")
		}

		attachment := uint64(10) // of another connection, which resumed it after this one
		service.resume = func(context.Context, session.ResumeRequest) (session.Grant, error) {
			events.Moved(8, attachment)
			return grant(8), nil
		}
		send(t, stream, resumeMessage(3, 8))
		if receive(t, stream).GetResumed() == nil || !slices.Equal(receive(t, stream).GetMoved().GetIds(), []uint64{8}) {
			t.Error("want the answer first, then the move")
		}
		attachment = 8 // this one came back after the other
		send(t, stream, resumeMessage(4, 8))
		if receive(t, stream).GetResumed() == nil {
			t.Error("want the answer")
		}
		synctest.Wait()
		if got := s.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions, want the one that came back", got)
		}
		service.resume = func(context.Context, session.ResumeRequest) (session.Grant, error) {
			events.Moved(8, 10)
			return session.Grant{}, session.ErrClosing
		}
		send(t, stream, resumeMessage(5, 8))
		if receive(t, stream).GetFailed() == nil || receive(t, stream).GetMoved() == nil {
			t.Error("want the refusal, then the move that it did not undo")
		}
		// Nothing under way: at once, whether it is known or not.
		events.Gone(certificate(77))
		if !slices.Equal(receive(t, stream).GetGone().GetIds(), []uint64{77}) {
			t.Error("want the end of an unknown session")
		}
	})
}

// TestTheMoveToWhatAStreamWasGrantedIsNotTold: a client that was not answered resumes again, and all its resumes take effect in one entry. The newest
// may be the first that is answered; the client holds the session then, and must not hear that the first one took it away.
func TestTheMoveToWhatAStreamWasGrantedIsNotTold(t *testing.T) {
	service := &fakeService{}
	answer := make(map[uint64]chan error)
	bubbles.Test(t, func(t *testing.T) {
		for attempt := uint64(1); attempt <= 3; attempt++ {
			answer[attempt] = make(chan error)
		}
		service.resume = func(_ context.Context, r session.ResumeRequest) (session.Grant, error) {
			return grant(8), <-answer[r.Attempt]
		}
		s, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		stream := connected(t, network)
		for attempt := uint64(1); attempt <= 3; attempt++ {
			m := resumeMessage(attempt, 8)
			m.GetResume().Attempt = attempt
			send(t, stream, m)
		}
		synctest.Wait()
		service.newest().Moved(8, 7) // by the first of the three, which are 7, 8 and 9
		answer[3] <- nil
		if receive(t, stream).GetResumed() == nil {
			t.Error("want the newest answered")
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
			t.Errorf("%d sessions, want the one that was resumed", got)
		}
		send(t, stream, touchMessage(4))
		if m := receive(t, stream); m.GetTouched() == nil {
			t.Errorf("got %v, want nothing but the answer to a touch", m)
		}
	})
}

func TestAnEventWaitsForNoLaterOpen(t *testing.T) {
	service := &fakeService{}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		slow := true
		service.open = func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
			if slow {
				slow = false
				return grant(7), sleep(ctx, time.Second)
			}
			return grant(8), sleep(ctx, time.Hour)
		}
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		synctest.Wait()
		service.newest().Moved(66, 10)
		send(t, stream, openMessage(2))
		if receive(t, stream).GetOpened() == nil || receive(t, stream).GetMoved() == nil {
			t.Error("want the first open's answer, then the move")
		}
	})
}
