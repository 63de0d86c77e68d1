package transport

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/grpc/codes"
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
			cfg: ClientConfig{}.withDefaults(), service: &fakeService{}, stats: &clientCounters{},
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

// FuzzUnary gives the unary calls any request: an answer that can be sent, or an error that names what is out of range; and a
// page token or an error's detail of the wire is understood or refused.
func FuzzUnary(f *testing.F) {
	token := TokenProto(grant(7).Token)
	id := make([]byte, 16)
	for call, m := range []proto.Message{
		&holdfastv1.OpenSessionRequest{Timeout: PromiseProto(time.Second), RequestId: id, Labels: map[string]string{"a": "b"}},
		&holdfastv1.ResumeSessionRequest{Token: token, Instance: 1, Attempt: 1},
		&holdfastv1.TouchSessionsRequest{Tokens: []*holdfastv1.Token{token, token, {}}},
		&holdfastv1.CloseSessionRequest{Token: token},
		&holdfastv1.GetSessionRequest{SessionId: 7},
		&holdfastv1.ListSessionsRequest{
			PageSize: 10, PageToken: pageToken(9),
			Filter: &holdfastv1.SessionFilter{Owner: 3, MinAge: PromiseProto(time.Second), MaxRemaining: badDuration(), Labels: map[string]string{"a": ""}},
		},
		&holdfastv1.ErrorDetail{Reason: holdfastv1.Reason_REASON_NOT_LEADER, Field: "f", Limit: "l"},
	} {
		b, err := proto.Marshal(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(uint8(call), b)
	}
	s := &sessionServer{
		cfg: ClientConfig{}.withDefaults(), stats: &clientCounters{}, port: &port{logger: hclog.NewNullLogger(), stopping: make(chan struct{})},
		service: &fakeService{
			find: func(_ context.Context, id session.ID) (session.Listed, error) {
				return session.Listed{Session: grant(id).Session}, nil
			},
			list: func(_ context.Context, q session.Query) (session.Page, error) {
				if q.Size < 1 || q.Size > session.MaxPage || q.Filter.MinRemaining < 0 || q.Filter.MaxRemaining < 0 {
					return session.Page{}, fmt.Errorf("asked for %+v", q)
				}
				return session.Page{Sessions: []session.Listed{{Session: grant(7).Session}}, Next: 7}, nil
			},
		},
	}
	f.Fuzz(func(t *testing.T, call uint8, b []byte) {
		var answer proto.Message
		var err error
		ofMessage().Hold(t, len(b), func() { answer, err = s.callFuzzed(t, call, b) })
		switch {
		case err != nil:
			if Code(err) != codes.InvalidArgument && Code(err) != codes.ResourceExhausted || Detail(err).GetField() == "" {
				t.Errorf("call %d was refused with %v", call, err)
			}
		case answer != nil:
			if _, err := proto.Marshal(answer); err != nil {
				t.Errorf("the answer cannot be sent: %v", err)
			}
		}
	})
}

// callFuzzed makes one of the unary calls with the message that b is, if it is one.
func (s *sessionServer) callFuzzed(t *testing.T, call uint8, b []byte) (proto.Message, error) {
	t.Helper()
	switch call {
	case 0:
		return called(t, b, &holdfastv1.OpenSessionRequest{}, s.OpenSession)
	case 1:
		return called(t, b, &holdfastv1.ResumeSessionRequest{}, s.ResumeSession)
	case 2:
		return called(t, b, &holdfastv1.TouchSessionsRequest{}, s.TouchSessions)
	case 3:
		return called(t, b, &holdfastv1.CloseSessionRequest{}, s.CloseSession)
	case 4:
		return called(t, b, &holdfastv1.GetSessionRequest{}, s.GetSession)
	case 5:
		return called(t, b, &holdfastv1.ListSessionsRequest{}, s.ListSessions)
	default:
		d := &holdfastv1.ErrorDetail{}
		if proto.Unmarshal(b, d) == nil {
			if err := FromDetail(d, "text"); err == nil || err.Error() == "" || Detail(err) == nil {
				t.Errorf("%v became %v", d, err)
			}
		}
		return nil, nil //nolint:nilnil // there is no call
	}
}

func called[Q, A proto.Message](t *testing.T, b []byte, q Q, call func(context.Context, Q) (A, error)) (proto.Message, error) {
	t.Helper()
	if bad := proto.Unmarshal(b, q); bad != nil {
		return nil, nil //nolint:nilerr,nilnil // gRPC would have refused it: there is no call
	}
	answer, err := call(t.Context(), q)
	if err != nil {
		return nil, err
	}
	return answer, nil
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
