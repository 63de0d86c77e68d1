package peerport

import (
	"fmt"
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// FuzzPeerMessage: a message that passes a peer's checks means the same to the next peer, and nothing panics.
func FuzzPeerMessage(f *testing.F) {
	for _, m := range learnerMessages() {
		if err := wire.SendLearner(m, func(p *peerv1.LearnerMessage) error { return add(f, p) }); err != nil {
			f.Fatal(err)
		}
	}
	for _, m := range leaderMessages() {
		if err := wire.SendLeader(m, func(p *peerv1.LeaderMessage) error { return add(f, p) }); err != nil {
			f.Fatal(err)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		porttest.OfMessage().Hold(t, len(b), func() {
			fuzzLearner(t, b)
			fuzzLeader(t, b)
		})
	})
}

func add(f *testing.F, m proto.Message) error {
	f.Helper()
	b, err := proto.Marshal(m)
	f.Add(b)
	return err
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
	sent := 0
	if err := wire.SendLearner(m, func(p *peerv1.LearnerMessage) error {
		again, err := wire.LearnerFrom(p)
		if err != nil {
			return fmt.Errorf("refused by the next peer: %w", err)
		}
		sent += len(again.Requests)
		return nil
	}); err != nil || sent != len(m.Requests) {
		t.Fatalf("%+v cannot be sent on: %v, %d requests of %d", m, err, sent, len(m.Requests))
	}
	for _, r := range m.Requests {
		if o := r.Open; o != nil && (o.Timeout <= 0 || o.Labels.Check() != nil) {
			t.Errorf("an open out of range passed: %+v", o)
		}
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
	var second []session.Reply
	if err := wire.SendLeader(m, func(p *peerv1.LeaderMessage) error {
		again, err := wire.LeaderFrom(p)
		second = append(second, again.Replies...)
		return err
	}); err != nil || len(second) != len(m.Replies) {
		t.Fatalf("%+v cannot be sent on: %v, %d replies of %d", m, err, len(second), len(m.Replies))
	}
	for i, r := range m.Replies {
		if (r.Err == nil) != (second[i].Err == nil) || r.Err != nil && wire.Code(r.Err) != wire.Code(second[i].Err) {
			t.Errorf("error %v became %v", r.Err, second[i].Err)
		}
		if r.Session.ID != 0 && !r.Session.Owner.Valid() {
			t.Errorf("a session of node %d passed", r.Session.Owner)
		}
	}
}
