package system

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	mathrand "math/rand/v2"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/dial"
)

// unavailable is when a request comes back that a node could not serve and named no time for: it has no leader, say. It
// is the SDK's mean wait.
const unavailable = 25 * time.Millisecond

// Held is a session of Holdfast, as a client of bare streams keeps it.
type Held struct {
	ID, Attachment uint64
	Credential     [16]byte
	// writing is nil for a session that does not write.
	writing *writing
}

func (h *Held) token() *holdfastv1.Token {
	return &holdfastv1.Token{SessionId: h.ID, Attachment: h.Attachment, Credential: h.Credential[:]}
}

// Stream is a Connect stream. It repeats no request, and touches no session by itself.
type Stream struct {
	stream holdfastv1.SessionService_ConnectClient
	cancel context.CancelFunc
	// leave gives up the connection.
	leave func()
	// instance names the client process in moves (M1 a resume is a move).
	instance uint64
	// wake has room for one: something was queued.
	wake chan struct{}
	done sync.WaitGroup

	mu sync.Mutex
	// seq numbers requests; queued wait to be sent; pending are the callbacks of requests in flight. All guarded by mu.
	seq     uint64
	queued  []*holdfastv1.ClientMessage
	pending map[uint64]func(*holdfastv1.ServerMessage, error)
	// ended says why the stream has ended; guarded by mu.
	ended error
	// onExpired gets the number of sessions that expired; guarded by mu.
	onExpired func(sessions int)
	// batch is the largest number of requests in a message, 1 until the node has reported more; guarded by mu.
	batch int
	// onEvent receives events, and eventsCame counts their messages; guarded by mu.
	onEvent    func(error)
	eventsCame int
}

// Dial opens a stream to the client port of a node. The stream ends with ctx.
func Dial(ctx context.Context, address string) (*Stream, error) {
	conn, err := dial.Client(address, dial.Options{})
	if err != nil {
		return nil, err
	}
	return connect(ctx, conn, func() { _ = conn.Close() })
}

// connect opens a stream on a connection, which it leaves at its end, and if there is an error.
func connect(ctx context.Context, conn *grpc.ClientConn, leave func()) (*Stream, error) {
	ctx, cancel := context.WithCancel(ctx)
	bound := time.AfterFunc(requestWait, cancel)
	stream, err := holdfastv1.NewSessionServiceClient(conn).Connect(ctx, grpc.WaitForReady(true))
	if err != nil || !bound.Stop() {
		cancel()
		leave()
		return nil, errors.Join(err, ctx.Err())
	}
	s := &Stream{
		stream: stream, cancel: cancel, leave: leave, wake: make(chan struct{}, 1),
		instance: mathrand.Uint64() | 1,
		pending:  map[uint64]func(*holdfastv1.ServerMessage, error){}, batch: 1,
	}
	s.done.Go(func() { s.send(ctx) })
	s.done.Go(s.receive)
	return s, nil
}

// ask queues a request. The answer to it, or the end of the stream, calls answered.
func (s *Stream) ask(build func(seq uint64) *holdfastv1.ClientMessage,
	answered func(*holdfastv1.ServerMessage, error),
) {
	s.mu.Lock()
	if err := s.ended; err != nil {
		s.mu.Unlock()
		answered(nil, err)
		return
	}
	s.seq++
	s.pending[s.seq] = answered
	s.queued = append(s.queued, build(s.seq))
	s.mu.Unlock()
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// send sends what is queued, in as few messages as the node accepts.
func (s *Stream) send(ctx context.Context) {
	var sending []*holdfastv1.ClientMessage
	for {
		s.mu.Lock()
		clear(sending)
		sending, s.queued = s.queued, sending[:0]
		batch := s.batch
		s.mu.Unlock()
		for some := range slices.Chunk(sending, batch) {
			if s.stream.Send(together(some)) != nil { // receive learns why
				return
			}
		}
		if len(sending) > 0 {
			continue
		}
		select {
		case <-s.wake:
		case <-ctx.Done():
			return
		}
	}
}

// together puts requests into one message.
func together(some []*holdfastv1.ClientMessage) *holdfastv1.ClientMessage {
	if len(some) == 1 {
		return some[0]
	}
	return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Batch{
		Batch: &holdfastv1.Batch{Requests: some},
	}}
}

func (s *Stream) receive() {
	for {
		m, err := s.stream.Recv()
		if err != nil {
			s.end(errors.Join(ErrEnded, err))
			return
		}
		if state := m.GetState(); state.GetMaxBatch() > 0 {
			s.mu.Lock()
			s.batch = int(state.GetMaxBatch())
			s.mu.Unlock()
		}
		if all := m.GetAnswers(); all != nil {
			for _, one := range all.GetMessages() {
				s.received(one)
			}
			continue
		}
		s.received(m)
	}
}

