package clientport

import (
	"context"
	"errors"
	"io"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

func TestConnectServesEachRequest(t *testing.T) {
	var opened session.OpenRequest
	service := &fakeService{
		open: func(_ context.Context, o session.OpenRequest) (session.Grant, error) {
			opened = o
			return porttest.Grant(7), nil
		},
		touch: func(ids []session.ID) session.Touched {
			return session.Touched{
				SafeFor: 2 * time.Second, Failures: []session.TouchFailure{{ID: ids[1], Err: session.ErrMoved}},
			}
		},
	}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		o := receive(t, stream).GetOpened()
		got, err := wire.GrantFrom(o.GetSession(), o.GetToken(), o.GetSafeFor())
		if err != nil || o.GetSeq() != 1 || !reflect.DeepEqual(got, porttest.Grant(7)) {
			t.Errorf("opened %+v, %v", got, err)
		}
		// The bubble's clock is before the epoch, which counts as 0 (O1 ids from the log).
		if opened.Timeout != time.Second || opened.MS != 0 {
			t.Errorf("the service was asked to open %+v", opened)
		}
		send(t, stream, resumeMessage(2, 8))
		r := receive(t, stream).GetResumed()
		if r.GetSeq() != 2 || r.GetToken().GetSessionId() != 8 {
			t.Errorf("resumed %v", r)
		}
		synctest.Wait() // the count changes after the answer
		if got := s.Stats(); got.Sessions != 2 || got.Streams != 1 || got.Connections != 1 {
			t.Errorf("stats %+v, want 2 sessions on 1 stream", got)
		}
		send(t, stream, touchMessage(3, 7, 8))
		touched := receive(t, stream).GetTouched()
		if touched.GetSeq() != 3 || wire.PromiseFrom(touched.GetSafeFor()) != 2*time.Second ||
			len(touched.GetFailures()) != 1 ||
			touched.GetFailures()[0].GetId() != 8 ||
			!errors.Is(wire.FromDetail(touched.GetFailures()[0].GetError(), ""), session.ErrMoved) {
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

func TestConnectAnswersRequestsUnderWayAfterCloseSend(t *testing.T) {
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		return porttest.Grant(7), porttest.Sleep(ctx, time.Second)
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
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

func TestConnectCancelsRequestsWithTheStream(t *testing.T) {
	cancelled := make(chan error, 1)
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		<-ctx.Done()
		cancelled <- ctx.Err()
		return session.Grant{}, ctx.Err()
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
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
		return porttest.Grant(7), porttest.Sleep(ctx, time.Second)
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
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
