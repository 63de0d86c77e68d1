package peerport

import (
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// FuzzPeerMessage: a message that passes a peer's checks means the same to the next peer, and nothing panics.
func FuzzPeerMessage(f *testing.F) {
	for _, m := range learnerMessages() {
		p, err := wire.LearnerProto(m)
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
		p, err := wire.LeaderProto(m)
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
		porttest.OfMessage().Hold(t, len(b), func() {
			fuzzLearner(t, b)
			fuzzLeader(t, b)
		})
	})
}

func fuzzLearner(t *testing.T, b []byte) {
	t.Helper()
	p := &peerv1.LearnerMessage{}
	if proto.Unmarshal(b, p) != nil {
		return
	}
	if _, h, err := wire.HelloFrom(p); err == nil && !h.Node.Valid() {
		t.Errorf("a hello of node %d passed", h.Node)
	}
	m, err := wire.LearnerFrom(p)
	if err != nil {
		return
	}
	again, err := wire.LearnerProto(m)
	if err != nil {
		t.Fatalf("%+v cannot be sent on: %v", m, err)
	}
	if _, err := wire.LearnerFrom(again); err != nil {
		t.Fatalf("%+v is refused by the next peer: %v", m, err)
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
	m, err := wire.LeaderFrom(p)
	if err != nil {
		return
	}
	again, err := wire.LeaderProto(m)
	if err != nil {
		t.Fatalf("%+v cannot be sent on: %v", m, err)
	}
	second, err := wire.LeaderFrom(again)
	if err != nil {
		t.Fatalf("%+v is refused by the next peer: %v", m, err)
	}
	if r := m.Reply; r != nil {
		if (r.Err == nil) != (second.Reply.Err == nil) ||
			r.Err != nil && wire.Code(r.Err) != wire.Code(second.Reply.Err) {
			t.Errorf("error %v became %v", r.Err, second.Reply.Err)
		}
		if r.Session.ID != 0 && !r.Session.Owner.Valid() {
			t.Errorf("a session of node %d passed", r.Session.Owner)
		}
	}
}
