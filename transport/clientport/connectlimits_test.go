package clientport

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

func TestConnectLimits(t *testing.T) {
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		return porttest.Grant(7), porttest.Sleep(ctx, time.Second)
	}}
	limited := func(t *testing.T, m *holdfastv1.ServerMessage, seq uint64, name string) {
		t.Helper()
		err := wire.FailedError(m.GetFailed())
		limit, ok := errors.AsType[*session.LimitError](err)
		if !ok || limit.Name != name || limit.Limit == "" || m.GetFailed().GetSeq() != seq ||
			codes.Code(m.GetFailed().GetCode()) != codes.ResourceExhausted {
			t.Errorf("got %v (%v), want seq %d refused by %s", m, err, seq, name)
		}
	}
	t.Run("requests", func(t *testing.T) {
		bubble.Test(t, func(t *testing.T) {
			_, network, stop := clientPort(t, Config{Stream: StreamLimits{Requests: 2}}, service)
			defer stop()
			stream := connected(t, network)
			begun := time.Now()
			send(t, stream, openMessage(1), closeMessage(8, 1))
			if receive(t, stream).GetClosed() == nil {
				t.Error("a close during an open was not served")
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
		bubble.Test(t, func(t *testing.T) {
			_, network, stop := clientPort(t, Config{Stream: StreamLimits{Sessions: 2}}, service)
			defer stop()
			stream := connected(t, network)
			send(t, stream, resumeMessage(1, 5))
			receive(t, stream)
			send(t, stream, openMessage(2), resumeMessage(3, 6))
			limited(t, receive(t, stream), 3, "max_sessions_per_connection")
			send(t, stream, openMessage(4))
			limited(t, receive(t, stream), 4, "max_sessions_per_connection")
			send(t, stream, resumeMessage(5, 5)) // no additional session
			if receive(t, stream).GetResumed().GetSeq() != 5 {
				t.Error("resuming a session of the connection was refused")
			}
			receive(t, stream) // the open
			service.newest().Moved(5, 10, 5)
			receive(t, stream)
			send(t, stream, resumeMessage(6, 6))
			if receive(t, stream).GetResumed().GetSeq() != 6 {
				t.Error("a session that moved away still counts")
			}
		})
	})
}

// TestARequestStopsCountingBeforeItsAnswer: a client with as many requests in flight as it may have sends the next
// request as soon as it has an answer.
func TestARequestStopsCountingBeforeItsAnswer(t *testing.T) {
	service := &fakeService{}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{Stream: StreamLimits{Requests: 1}}, service)
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

// TestAllRequestsAnsweredAtOnce: a client that reads gets all answers, however many requests it may have in flight.
func TestAllRequestsAnsweredAtOnce(t *testing.T) {
	for _, most := range []int{1024, 8192} {
		bubble.Test(t, func(t *testing.T) {
			release := make(chan struct{})
			service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
				<-release
				return porttest.Grant(7), nil
			}}
			_, network, stop := clientPort(t, Config{Stream: StreamLimits{Requests: most}}, service)
			defer stop()
			stream := connected(t, network)
			for i := range most {
				send(t, stream, openMessage(uint64(i+1)))
			}
			synctest.Wait()
			close(release)
			synctest.Wait() // all requests that have arrived wait
			for range most {
				if m := receive(t, stream); m.GetOpened() == nil {
					t.Fatalf("of %d answers, one is %v", most, m)
				}
			}
		})
	}
}
