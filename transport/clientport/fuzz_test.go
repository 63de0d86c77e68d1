package clientport

import (
	"context"
	"io"
	"slices"
	"testing"

	"github.com/hashicorp/go-hclog"
	"google.golang.org/protobuf/proto"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/port"
	"holdfast/transport/ratelimit"
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

func (s *oneMessage) RecvMsg(m any) error {
	if len(s.in) == 0 {
		return io.EOF
	}
	b, err := proto.Marshal(s.in[0])
	if in := m.(*incoming); !in.Decode(b) {
		proto.Merge(in, s.in[0])
	}
	s.in = s.in[1:]
	return err
}

// due returns the seqs of the answers that a message gets: one for each request of a batch, and one without a seq for a
// bad batch, which is answered as a whole.
func due(m *holdfastv1.ClientMessage) (seqs []uint64) {
	batch := m.GetBatch()
	if batch == nil {
		seq, _ := seqFrom(m)
		return []uint64{seq}
	}
	requests := batch.GetRequests()
	if len(requests) == 0 || len(requests) > session.MaxBatch {
		return []uint64{0}
	}
	for _, one := range requests {
		seq, _ := seqFrom(one) // a batch in a batch has none
		seqs = append(seqs, seq)
	}
	return seqs
}

// answers returns the seqs of the answers in the messages of a node. It fails the test when a refusal names no field.
func answers(t *testing.T, said []*holdfastv1.ServerMessage) (seqs []uint64) {
	t.Helper()
	for _, m := range said {
		if several := m.GetAnswers(); several != nil {
			seqs = append(seqs, answers(t, several.GetMessages())...)
			continue
		}
		var seq uint64
		switch a := m.GetMessage().(type) {
		case *holdfastv1.ServerMessage_Opened:
			seq = a.Opened.GetSeq()
		case *holdfastv1.ServerMessage_Resumed:
			seq = a.Resumed.GetSeq()
		case *holdfastv1.ServerMessage_ResumedSessions:
			seq = a.ResumedSessions.GetSeq()
		case *holdfastv1.ServerMessage_Touched:
			seq = a.Touched.GetSeq()
		case *holdfastv1.ServerMessage_Closed:
			seq = a.Closed.GetSeq()
		case *holdfastv1.ServerMessage_Upgraded:
			seq = a.Upgraded.GetSeq()
		case *holdfastv1.ServerMessage_Written:
			seq = a.Written.GetSeq()
		case *holdfastv1.ServerMessage_Read:
			seq = a.Read.GetSeq()
		case *holdfastv1.ServerMessage_WatchesAdded:
			seq = a.WatchesAdded.GetSeq()
		case *holdfastv1.ServerMessage_WatchesRemoved:
			seq = a.WatchesRemoved.GetSeq()
		case *holdfastv1.ServerMessage_Failed:
			if seq = a.Failed.GetSeq(); a.Failed.GetError().GetField() == "" {
				t.Errorf("refused with %v", a.Failed)
			}
		}
		seqs = append(seqs, seq)
	}
	return seqs
}

// FuzzConnectMessage gives the handler any message. It answers each request in it once, with the request's seq, with
// messages that can be sent, and does not panic. test/fuzz has whole conversations with a node behind them.
func FuzzConnectMessage(f *testing.F) {
	for _, m := range []*holdfastv1.ClientMessage{
		{},
		openMessage(1), resumeMessage(2, 3), touchMessage(4, 5, 6),
		closeMessage(7, 8), openMessage(0), resumesMessage(9, 3, 4, 5), resumesMessage(10),
		batchMessage(), batchMessage(touchMessage(1)),
		batchMessage(openMessage(1), touchMessage(2, 5), resumeMessage(3, 3), closeMessage(4, 8), resumesMessage(5, 3, 4)),
		batchMessage(openMessage(1), openMessage(1), openMessage(0), &holdfastv1.ClientMessage{}),
		batchMessage(batchMessage(openMessage(1)), touchMessage(2)),
		writeMessage(1, 7, 1), writeMessage(1, 0, 1), readMessage(2, 7), addMessage(3, 5), removeMessage(4),
		ackMessage(5, 7, 1),
		batchMessage(
			writeMessage(1, 7, 1), readMessage(2, 0), ackMessage(3, 7, 2), addMessage(4, 0), touchMessage(5), removeMessage(4),
		),
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
		service := &fakeService{}
		wrong := fuzzedTree(service)
		s := &sessionServer{
			cfg: Config{}.withDefaults(), service: service, stats: &counters{},
			limiter: ratelimit.New(ratelimit.Config{}),
			port:    port.New(port.Config{Logger: hclog.NewNullLogger()}),
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
		if n := s.port.Stats().Panics; n != 0 {
			t.Fatalf("%d panics", n)
		}
		if all := wrong(); len(all) > 0 {
			t.Errorf("%v asked the node for %+v", m, all)
		}
		for _, answer := range stream.sent {
			if _, err := proto.Marshal(answer); err != nil {
				t.Fatalf("an answer cannot be sent: %v", err)
			}
		}
		got, want := answers(t, stream.sent), due(m)
		if slices.Sort(got); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
			t.Errorf("%v was answered to seqs %v, want %v", m, got, want)
		}
	})
}
