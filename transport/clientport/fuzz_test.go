package clientport

import (
	"context"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/transport/gate"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
)

// oneMessage is a Connect stream on which the client sends one message.
type oneMessage struct {
	ctx  context.Context //nolint:containedctx // this is how gRPC hands a stream its context
	in   []*holdfastv1.ClientMessage
	sent []*holdfastv1.ServerMessage
}

func (s *oneMessage) Context() context.Context { return s.ctx }

func (s *oneMessage) SendMsg(m any) error {
	s.sent = append(s.sent, sent(m))
	return nil
}

func (s *oneMessage) Recv() (*holdfastv1.ClientMessage, error) {
	if len(s.in) == 0 {
		return nil, io.EOF
	}
	m := s.in[0]
	s.in = s.in[1:]
	return m, nil
}

// FuzzConnectMessage gives the handler any message. It answers once, with the message's seq, with a message that can be
// sent, and does not panic. test/fuzz has whole conversations with a node behind them.
func FuzzConnectMessage(f *testing.F) {
	for _, m := range []*holdfastv1.ClientMessage{
		{},
		openMessage(1), resumeMessage(2, 3), touchMessage(4, 5, 6),
		closeMessage(7, 8), openMessage(0), resumesMessage(9, 3, 4, 5), resumesMessage(10),
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m := &holdfastv1.ClientMessage{}
		if proto.Unmarshal(b, m) != nil {
			return
		}
		s := &sessionServer{
			cfg: Config{}.withDefaults(), service: &fakeService{}, stats: &counters{},
			gate: gate.New(gate.Config{}),
			port: port.New(port.Config{Logger: hclog.NewNullLogger()}),
		}
		stream := &oneMessage{ctx: t.Context(), in: []*holdfastv1.ClientMessage{m}}
		porttest.OfMessage().Hold(t, len(b), func() {
			if err := s.connect(stream); err != nil {
				t.Fatalf("the connection ended with %v", err)
			}
			if err := s.port.Halt(t.Context()); err != nil {
				t.Fatal(err)
			}
		})
		if len(stream.sent) != 1 || s.port.Stats().Panics != 0 {
			t.Fatalf("%d answers, %d panics", len(stream.sent), s.port.Stats().Panics)
		}
		if _, err := proto.Marshal(stream.sent[0]); err != nil {
			t.Fatalf("the answer cannot be sent: %v", err)
		}
		want, _ := seqFrom(m)
		if failed := stream.sent[0].GetFailed(); failed != nil &&
			(failed.GetSeq() != want || failed.GetError().GetField() == "") {
			t.Errorf("%v was refused with %v", m, failed)
		}
	})
}
