package wire

import (
	"slices"
	"strings"
	"testing"
	"time"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

func forwarded() session.ForwardMessage {
	return session.ForwardMessage{Writes: []session.ForwardedWrite{
		{Command: []byte{1, 2}, Weight: 10_001, Session: 1 << 63, Number: 7},
		{Command: []byte{3}, Weight: 1, Session: 8, Number: 1<<64 - 1, Connection: 1<<64 - 2, Principal: 1<<64 - 3},
	}}
}

func TestForwardRoundTrip(t *testing.T) {
	hello := session.ForwardHello{Node: 254, Incarnation: 7, Term: 9}
	id, got, err := ForwardHelloFrom(overWire(t, ForwardHelloProto("c", hello)))
	wantEqual(t, got, err, hello)
	wantEqual(t, id, err, "c")
	term, err := ForwardWelcomeFrom(overWire(t, ForwardWelcomeProto(9)))
	wantEqual(t, term, err, 9)
	for _, want := range []session.ForwardMessage{
		forwarded(), {Acknowledged: []session.Acknowledged{{Session: 7, UpTo: 9}, {Session: 1 << 63, UpTo: 1}}},
	} {
		var m session.ForwardMessage
		m, err = ForwardFrom(overWire(t, ForwardProto(want)))
		wantEqual(t, m, err, want)
	}
	refusals := []session.WriteRefusal{
		{Session: 7, Number: 9, Why: session.WriteBusy, RetryAfter: session.MaxRetryAfter},
		{Session: 7, Number: 10, Why: session.WriteGap},
		{Session: 1, Number: 1, Why: session.WriteNotLeader},
		{Session: 1, Number: 2, Why: session.WriteStopping},
	}
	refused, err := WriteRefusalsFrom(overWire(t, WriteRefusalsProto(refusals)))
	wantEqual(t, refused, err, refusals)
}

func TestForwardOutOfRange(t *testing.T) {
	write := func(change func(*peerv1.Writes)) *peerv1.ForwardRequest {
		p := ForwardProto(forwarded())
		change(p.GetWrites())
		return p
	}
	acknowledge := func(sessions, upTo []uint64) *peerv1.ForwardRequest {
		return &peerv1.ForwardRequest{Message: &peerv1.ForwardRequest_Acknowledgements{
			Acknowledgements: &peerv1.Acknowledgements{Sessions: sessions, UpTo: upTo},
		}}
	}
	half := make([]byte, session.MaxForwardBytes/2+1)
	for _, one := range []struct {
		field string
		p     *peerv1.ForwardRequest
	}{
		{"message", &peerv1.ForwardRequest{}},
		{"message", ForwardHelloProto("c", session.ForwardHello{Node: 1, Term: 1})},
		{"writes", write(func(p *peerv1.Writes) { p.Writes = nil })},
		{"writes", write(func(p *peerv1.Writes) { p.Writes = slices.Repeat(p.Writes[:1], session.MaxPeerBatch+1) })},
		{"writes", write(func(p *peerv1.Writes) { p.Writes[0].Command, p.Writes[1].Command = half, half })},
		{"writes[1].command", write(func(p *peerv1.Writes) { p.Writes[1].Command = nil })},
		{"writes[0].command", write(func(p *peerv1.Writes) {
			p.Writes[0].Command = make([]byte, session.MaxCommandBytes+1)
		})},
		{"writes[1].weight", write(func(p *peerv1.Writes) { p.Writes[1].Weight = 0 })},
		{"writes[0].session", write(func(p *peerv1.Writes) { p.Writes[0].Session = 0 })},
		{"writes[0].number", write(func(p *peerv1.Writes) { p.Writes[0].Number = 0 })},
		{"acknowledgements.sessions", acknowledge(nil, nil)},
		{"acknowledgements.sessions", acknowledge([]uint64{0}, []uint64{1})},
		{"acknowledgements.sessions", acknowledge(make([]uint64, session.MaxPeerBatch+1), nil)},
		{"acknowledgements.up_to", acknowledge([]uint64{1, 2}, []uint64{1})},
		{"acknowledgements.up_to[1]", acknowledge([]uint64{1, 2}, []uint64{1, 0})},
	} {
		_, err := ForwardFrom(one.p)
		porttest.WantField(t, err, one.field)
	}
	single := session.ForwardMessage{Writes: forwarded().Writes[:1]}
	single.Writes[0].Command = make([]byte, session.MaxCommandBytes)
	if _, err := ForwardFrom(ForwardProto(single)); err != nil {
		t.Errorf("one large command: %v", err)
	}
	for field, hello := range map[string]*peerv1.ForwardRequest{
		"message":          {},
		"hello.node":       ForwardHelloProto("c", session.ForwardHello{Term: 1}),
		"hello.cluster_id": ForwardHelloProto(strings.Repeat("c", 256), session.ForwardHello{Node: 1, Term: 1}),
		"hello.term":       ForwardHelloProto("c", session.ForwardHello{Node: 1}),
	} {
		_, _, err := ForwardHelloFrom(hello)
		porttest.WantField(t, err, field)
	}
	_, err := ForwardWelcomeFrom(&peerv1.ForwardResponse{})
	porttest.WantField(t, err, "welcome.term")
	_, err = WriteRefusalsFrom(&peerv1.ForwardResponse{})
	porttest.WantField(t, err, "refusals")
	for field, spoil := range map[string]func(*peerv1.WriteRefusal){
		"refusals[0].session":     func(p *peerv1.WriteRefusal) { p.Session = 0 },
		"refusals[0].number":      func(p *peerv1.WriteRefusal) { p.Number = 0 },
		"refusals[0].reason":      func(p *peerv1.WriteRefusal) { p.Reason = 5 },
		"refusals[0].retry_after": func(p *peerv1.WriteRefusal) { p.RetryAfter = porttest.BadDuration() },
	} {
		p := WriteRefusalsProto([]session.WriteRefusal{
			{Session: 1, Number: 1, Why: session.WriteBusy, RetryAfter: time.Second},
		})
		spoil(p.GetRefusals().GetRefusals()[0])
		_, err = WriteRefusalsFrom(p)
		porttest.WantField(t, err, field)
	}
}
