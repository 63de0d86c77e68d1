package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/test/bufconn"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/client/internal/window"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
)

// node answers a touch with its number, and ends the stream at a close. It reads nothing while it is deaf.
type node struct {
	holdfastv1.UnimplementedSessionServiceServer

	deaf chan struct{} // closed when it hears; nil when it always does
	// batch is the largest batch that the node reports, and batches are the sizes of received batches.
	batch   uint32
	batches []int
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
		requests := m.GetBatch().GetRequests()
		if requests == nil {
			requests = []*holdfastv1.ClientMessage{m}
		}
		n.batches = append(n.batches, len(requests))
		for _, r := range requests {
			answer := &holdfastv1.ServerMessage{State: &holdfastv1.NodeState{Node: 1, MaxBatch: n.batch}}
			answer.Message = &holdfastv1.ServerMessage_Touched{Touched: &holdfastv1.Touched{Seq: r.GetTouch().GetSeq()}}
			if err = g.Send(answer); err != nil {
				return err
			}
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

func (h heard) Members(ctx context.Context, addresses []string, _ error) { h.put(ctx, addresses) }

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

func TestAListenerGetsAllEventsOfAStream(t *testing.T) {
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
func TestAClosedStreamDoesNotWait(t *testing.T) {
	var running sync.WaitGroup
	h := make(heard)
	s := Start(t.Context(), &running, "n1:7400", serve(t, new(node)), h)
	h.next(t)
	s.Send(touch(1))
	s.Close()
	running.Wait()
}

// Send accepts the messages of a full window at once, also when the node reads nothing.
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

// Queued messages go out in batches once the node has named the largest batch, in order, and never before.
func TestRequestsThatWaitGoOutTogether(t *testing.T) {
	for batch, want := range map[uint32][]int{0: {1, 1, 1, 1, 1, 1, 1, 1}, 3: {1, 3, 3, 1}, 100: {1, 7}} {
		t.Run(fmt.Sprint(batch), func(t *testing.T) {
			var running sync.WaitGroup
			h, n := make(heard), &node{batch: batch}
			s := Start(t.Context(), &running, "n1:7400", serve(t, n), h)
			h.next(t)
			s.Send(touch(1))
			h.next(t)
			s.Send(touch(2), touch(3), touch(4), touch(5), touch(6), touch(7), touch(8))
			for seq := uint64(2); seq <= 8; seq++ {
				if got := h.next(t); got != seq {
					t.Fatalf("heard %v, want the answer to %d", got, seq)
				}
			}
			s.Send(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{Close: &holdfastv1.Close{}}})
			h.next(t)
			running.Wait()
			if !slices.Equal(n.batches, want) {
				t.Errorf("messages of %v requests, want %v", n.batches, want)
			}
		})
	}
}

// A node refuses a message above its limit, and ends the stream.
func TestABatchHasABoundInBytes(t *testing.T) {
	labels := map[string]string{"name": strings.Repeat("x", 1000)}
	open := func() *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
			Seq: 1 << 60, Timeout: durationpb.New(time.Hour + 1), RequestId: make([]byte, 16), Labels: labels,
		}}}
	}
	plain := func() *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Resume{Resume: &holdfastv1.Resume{
			Seq: 1 << 60, Instance: 1, Attempt: 1 << 60, SeenIndex: 1 << 60, Token: &holdfastv1.Token{
				SessionId: 1, Credential: make([]byte, 16), Attachment: 1 << 60, Local: true,
			},
		}}}
	}
	named := func() *holdfastv1.ClientMessage {
		m := touch(1 << 60)
		m.GetTouch().Ids = make([]uint64, 5000)
		return m
	}
	for name, of := range map[string]func() *holdfastv1.ClientMessage{
		"labels": open, "plain": plain, "touches by id": named,
	} {
		t.Run(name, func(t *testing.T) {
			queue := make([]*holdfastv1.ClientMessage, 1024)
			for i := range queue {
				queue[i] = of()
			}
			messages := 0
			for left := queue; len(left) > 0; messages++ {
				var m *holdfastv1.ClientMessage
				before := len(left)
				m, left = next(left, 1024)
				n := max(len(m.GetBatch().GetRequests()), 1)
				if n != before-len(left) {
					t.Fatalf("a batch of %d requests out of %d, which leaves %d", n, before, len(left))
				}
				if size := proto.Size(m); n > 1 && size > maxBatchBytes+1024 {
					t.Fatalf("a batch of %d requests has %d bytes", n, size)
				}
			}
			if messages < 2 || messages > 1024 {
				t.Errorf("%d messages", messages)
			}
		})
	}
}

// A resume of many sessions is no part of a batch: it holds as much as a batch does.
func TestAResumeOfManyGoesAlone(t *testing.T) {
	many := &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_ResumeSessions{}}
	var sizes []int
	for left := []*holdfastv1.ClientMessage{many, touch(1), touch(2), many, many}; len(left) > 0; {
		var m *holdfastv1.ClientMessage
		m, left = next(left, 1024)
		sizes = append(sizes, len(m.GetBatch().GetRequests()))
	}
	if want := []int{0, 2, 0, 0}; !slices.Equal(sizes, want) {
		t.Errorf("batches of %v, want %v, where 0 is a message that is no batch", sizes, want)
	}
}
