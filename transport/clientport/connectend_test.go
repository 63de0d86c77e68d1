package clientport

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/separate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/wire"
)

func TestASlowReaderLosesItsStream(t *testing.T) {
	service := &fakeService{}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Stream: StreamLimits{Outgoing: 50}}, service)
		defer stop()
		stream := connected(t, network)
		for seq := uint64(1); s.Stats().SlowReaders == 0; seq++ {
			if seq > 1_000_000 {
				t.Fatal("a client that never reads is served for ever")
			}
			if err := stream.Send(touchMessage(seq)); err != nil {
				break
			}
			if seq%64 == 0 {
				synctest.Wait()
			}
		}
		synctest.Wait()
		if got := service.ended(); got != 1 {
			t.Errorf("%d connections disconnected while the client still does not read, want 1", got)
		}
		answers := 0
		for {
			_, err := stream.Recv()
			if err == nil {
				answers++
				continue
			}
			limit, ok := errors.AsType[*session.LimitError](wire.Domain(err))
			if status.Code(err) != codes.ResourceExhausted || !ok || limit.Name != "outgoing_messages" {
				t.Errorf("the stream ended with %v after %d answers, want the limit's name", err, answers)
			}
			return
		}
	})
}

// The node keeps the connection of a session until the session ends or moves, long after its stream has ended.
func TestAnEndedStreamKeepsNothing(t *testing.T) {
	service := &fakeService{touch: func(ids []session.ID) session.Touched {
		failures := make([]session.TouchFailure, len(ids))
		for i, id := range ids {
			failures[i] = session.TouchFailure{ID: id, Err: session.ErrMoved}
		}
		return session.Touched{SafeFor: -1, Failures: failures}
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stream, err := separate.Stream(holdfastv1.NewSessionServiceClient(dialPipes(t, network)).Connect(ctx))
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]uint64, 2000)
		for i := range ids {
			ids[i] = uint64(i + 1)
		}
		send(t, stream, resumeMessage(1, 7))
		receive(t, stream)
		for seq := range uint64(50) { // the client reads no answer
			send(t, stream, touchMessage(seq+2, ids...))
		}
		synctest.Wait()
		c := service.newest().(*connection)
		if c.out.bytes < 1<<20 {
			t.Fatalf("%d bytes wait for a client that does not read", c.out.bytes)
		}
		cancel()
		synctest.Wait()
		c.Moved(7, 10, 1)
		c.Gone(porttest.Certificate(8))
		c.Jeopardy(time.Now(), nil)
		if len(c.out.queue) != 0 || c.out.bytes != 0 || len(c.streamState.sessions) != 0 || service.ended() != 1 {
			t.Errorf("%d messages and %d sessions are kept, %d connections disconnected", len(c.out.queue),
				len(c.streamState.sessions), service.ended())
		}
	})
}

func TestOutgoingBytesAreBounded(t *testing.T) {
	o := newOutbox(1<<20, new(port.Account), port.ReadTimeout, noState)
	for n := 0; o.err() == nil; n++ {
		if n > maxOutgoingBytes>>20 {
			t.Fatal("the bytes of the queue are not bounded")
		}
		o.jeopardy(time.Now(), []string{strings.Repeat("n", 1<<20)})
	}
	if limit, ok := errors.AsType[*session.LimitError](o.err()); !ok || limit.Name != "outgoing_bytes" {
		t.Errorf("got %v", o.err())
	}
	o.addExpiry(porttest.Certificate(1))
	o.moved(1, 1)
	o.jeopardyEnded()
	if len(o.queue) != 0 {
		t.Error("an outbox that overflowed takes more")
	}
	o = newOutbox(1<<20, new(port.Account), port.ReadTimeout, noState)
	o.bytes = maxOutgoingBytes - messageOverhead - 100
	o.addExpiry(porttest.Certificate(1))
	if o.err() != nil {
		t.Errorf("a certificate of less than 100 bytes overflowed: %v", o.err())
	}
	if o.addExpiry(porttest.Certificate(2)); o.err() == nil {
		t.Error("a certificate added to a batch is not counted")
	}
}

func TestPanicsAreAnswered(t *testing.T) {
	service := &fakeService{
		open:  func(context.Context, session.OpenRequest) (session.Grant, error) { panic("secret") },
		touch: func([]session.ID) session.Touched { panic("secret") },
		find:  func(context.Context, session.ID, session.ReadOptions) (session.Listed, error) { panic("secret") },
	}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		for seq, m := range []*holdfastv1.ClientMessage{openMessage(1), touchMessage(2)} {
			send(t, stream, m)
			f := receive(t, stream).GetFailed()
			if f.GetSeq() != uint64(seq+1) || codes.Code(f.GetCode()) != codes.Internal ||
				strings.Contains(f.GetMessage(), "secret") {
				t.Errorf("answered %v", f)
			}
		}
		send(t, stream, closeMessage(3, 1))
		if receive(t, stream).GetClosed() == nil {
			t.Error("the connection does not go on")
		}
		_, err := holdfastv1.NewSessionServiceClient(dialPipes(t, network)).GetSession(t.Context(),
			&holdfastv1.GetSessionRequest{SessionId: 1})
		if status.Code(err) != codes.Internal || strings.Contains(err.Error(), "secret") {
			t.Errorf("a unary call that panics answered %v", err)
		}
		service.connect = func(session.Events) error { panic("secret") }
		if _, err := connected(t, network).Recv(); status.Code(err) != codes.Internal {
			t.Errorf("a stream that panics ended with %v", err)
		}
		if got := s.Stats().Panics; got != 4 {
			t.Errorf("counted %d panics, want 4", got)
		}
	})
}

