package wire

import (
	"encoding/hex"
	"math"
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	"holdfast/session"
)

// drawToken draws a valid token.
func drawToken(t *rapid.T) session.Token {
	token := session.Token{
		ID: session.ID(rapid.Uint64Min(1).Draw(t, "id")), Attachment: rapid.Uint64Min(1).Draw(t, "attachment"),
		Local: rapid.Bool().Draw(t, "local"),
	}
	copy(token.Credential[:], rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "credential"))
	return token
}

func drawLabels(t *rapid.T) session.Labels {
	return rapid.SampledFrom([]session.Labels{nil, nil, {{Key: "a", Value: "b"}, {Key: "c"}}}).Draw(t, "labels")
}

// drawRequest draws a valid request.
func drawRequest(t *rapid.T) session.Request {
	r := session.Request{Seq: rapid.Uint64().Draw(t, "seq")}
	token := drawToken(t)
	timeout := time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "timeout"))
	switch rapid.IntRange(0, 7).Draw(t, "kind") {
	case 0:
		r.Open = &session.OpenRequest{
			Spec: session.Spec{Timeout: timeout, Labels: drawLabels(t)}, MS: rapid.Uint64Max(math.MaxInt64).Draw(t,
				"ms"),
			Instance: rapid.Uint64().Draw(t, "opener"),
		}
		copy(r.Open.RequestID[:], token.Credential[:])
	case 1:
		r.Resume = &session.ResumeRequest{
			Token: token, Instance: rapid.Uint64Min(1).Draw(t, "instance"), Attempt: rapid.Uint64Min(1).Draw(t, "attempt"),
		}
	case 2:
		r.Close = &token
	case 3:
		r.Read = &session.ReadRequest{Remaining: []session.ID{token.ID}}
	case 4:
		r.Claim = &session.ClaimRequest{MS: 7, Count: rapid.Uint32Range(1, session.MaxClaim).Draw(t, "count")}
	case 6:
		r.Resumes = &session.ResumesRequest{Instance: token.Attachment, Sessions: []session.Resuming{
			{ID: token.ID, Credential: token.Credential, Attachment: token.Attachment, Attempt: 3},
			{ID: 9, Attachment: 1, Attempt: 1},
		}}
	case 7:
		r.Release = []session.Release{{ID: token.ID, Attachment: token.Attachment}, {ID: 9, Attachment: 1}}
	case 5:
		r.Upgrade = &session.UpgradeRequest{
			ID:   token.ID,
			Spec: session.Spec{Timeout: time.Second, Labels: drawLabels(t)}, MS: 7,
		}
	}
	return r
}

// drawReply draws a valid reply without a refusal.
func drawReply(t *rapid.T) session.Reply {
	r := session.Reply{
		Seq: rapid.Uint64().Draw(t, "seq"), Term: rapid.Uint64().Draw(t, "term"), Index: rapid.Uint64().Draw(t, "index"),
	}
	switch rapid.IntRange(0, 4).Draw(t, "kind") {
	case 0:
		r.Session = session.Session{
			ID: session.ID(rapid.Uint64Min(1).Draw(t, "id")), Attachment: rapid.Uint64().Draw(t, "attachment"),
			Owner: session.Node(rapid.IntRange(1, int(session.MaxNode)).Draw(t, "owner")),
			Spec: session.Spec{
				Timeout: time.Duration(rapid.Int64Range(1, math.MaxInt64).Draw(t, "timeout")),
				Labels:  drawLabels(t),
			},
			OpenedIndex: rapid.Uint64().Draw(t, "opened"), Local: rapid.Bool().Draw(t, "local"),
		}
		if rapid.Bool().Draw(t, "dated") {
			r.Session.OpenedAt = time.Unix(0, rapid.Int64().Draw(t, "at")).UTC()
		}
		r.Repeated = rapid.Bool().Draw(t, "repeated")
	case 1:
		r.Remaining = []time.Duration{Unknown, time.Second}
		if rapid.Bool().Draw(t, "soonest") {
			r.Soonest = []session.ID{7, 5}
		}
	case 4:
		r.Moved = []session.MoveResult{
			{Attachment: rapid.Uint64Min(1).Draw(t, "moved"), Repeated: rapid.Bool().Draw(t, "again")}, {Attachment: 7},
		}
	case 2:
		r.First = session.ID(rapid.Uint64().Draw(t, "first"))
	}
	return r
}

