package stream

import (
	"context"
	"errors"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
)

// node answers a touch under its number, and ends the stream at a close. It reads nothing while it is deaf.
type node struct {
	holdfastv1.UnimplementedSessionServiceServer

	deaf chan struct{} // closed when it hears; nil when it always does
}

func (n *node) Connect(g grpc.BidiStreamingServer[holdfastv1.ClientMessage, holdfastv1.ServerMessage]) error {
	if n.deaf != nil {
		<-n.deaf
	}
	for {
		m, err := g.Recv()
		if err != nil || m.GetClose() != nil {
			return err
		}
		answer := &holdfastv1.Touched{Seq: m.GetTouch().GetSeq()}
		err = g.Send(&holdfastv1.ServerMessage{Message: &holdfastv1.ServerMessage_Touched{Touched: answer}})
		if err != nil {
			return err
		}
	}
}

// serve returns the options that lead to n.
func serve(t *testing.T, n *node) dial.Options {
	t.Helper()
	listener, server := bufconn.Listen(1<<10), grpc.NewServer()
	holdfastv1.RegisterSessionServiceServer(server, n)
	go func() { _ = server.Serve(listener) }() // ends with Stop
	t.Cleanup(server.Stop)
	return dial.Options{Dial: func(ctx context.Context, _ string) (net.Conn, error) {
		return listener.DialContext(ctx)
	}}
}

// heard is a listener that passes on what it hears, unless the stream was closed.
type heard chan any

func (h heard) Up(ctx context.Context) { h.put(ctx, "up") }

func (h heard) Received(ctx context.Context, m *holdfastv1.ServerMessage) {
	h.put(ctx, m.GetTouched().GetSeq())
}

func (h heard) Down(ctx context.Context, err error) { h.put(ctx, err) }

func (h heard) put(ctx context.Context, what any) {
	select {
	case h <- what:
	case <-ctx.Done():
	}
}

func (h heard) next(t *testing.T) any {
	t.Helper()
	select {
	case what := <-h:
		return what
	case <-time.After(20 * time.Second):
		t.Fatal("nothing was heard")
		return nil
	}
}

func touch(seq uint64) *holdfastv1.ClientMessage {
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Touch{Touch: &holdfastv1.Touch{Seq: seq}}}
}

func TestAListenerHearsAStreamFromItsBeginningToItsEnd(t *testing.T) {
	var running sync.WaitGroup
	h := make(heard)
	s := Start(t.Context(), &running, "n1:7400", serve(t, new(node)), h)
	if got := h.next(t); got != "up" {
		t.Fatalf("heard %v first, want up", got)
	}
	for seq := uint64(1); seq <= 3; seq++ {
		s.Send(touch(seq))
	}
	for seq := uint64(1); seq <= 3; seq++ {
		if got := h.next(t); got != seq {
			t.Errorf("heard %v, want the answer to %d", got, seq)
		}
	}
	s.Send(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{Close: &holdfastv1.Close{}}})
	if err, ok := h.next(t).(error); !ok || err.Error() != "node ended the connection" {
		t.Errorf("heard %v last, want that the node ended the connection", err)
	}
	running.Wait()
}

// A stream that cannot be established reports its end only.
func TestANodeThatIsNotThereIsDown(t *testing.T) {
	var running sync.WaitGroup
	h := make(heard)
	refused := func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
	Start(t.Context(), &running, "n1:7400", dial.Options{Dial: refused}, h)
	if err, ok := h.next(t).(error); !ok || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("heard %v, want that the connection was refused", err)
	}
	running.Wait()
}

// A listener that blocks does not delay the end of a stream that was closed.
func TestAClosedStreamWaitsForNobody(t *testing.T) {
	var running sync.WaitGroup
	h := make(heard)
	s := Start(t.Context(), &running, "n1:7400", serve(t, new(node)), h)
	h.next(t)
	s.Send(touch(1))
	s.Close()
	running.Wait()
}

// Send takes the messages of a full window at once, also when the node reads nothing.
func TestSendDoesNotWaitForASlowNode(t *testing.T) {
	var running sync.WaitGroup
	h, n := make(heard), &node{deaf: make(chan struct{})}
	s := Start(t.Context(), &running, "n1:7400", serve(t, n), h)
	h.next(t)
	named := make([]uint64, 1000) // more than a stream's flow control lets through
	for seq := range uint64(window.MaxRequests + window.MaxTouches) {
		m := touch(seq + 1)
		m.GetTouch().Ids = named
		s.Send(m)
	}
	close(n.deaf)
	for seq := range uint64(window.MaxRequests + window.MaxTouches) {
		if got := h.next(t); got != seq+1 {
			t.Fatalf("heard %v, want the answer to %d", got, seq+1)
		}
	}
	s.Close()
	running.Wait()
}