// rawCodec sends bytes unchanged.
type rawCodec struct{ encoding.CodecV2 }

func (rawCodec) Name() string { return "proto" }
func (rawCodec) Marshal(v any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(*v.(*[]byte))}, nil
}
func (rawCodec) Unmarshal(mem.BufferSlice, any) error { return nil }

func TestGarbageMessagesEndTheStream(t *testing.T) {
	service := &fakeService{}
	oversized, err := proto.Marshal(&holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{
		Open: &holdfastv1.Open{Seq: 1, RequestId: make([]byte, 1000)},
	}})
	if err != nil {
		t.Fatal(err)
	}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{Limits: port.Limits{MessageBytes: 1000}}, service)
		defer stop()
		for name, tt := range map[string]struct {
			bytes []byte
			code  codes.Code
			text  string
		}{
			"garbage": {
				[]byte{
					0xff, 0xff, 0xff,
				}, codes.InvalidArgument, "message must be valid protobuf of holdfast.v1.ClientMessage",
			},
			"oversized": {
				oversized, codes.ResourceExhausted, "over the limit max_message_bytes (1000 bytes a message)",
			},
			"huge": {make([]byte, 2001), codes.ResourceExhausted, "larger than max (2001 vs. 2000)"},
		} {
			conn := dialPipes(t, network)
			desc := &holdfastv1.SessionService_ServiceDesc.Streams[0]
			stream, err := conn.NewStream(t.Context(), desc, wire.ConnectMethod, grpc.ForceCodecV2(rawCodec{}))
			if err != nil {
				t.Fatal(err)
			}
			if err = stream.SendMsg(&tt.bytes); err != nil {
				t.Fatal(err)
			}
			err = stream.RecvMsg(new([]byte))
			if status.Code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
				t.Errorf("%s: the stream ended with %v, want %v", name, err, tt.code)
			}
		}
		synctest.Wait()
		if got := service.ended(); got != 3 {
			t.Errorf("%d connections disconnected, want 3", got)
		}
	})
}

func TestStopEndsStreams(t *testing.T) {
	service := &fakeService{open: func(ctx context.Context, _ session.OpenRequest) (session.Grant, error) {
		return porttest.Grant(7), porttest.Sleep(ctx, 300*time.Millisecond)
	}}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, service)
		defer stop()
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		synctest.Wait()
		stopped := make(chan error, 1)
		begun := time.Now()
		go func() { stopped <- s.Stop(t.Context()) }()
		synctest.Wait()
		send(t, stream, openMessage(2), touchMessage(3))
		for _, seq := range []uint64{2, 0, 1} {
			m := receive(t, stream)
			if seq == 2 && !errors.Is(wire.FailedError(m.GetFailed()), session.ErrStopping) {
				t.Errorf("an open of a stopping node was answered %v", m)
			}
			if seq == 1 && m.GetOpened().GetSeq() != 1 {
				t.Errorf("the request under way was answered %v", m)
			}
		}
		if _, err := stream.Recv(); !errors.Is(wire.Domain(err), session.ErrStopping) {
			t.Errorf("the stream ended with %v", err)
		}
		if err := <-stopped; err != nil || time.Since(begun) != 300*time.Millisecond {
			t.Errorf("Stop: %v after %v, want it to take as long as the request", err, time.Since(begun))
		}
	})
}

// A node that has stepped out ends streams, and still answers unary calls.
func TestEndedStreamsLeaveCalls(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{}, &fakeService{})
		defer stop()
		stream := connected(t, network)
		synctest.Wait()
		s.EndStreams()
		s.EndStreams()
		if _, err := stream.Recv(); !errors.Is(wire.Domain(err), session.ErrStopping) {
			t.Errorf("the stream ended with %v, want %v", err, session.ErrStopping)
		}
		if _, err := holdfastv1.NewClusterServiceClient(dialPipes(t, network)).GetStatus(t.Context(),
			&holdfastv1.GetStatusRequest{}); err != nil {
			t.Errorf("status: %v", err)
		}
	})
}

func TestStopIsBounded(t *testing.T) {
	release := make(chan struct{})
	service := &fakeService{open: func(context.Context, session.OpenRequest) (session.Grant, error) {
		<-release // the request ignores its context
		return porttest.Grant(7), nil
	}}
	bubble.Test(t, func(t *testing.T) {
		release = make(chan struct{})
		network := porttest.NewPipes()
		s := New(Config{}, service, fakeCluster{})
		go func() { _ = s.Serve(network) }()
		stream := connected(t, network)
		send(t, stream, openMessage(1))
		synctest.Wait()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		if err := s.Stop(ctx); !errors.Is(err, port.ErrHandlersLeft) {
			t.Errorf("Stop: %v, want ErrHandlersLeft", err)
		}
		if got := time.Since(begun); got != time.Second+port.HardStopWait {
			t.Errorf("Stop took %v", got)
		}
		close(release)
	})
}