// The bytes of a batch are those that the generated messages make, and both read the same from them.
func TestBatchesAreProtocolBuffers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests := rapid.SliceOfN(rapid.Custom(drawRequest), 1, 5).Draw(t, "requests")
		replies := rapid.SliceOfN(rapid.Custom(drawReply), 1, 5).Draw(t, "replies")
		var packed, packedReplies []byte
		var generated peerv1.Requests
		var generatedReplies peerv1.Replies
		for i := range requests {
			p, err := requestProto(&requests[i])
			if err == nil {
				packed, err = appendRequest(packed, &requests[i])
			}
			if err != nil {
				t.Fatal(err)
			}
			generated.Requests = append(generated.Requests, p)
		}
		for i := range replies {
			var err error
			if packedReplies, err = appendReply(packedReplies, &replies[i]); err != nil {
				t.Fatal(err)
			}
			generatedReplies.Replies = append(generatedReplies.Replies, ReplyProto(&replies[i]))
		}
		same(t, packed, &generated)
		same(t, packedReplies, &generatedReplies)
		if got, err := requestsFrom(packed); err != nil || !reflect.DeepEqual(got, requests) {
			t.Errorf("read %+v, %v, want %+v", got, err, requests)
		}
		//nolint:govet // deepequalerrors: no error is compared
		if got, err := repliesFrom(packedReplies); err != nil || !reflect.DeepEqual(got, replies) {
			t.Errorf("read %+v, %v, want %+v", got, err, replies)
		}
	})
}

// same compares bytes with those of a message, and with the message that they hold when their order is free (maps).
func same(t *rapid.T, got []byte, want proto.Message) {
	t.Helper()
	bytes, err := proto.MarshalOptions{Deterministic: true}.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	read := want.ProtoReflect().New().Interface()
	if err := proto.Unmarshal(got, read); err != nil || !proto.Equal(read, want) || len(got) != len(bytes) {
		t.Errorf("packed % x, %v, want % x", got, err, bytes)
	}
}

