package peerport

import (
	"errors"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// TestBadPeerMessagesEndTheStream sends fields out of range after a valid hello, and wants them refused by name.
func TestBadPeerMessagesEndTheStream(t *testing.T) {
	good := wire.TokenProto(porttest.Grant(9).Token)
	request := func(r *peerv1.Request) *peerv1.LearnerMessage {
		packed, err := proto.Marshal(&peerv1.Requests{Requests: []*peerv1.Request{r}})
		if err != nil {
			t.Fatal(err)
		}
		return &peerv1.LearnerMessage{Message: &peerv1.LearnerMessage_Requests{Requests: packed}}
	}
	open := func(o *peerv1.OpenRequest) *peerv1.LearnerMessage {
		return request(&peerv1.Request{Body: &peerv1.Request_Open{Open: o}})
	}
	id, second := make([]byte, 16), wire.PromiseProto(time.Second)
	bubble.Test(t, func(t *testing.T) {
		p := peerPort(t, hears)
		defer p.stop(t)
		network := p.network
		for i, tt := range []struct {
			field string
			m     *peerv1.LearnerMessage
		}{
			{"message", &peerv1.LearnerMessage{}},
			{"message", wire.HelloProto("c", session.Hello{Node: 2})},
			{"answer.stall_age", &peerv1.LearnerMessage{
				Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{StallAge: porttest.BadDuration()}},
			}},
			{"answer.process_age", &peerv1.LearnerMessage{
				Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{ProcessAge: porttest.BadDuration()}},
			}},
			{"answer.credit", &peerv1.LearnerMessage{
				Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{Credit: porttest.BadDuration()}},
			}},
			{"answer.digest", &peerv1.LearnerMessage{
				Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{DigestIndex: 3, Digest: id[:15]}},
			}},
			{"answer.digest", &peerv1.LearnerMessage{
				Message: &peerv1.LearnerMessage_Answer{Answer: &peerv1.Answer{Digest: id}},
			}},
			{"requests.body", request(&peerv1.Request{})},
			{"requests.request_id", open(&peerv1.OpenRequest{Timeout: second})},
			{"requests.timeout", open(&peerv1.OpenRequest{RequestId: id})},
			{"requests.labels", open(
				&peerv1.OpenRequest{RequestId: id, Timeout: second, Labels: []*peerv1.Label{{Key: "b"}, {Key: "a"}}},
			)},
			{"requests.token", request(&peerv1.Request{Body: &peerv1.Request_Resume{Resume: &peerv1.ResumeRequest{}}})},
			{"requests.instance", request(
				&peerv1.Request{Body: &peerv1.Request_Resume{Resume: &peerv1.ResumeRequest{Token: good}}},
			)},
			{"requests.token", request(&peerv1.Request{Body: &peerv1.Request_Close{Close: &peerv1.CloseRequest{}}})},
			{"requests.count", request(
				&peerv1.Request{Body: &peerv1.Request_Claim{Claim: &peerv1.ClaimRequest{Ms: 1}}},
			)},
			{"requests.count", request(
				&peerv1.Request{Body: &peerv1.Request_Claim{Claim: &peerv1.ClaimRequest{Count: session.MaxClaim + 1}}},
			)},
			{"requests.session_id", request(
				&peerv1.Request{Body: &peerv1.Request_Upgrade{Upgrade: &peerv1.UpgradeRequest{}}},
			)},
			{"requests.timeout", request(
				&peerv1.Request{Body: &peerv1.Request_Upgrade{Upgrade: &peerv1.UpgradeRequest{SessionId: 1}}},
			)},
			{"requests.remaining", request(
				&peerv1.Request{
					Body: &peerv1.Request_Read{Read: &peerv1.ReadRequest{Remaining: make([]uint64, session.MaxPage+1)}},
				},
			)},
		} {
			stream, err := peerv1.NewPeerServiceClient(plainConn(t, network)).Follow(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range []*peerv1.LearnerMessage{wire.HelloProto("c", session.Hello{Node: 2}), tt.m} {
				if err = stream.Send(m); err != nil {
					t.Fatal(err)
				}
			}
			if _, err = stream.Recv(); err != nil {
				t.Fatal(err)
			}
			_, err = stream.Recv()
			if status.Code(err) != codes.InvalidArgument {
				t.Errorf("message %d: %v", i, err)
			}
			porttest.WantField(t, wire.Domain(err), tt.field)
		}
	})
}

func TestLeaderMessagesOutOfRange(t *testing.T) {
	reply := func(r *peerv1.Reply) *peerv1.LeaderMessage {
		packed, err := proto.Marshal(&peerv1.Replies{Replies: []*peerv1.Reply{r}})
		if err != nil {
			t.Fatal(err)
		}
		return &peerv1.LeaderMessage{Message: &peerv1.LeaderMessage_Replies{Replies: packed}}
	}
	for field, m := range map[string]*peerv1.LeaderMessage{
		"message":        {},
		"welcome.leader": {Message: &peerv1.LeaderMessage_Welcome{Welcome: &peerv1.Welcome{Leader: 255}}},
		"heartbeat.rejected_touches": {
			Message: &peerv1.LeaderMessage_Heartbeat{Heartbeat: &peerv1.Heartbeat{
				Interval: durationpb.New(time.Second), RejectedTouches: []uint64{0},
			}},
		},
		"heartbeat.interval":   {Message: &peerv1.LeaderMessage_Heartbeat{Heartbeat: &peerv1.Heartbeat{}}},
		"replies.remaining_ms": reply(&peerv1.Reply{RemainingMs: make([]int64, session.MaxPage+1)}),
	} {
		_, err := wire.LeaderFrom(m)
		porttest.WantField(t, err, field)
	}
	for _, d := range []time.Duration{-1, 0, 1, session.MinInterval - 1, session.MaxInterval + 1} {
		_, err := wire.LeaderFrom(
			&peerv1.LeaderMessage{
				Message: &peerv1.LeaderMessage_Heartbeat{Heartbeat: &peerv1.Heartbeat{Interval: durationpb.New(d)}},
			},
		)
		porttest.WantField(t, err, "heartbeat.interval")
	}
	bad := wire.SessionProto(porttest.Grant(9).Session)
	bad.Owner = 0
	_, err := wire.LeaderFrom(reply(&peerv1.Reply{Session: bad}))
	porttest.WantField(t, err, "replies.session.owner")
	m, err := wire.LeaderFrom(reply(&peerv1.Reply{RemainingMs: []int64{1 << 62, -1 << 62}}))
	if err != nil || m.Replies[0].Remaining[0] < 0 || m.Replies[0].Remaining[1] != wire.Unknown {
		t.Errorf("far durations became %+v, %v", m.Replies, err)
	}
	clock, err := wire.PeerOpenFrom(
		&peerv1.OpenRequest{RequestId: make([]byte, 16), Timeout: wire.PromiseProto(1), Ms: -5},
	)
	if err != nil || clock.MS != 0 {
		t.Errorf("a clock before the epoch became %+v, %v, want 0 (O1)", clock, err)
	}
	none := func(*peerv1.LearnerMessage) error { return errors.New("sent") }
	for _, bad := range []session.LearnerMessage{{}, {Requests: []session.Request{{}}}} {
		if err := wire.SendLearner(bad, none); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("%+v: %v", bad, err)
		}
	}
	if _, err := wire.LeaderProto(session.LeaderMessage{}); !errors.Is(err, session.ErrInvalid) {
		t.Errorf("an empty message: %v", err)
	}
}