// received handles one message, or one of several that came together.
func (s *Stream) received(m *holdfastv1.ServerMessage) {
	if gone := m.GetGone(); gone != nil {
		s.mu.Lock()
		onExpired := s.onExpired
		s.mu.Unlock()
		if onExpired != nil && gone.GetCause() == holdfastv1.Cause_CAUSE_EXPIRED {
			onExpired(len(gone.GetIds()))
		}
		return
	}
	if s.deliverEvents(m) {
		return
	}
	seq, err := answers(m)
	s.mu.Lock()
	answered := s.pending[seq]
	delete(s.pending, seq)
	s.mu.Unlock()
	if answered != nil {
		answered(m, err)
	}
}

// answers returns which request a message answers, and its refusal.
func answers(m *holdfastv1.ServerMessage) (uint64, error) {
	switch m := m.GetMessage().(type) {
	case *holdfastv1.ServerMessage_Opened:
		return m.Opened.GetSeq(), nil
	case *holdfastv1.ServerMessage_Resumed:
		return m.Resumed.GetSeq(), nil
	case *holdfastv1.ServerMessage_ResumedSessions:
		return m.ResumedSessions.GetSeq(), nil
	case *holdfastv1.ServerMessage_Touched:
		return m.Touched.GetSeq(), nil
	case *holdfastv1.ServerMessage_Closed:
		return m.Closed.GetSeq(), nil
	case *holdfastv1.ServerMessage_Written:
		return m.Written.GetSeq(), nil
	case *holdfastv1.ServerMessage_Read:
		return m.Read.GetSeq(), nil
	case *holdfastv1.ServerMessage_WatchesAdded:
		return m.WatchesAdded.GetSeq(), nil
	case *holdfastv1.ServerMessage_Failed:
		return m.Failed.GetSeq(), refusal(m.Failed.GetError())
	default:
		return 0, nil
	}
}

// refusal is the error of what was refused. What may be repeated comes back after a while.
func refusal(why *holdfastv1.ErrorDetail) error {
	if after := why.GetRetryAfter(); after != nil {
		return &RefusedError{After: after.AsDuration()}
	}
	switch reason := why.GetReason(); reason { //nolint:exhaustive // all others are for good
	case holdfastv1.Reason_REASON_SESSION_EXPIRED:
		return ErrExpired
	case holdfastv1.Reason_REASON_NO_NODE:
		return ErrNoEntry
	case holdfastv1.Reason_REASON_GAP, holdfastv1.Reason_REASON_WINDOW, // of a write behind one that was refused
		holdfastv1.Reason_REASON_CLOSING, holdfastv1.Reason_REASON_LAGGING, holdfastv1.Reason_REASON_NO_LEADER,
		holdfastv1.Reason_REASON_NOT_LEADER, holdfastv1.Reason_REASON_STOPPING,
		holdfastv1.Reason_REASON_OUTCOME_UNKNOWN:
		return &RefusedError{After: unavailable}
	default:
		return fmt.Errorf("refused: %s %s %s", reason, why.GetField(), why.GetLimit())
	}
}

// end answers all that waits.
func (s *Stream) end(why error) {
	s.mu.Lock()
	if s.ended == nil {
		s.ended = why
	}
	pending, onEvent := s.pending, s.onEvent
	s.pending, s.onEvent = map[uint64]func(*holdfastv1.ServerMessage, error){}, nil
	s.mu.Unlock()
	for _, answered := range pending {
		answered(nil, why)
	}
	if onEvent != nil {
		onEvent(why)
	}
}

// Open opens a session. Like the SDK it names each open (O2 idempotent opens).
func (s *Stream) Open(timeout time.Duration, done func(Session, error)) { s.open(timeout, 0, done) }

func (s *Stream) open(timeout time.Duration, instance uint64, done func(Session, error)) {
	name := make([]byte, 16)
	_, _ = rand.Read(name)
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Open{Open: &holdfastv1.Open{
			Seq: seq, Timeout: durationpb.New(timeout), RequestId: name, Instance: instance,
		}}}
	}, func(m *holdfastv1.ServerMessage, err error) {
		if err != nil {
			done(nil, err)
			return
		}
		done(hold(m.GetOpened().GetToken()), nil)
	})
}

func hold(t *holdfastv1.Token) *Held {
	return &Held{ID: t.GetSessionId(), Attachment: t.GetAttachment(), Credential: [16]byte(t.GetCredential())}
}

// Close ends a session.
func (s *Stream) Close(held Session, done func(error)) {
	token := held.(*Held).token() //nolint:errcheck // this system's own
	s.ask(func(seq uint64) *holdfastv1.ClientMessage {
		return &holdfastv1.ClientMessage{Message: &holdfastv1.ClientMessage_Close{
			Close: &holdfastv1.Close{Seq: seq, Token: token},
		}}
	}, func(_ *holdfastv1.ServerMessage, err error) { done(err) })
}

// Touch sends one message for all sessions of the stream.
func (s *Stream) Touch(done func(error)) {
	s.Promise(func(_ time.Duration, err error) { done(err) })
}

// End drops the connection.
func (s *Stream) End() {
	s.cancel()
	s.leave()
	s.done.Wait()
	s.end(ErrEnded)
}
