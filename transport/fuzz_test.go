package transport

import (
	"context"
	"io"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
)

func badDuration() *durationpb.Duration { return &durationpb.Duration{Seconds: 1, Nanos: -1} }

// oneMessage is a Connect stream on which a client says one thing.
type oneMessage struct {
	ctx  context.Context //nolint:containedctx // this is how gRPC hands a stream its context
	in   []*holdfastv1.ClientMessage
	sent []*holdfastv1.ServerMessage
}

func (s *oneMessage) Context() context.Context { return s.ctx }

func (s *oneMessage) Send(m *holdfastv1.ServerMessage) error {
	s.sent = append(s.sent, m)
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

// FuzzConnect gives the handler any message: one answer, with the message's seq, that can be sent; and no panic.
func FuzzConnect(f *testing.F) {
	for _, m := range []*holdfastv1.ClientMessage{{}, openMessage(1), resumeMessage(2, 3), touchMessage(4, 5, 6), closeMessage(7, 8), openMessage(0)} {
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
			cfg: ClientConfig{}.withDefaults(), service: &fakeService{}, stats: &clientCounters{},
			port: &port{logger: hclog.NewNullLogger(), stopping: make(chan struct{})},
		}
		stream := &oneMessage{ctx: t.Context(), in: []*holdfastv1.ClientMessage{m}}
		if err := s.connect(stream); err != nil {
			t.Fatalf("the connection ended with %v", err)
		}
		s.port.pumps.Wait()
		if len(stream.sent) != 1 || s.port.panics.Load() != 0 {
			t.Fatalf("%d answers, %d panics", len(stream.sent), s.port.panics.Load())
		}
		if _, err := proto.Marshal(stream.sent[0]); err != nil {
			t.Fatalf("the answer cannot be sent: %v", err)
		}
		want, _ := seqFrom(m)
		if failed := stream.sent[0].GetFailed(); failed != nil && (failed.GetSeq() != want || failed.GetError().GetField() == "") {
			t.Errorf("%v was refused with %v", m, failed)
		}
	})
}

// FuzzPeerMessage: what passes a peer's checks is understood the same by the next peer; and no panic.
func FuzzPeerMessage(f *testing.F) {
	for _, m := range learnerMessages() {
		p, err := learnerProto(m)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	for _, m := range leaderMessages() {
		p, err := leaderProto(m)
		if err != nil {
			f.Fatal(err)
		}
		b, err := proto.Marshal(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fuzzLearner(t, b)
		fuzzLeader(t, b)
	})
}

func fuzzLearner(t *testing.T, b []byte) {
	t.Helper()
	p := &peerv1.LearnerMessage{}
	if proto.Unmarshal(b, p) != nil {
		return
	}
	if _, h, err := helloFrom(p); err == nil && !h.Node.Valid() {
		t.Errorf("a hello of node %d passed", h.Node)
	}
	m, err := learnerFrom(p)
	if err != nil {
		return
	}
	again, err := learnerProto(m)
	if err != nil {
		t.Fatalf("%+v cannot be sent on: %v", m, err)
	}
	if _, err := learnerFrom(again); err != nil {
		t.Fatalf("%+v is refused by the next: %v", m, err)
	}
	if o := m.Request; o != nil && o.Open != nil && (o.Open.Timeout <= 0 || o.Open.Labels.Check() != nil) {
		t.Errorf("an open out of range passed: %+v", o.Open)
	}
}

func fuzzLeader(t *testing.T, b []byte) {
	t.Helper()
	p := &peerv1.LeaderMessage{}
	if proto.Unmarshal(b, p) != nil {
		return
	}
	m, err := leaderFrom(p)
	if err != nil {
		return
	}
	again, err := leaderProto(m)
	if err != nil {
		t.Fatalf("%+v cannot be sent on: %v", m, err)
	}
	second, err := leaderFrom(again)
	if err != nil {
		t.Fatalf("%+v is refused by the next: %v", m, err)
	}
	if r := m.Reply; r != nil {
		if (r.Err == nil) != (second.Reply.Err == nil) || r.Err != nil && Code(r.Err) != Code(second.Reply.Err) {
			t.Errorf("error %v became %v", r.Err, second.Reply.Err)
		}
		if r.Session.ID != 0 && !r.Session.Owner.Valid() {
			t.Errorf("a session of node %d passed", r.Session.Owner)
		}
	}
}