// The bytes of a batch never change: nodes of other releases read them.
func TestBatchesHaveGoldenBytes(t *testing.T) {
	token := session.Token{ID: 1<<56 | 9, Credential: session.Credential{1, 2, 15: 3}, Attachment: 300}
	var requests []byte
	for _, r := range []session.Request{
		{Seq: 1, Open: &session.OpenRequest{
			RequestID: session.RequestID{5, 15: 6}, Spec: session.Spec{Timeout: 1500 * time.Millisecond}, MS: 77,
		}},
		{Seq: 2, Resume: &session.ResumeRequest{Token: token, Instance: 1 << 63, Attempt: 2}},
		{Seq: 300, Close: &token},
	} {
		var err error
		if requests, err = appendRequest(requests, &r); err != nil {
			t.Fatal(err)
		}
	}
	replies, err := appendReply(nil, &session.Reply{
		Seq: 1, Term: 2, Index: 300, Repeated: true, Session: session.Session{
			ID: token.ID, Spec: session.Spec{Timeout: 4 * time.Second}, Owner: 3, Attachment: 300, OpenedIndex: 7,
			OpenedAt: time.Unix(1_800_000_000, 5),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	for what, tt := range map[string]struct{ got, want string }{
		"requests": {hex.EncodeToString(requests), goldenRequests},
		"replies":  {hex.EncodeToString(replies), goldenReplies},
	} {
		if tt.got != tt.want {
			t.Errorf("%s are %s, want %s", what, tt.got, tt.want)
		}
	}
}

const (
	goldenRequests = "0a2208011a1e0a1005000000000000000000000000000006120808011080cab5ee01204d0a2f0802222b0a1e09090000" +
		"000000000112100102000000000000000000000000000318ac0211000000000000008018020a2508ac022a200a1e0909" +
		"0000000000000112100102000000000000000000000000000318ac02"
	goldenReplies = "0a290801100218ac02221e09090000000000000112020804180320ac02380742080880a4a7da0610054001"
)

// A batch has 1 to 1,024 elements and nothing else.
func TestBatchesAreBounded(t *testing.T) {
	one, err := appendRequest(nil, &session.Request{Claim: &session.ClaimRequest{Count: 1}})
	if err != nil {
		t.Fatal(err)
	}
	full := make([]byte, 0, len(one)*session.MaxPeerBatch)
	for range session.MaxPeerBatch {
		full = append(full, one...)
	}
	got, err := requestsFrom(full)
	if err != nil || len(got) != session.MaxPeerBatch {
		t.Errorf("%d requests, %v, want %d", len(got), err, session.MaxPeerBatch)
	}
	for what, b := range map[string][]byte{
		"none": nil, "too many": append(full, one...), "another field": {0x12, 0}, "cut off": one[:len(one)-1],
		"one without a body": {0x0a, 0},
	} {
		if _, bad := requestsFrom(b); bad == nil {
			t.Errorf("%s: read", what)
		}
	}
	// A large batch is cut by its bytes.
	labels := session.Labels{{Key: "a", Value: string(make([]byte, 256))}}
	many := make([]session.Request, 1024)
	for i := range many {
		many[i].Open = &session.OpenRequest{Spec: session.Spec{Timeout: time.Second, Labels: labels}}
	}
	sizes, all := 0, 0
	err = SendLearner(session.LearnerMessage{Requests: many}, func(p *peerv1.LearnerMessage) error {
		sizes++
		m, bad := LearnerFrom(p)
		all += len(m.Requests)
		if n := proto.Size(p); n > batchBytes+1024 {
			t.Errorf("a message of %d bytes", n)
		}
		return bad
	})
	if err != nil || sizes != 2 || all != len(many) {
		t.Errorf("%d requests in %d messages, %v, want %d in 2", all, sizes, err, len(many))
	}
}

// FuzzBatches reads any bytes as the generated messages do.
func FuzzBatches(f *testing.F) {
	for _, seed := range []string{goldenRequests, goldenReplies} {
		b, err := hex.DecodeString(seed)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) > 1<<16 {
			return
		}
		if got, err := requestsFrom(b); err == nil {
			var p peerv1.Requests
			if err := proto.Unmarshal(b, &p); err != nil || len(p.GetRequests()) != len(got) {
				t.Fatalf("read %+v, the generated message %v, %v", got, &p, err)
			}
			for i, r := range p.GetRequests() {
				if want, err := requestFrom(r); err != nil || !reflect.DeepEqual(&got[i], want) {
					t.Errorf("read %+v, want %+v, %v", got[i], want, err)
				}
			}
		}
		if got, err := repliesFrom(b); err == nil {
			var p peerv1.Replies
			if err := proto.Unmarshal(b, &p); err != nil || len(p.GetReplies()) != len(got) {
				t.Fatalf("read %+v, the generated message %v, %v", got, &p, err)
			}
			for i, r := range p.GetReplies() {
				want, err := ReplyFrom(r)
				if err != nil || (want.Err == nil) != (got[i].Err == nil) {
					t.Fatalf("read %+v, want %+v, %v", got[i], want, err)
				}
				want.Err, got[i].Err = nil, nil
				if !reflect.DeepEqual(&got[i], want) { //nolint:govet // deepequalerrors: no error is compared
					t.Errorf("read %+v, want %+v", got[i], want)
				}
			}
		}
	})
}
