// Package stream runs the Connect streams of a client: a connection to one node each, a goroutine that receives and a
// goroutine that sends.
package stream

import (
	"context"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
	"holdfast/transport/wire"
)

// Listener receives the events of a stream: up, its messages, and its end, which comes once and last. One goroutine
// makes the calls and waits for each to return. Their context ends when the stream is closed: a later call has no
// effect and must return.
type Listener interface {
	Up(ctx context.Context)
	Received(ctx context.Context, m *holdfastv1.ServerMessage)
	Down(ctx context.Context, err error)
	// Members follows each [Stream.AskMembers], from a separate goroutine.
	Members(ctx context.Context, addresses []string, err error)
}

// maxBatchBytes is about the size limit of a batch's requests. It is far below the smallest limit of a node, and the
// largest number of plain requests in a batch stays below it.
const maxBatchBytes = 64 << 10

// Stream is one Connect stream.
type Stream struct {
	cancel context.CancelFunc
	// wake signals the sender that messages are queued. Its buffer holds one signal.
	wake chan struct{}
	// batch is how many requests the node accepts in one message; 0 until the node has reported the number.
	batch atomic.Int64

	// nodes makes calls over the connection of the stream. It is set before the stream is up.
	nodes holdfastv1.ClusterServiceClient

	mu    sync.Mutex
	queue []*holdfastv1.ClientMessage // guarded by mu; as many as may wait for an answer, see package window
}

// Start connects to address, and reports the stream's events to listener, in goroutines that running counts.
func Start(ctx context.Context, running *sync.WaitGroup, address string, o dial.Options, listener Listener) *Stream {
	ctx, cancel := context.WithCancel(ctx)
	s := &Stream{cancel: cancel, wake: make(chan struct{}, 1)}
	running.Go(func() {
		defer cancel()
		listener.Down(ctx, s.serve(ctx, running, address, o, listener))
	})
	return s
}

// Send queues messages, which the stream keeps. It does not wait for a slow node. The messages that are queued when the
// node accepts the next message go out as one [holdfastv1.Batch], if the node accepts batches.
func (s *Stream) Send(messages ...*holdfastv1.ClientMessage) {
	s.mu.Lock()
	s.queue = append(s.queue, messages...)
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// AskMembers asks the node, on a stream that is up, for the client addresses of the members of its cluster, and reports
// them to listener within the given time, in a goroutine that running counts.
func (s *Stream) AskMembers(ctx context.Context, running *sync.WaitGroup, within time.Duration, listener Listener) {
	running.Go(func() {
		asking, cancel := context.WithTimeout(ctx, within)
		defer cancel()
		answer, err := s.nodes.ListMembers(asking, &holdfastv1.ListMembersRequest{})
		addresses := make([]string, 0, len(answer.GetMembers()))
		for _, m := range answer.GetMembers() {
			addresses = append(addresses, m.GetClientAddress())
		}
		listener.Members(ctx, addresses, err)
	})
}

// Close ends the stream, and its listener's context. It does not wait for the stream's goroutines.
func (s *Stream) Close() { s.cancel() }

// serve runs the stream until it ends. The error is never nil.
func (s *Stream) serve(ctx context.Context, running *sync.WaitGroup, address string, o dial.Options,
	listener Listener,
) error {
	var early dial.Early
	if o.Dial != nil {
		o.Dial = early.Watch(o.Dial)
	}
	cc, err := dial.Client(address, o)
	if err != nil {
		return err
	}
	defer func() { _ = cc.Close() }() // the stream has ended: there is nothing left to lose
	connect, err := holdfastv1.NewSessionServiceClient(cc).Connect(ctx)
	if err != nil {
		return reason(err, &early)
	}
	s.nodes = holdfastv1.NewClusterServiceClient(cc)
	listener.Up(ctx)
	running.Go(func() { s.send(ctx, connect) })
	for {
		m, err := connect.Recv()
		if err != nil {
			return reason(err, &early)
		}
		if state := m.GetState(); state != nil {
			s.batch.Store(int64(state.GetMaxBatch()))
		}
		listener.Received(ctx, m)
	}
}

// reason returns why a stream ended.
func reason(err error, early *dial.Early) error {
	if errors.Is(err, io.EOF) {
		return errors.New("node ended the connection")
	}
	if domain := wire.Domain(err); domain != err { //nolint:errorlint // asks whether Domain found something to say
		return domain
	}
	if why := early.Err(); why != nil {
		return why
	}
	return errors.New(status.Convert(err).Message())
}

// send writes the queued messages. A failed send means that the stream has ended, which the receiver reports.
func (s *Stream) send(ctx context.Context,
	to grpc.BidiStreamingClient[holdfastv1.ClientMessage, holdfastv1.ServerMessage],
) {
	var queue []*holdfastv1.ClientMessage
	for {
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
		queue = s.take(queue)
		for left := queue; len(left) > 0; {
			var m *holdfastv1.ClientMessage
			m, left = next(left, int(s.batch.Load()))
			if to.Send(m) != nil {
				return
			}
		}
		clear(queue)
	}
}

// take returns the queued messages. The queue continues in the memory of spare, the slice that take returned before.
func (s *Stream) take(spare []*holdfastv1.ClientMessage) []*holdfastv1.ClientMessage {
	s.mu.Lock()
	defer s.mu.Unlock()
	queue := s.queue
	if s.queue = spare[:0]; cap(spare) > maxSpare {
		s.queue = nil // an idle connection costs little
	}
	return queue
}

// maxSpare bounds the capacity of the message slice that a stream reuses.
const maxSpare = 256

// next returns the next message to send, which holds as many of the queued messages as the node accepts in one message,
// and the rest of the queue. A node without batches gets one message after the other. The order stays.
func next(queue []*holdfastv1.ClientMessage, limit int) (m *holdfastv1.ClientMessage,
	left []*holdfastv1.ClientMessage,
) {
	n, bytes := 0, 0
	for n < min(len(queue), limit) {
		bytes += weight(queue[n])
		if bytes > maxBatchBytes {
			break
		}
		n++
	}
	if n <= 1 {
		return queue[0], queue[1:]
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Batch{
		Batch: &holdfastv1.Batch{Requests: queue[:n:n]},
	}}, queue[n:]
}

// weight is an upper bound of a message's size in a batch, and much cheaper to compute than the size.
func weight(all *holdfastv1.ClientMessage) int {
	const plain = 128 // a request with its seq and token, or its timeout and request id
	switch m := all.GetMessage().(type) {
	case *holdfastv1.ClientMessage_Open:
		bytes := plain
		for key, value := range m.Open.GetLabels() {
			bytes += len(key) + len(value) + 16
		}
		return bytes
	case *holdfastv1.ClientMessage_Touch:
		return plain + 8*len(m.Touch.GetIds()) + 18*len(m.Touch.GetAckedIds())
	case *holdfastv1.ClientMessage_ResumeSessions:
		return maxBatchBytes + 1 // holds as many sessions as a batch does requests
	case *holdfastv1.ClientMessage_Write, *holdfastv1.ClientMessage_Read, *holdfastv1.ClientMessage_AddWatches,
		*holdfastv1.ClientMessage_RemoveWatches:
		return 16 + proto.Size(all) // paths and data
	default:
		return plain
	}
}
