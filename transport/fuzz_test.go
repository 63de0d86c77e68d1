package transport

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/fuzz/bound"
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

// ofMessage is what one message may take: proto's forms, ours, and an answer.
func ofMessage() bound.Cost { return bound.Cost{PerByte: 1 << 10, Fixed: 512 << 10} }

// FuzzConnectMessage gives the handler any message: one answer, with the message's seq, that can be sent; and no panic. Whole
// conversations, with a node behind them, are in test/fuzz.
func FuzzConnectMessage(f *testing.F) {
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
			cfg: ClientConfig{}.withDefaults(), service: &fakeService{}, stats: &clientCounters{}, gate: NewGate(GateConfig{}),
			port: &port{logger: hclog.NewNullLogger(), stopping: make(chan struct{})},
		}
		stream := &oneMessage{ctx: t.Context(), in: []*holdfastv1.ClientMessage{m}}
		ofMessage().Hold(t, len(b), func() {
			if err := s.connect(stream); err != nil {
				t.Fatalf("the connection ended with %v", err)
			}
			s.port.pumps.Wait()
		})
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
		ofMessage().Hold(t, len(b), func() {
			fuzzLearner(t, b)
			fuzzLeader(t, b)
		})
	})
}

// FuzzErrorDetail: what a node says of an error is understood as one, whatever it says, and its state as one of a node or of none.
func FuzzErrorDetail(f *testing.F) {
	for _, d := range []*holdfastv1.ErrorDetail{
		{},
		Detail(&session.ExpiredError{ID: 7, LocalTo: 3}),
		Detail(&session.LimitError{Name: "n", Limit: "l", RetryAfter: time.Second}),
		{Reason: holdfastv1.Reason_REASON_SESSION_EXPIRED, Certificate: CertificateProto(certificate(7))},
		{Reason: holdfastv1.Reason_REASON_NOT_LEADER, Field: "f", Limit: "l", State: StateProto(stateOf(3))},
		{Reason: holdfastv1.Reason_REASON_LIMIT, RetryAfter: durationpb.New(-time.Hour)},
		{State: &holdfastv1.NodeState{Node: 255, Mode: 9}},
	} {
		b, err := proto.Marshal(d)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		d := &holdfastv1.ErrorDetail{}
		if proto.Unmarshal(b, d) != nil {
			return
		}
		var state session.NodeState
		var err error
		ofMessage().Hold(t, len(b), func() { state, err = StateFrom(d.GetState()), FromDetail(d, "text") })
		if state.Node != 0 && !state.Node.Valid() {
			t.Errorf("%v became %+v", d.GetState(), state)
		}
		if err == nil || err.Error() == "" || Detail(err) == nil {
			t.Errorf("%v became %v", d, err)
		}
		if limit, ok := errors.AsType[*session.LimitError](err); ok && limit.RetryAfter < 0 {
			t.Errorf("%v asks to come back %v ago", d, limit.RetryAfter)
		}
		if known(d.GetReason()) && Detail(err).GetReason() != d.GetReason() {
			t.Errorf("%v became %v", d, Detail(err))
		}
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
