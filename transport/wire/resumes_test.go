package wire

import (
	"errors"
	"reflect"
	"testing"

	"google.golang.org/protobuf/proto"

	peerv1 "holdfast/proto/holdfast/peer/v1"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

func resumeSessions() *holdfastv1.ResumeSessions {
	return &holdfastv1.ResumeSessions{
		Seq: 1, Instance: 5, SeenIndex: 6, Ids: []uint64{7, 8}, Credentials: make([]byte, 32),
		Attachments: []uint64{9, 10}, Attempts: []uint64{1, 2},
	}
}

// Each column has as many elements as the ids, and every element is in its range.
func TestColumnsOfResumes(t *testing.T) {
	many := make([]uint64, session.MaxBatch+1)
	for field, spoil := range map[string]func(*holdfastv1.ResumeSessions){
		"ids":            func(p *holdfastv1.ResumeSessions) { *p = holdfastv1.ResumeSessions{Instance: 5} },
		"ids[1]":         func(p *holdfastv1.ResumeSessions) { p.Ids[1] = 0 },
		"instance":       func(p *holdfastv1.ResumeSessions) { p.Instance = 0 },
		"credentials":    func(p *holdfastv1.ResumeSessions) { p.Credentials = p.Credentials[1:] },
		"attachments":    func(p *holdfastv1.ResumeSessions) { p.Attachments = p.Attachments[1:] },
		"attachments[0]": func(p *holdfastv1.ResumeSessions) { p.Attachments[0] = 0 },
		"attempts":       func(p *holdfastv1.ResumeSessions) { p.Attempts = append(p.Attempts, 1) },
		"attempts[1]":    func(p *holdfastv1.ResumeSessions) { p.Attempts[1] = 0 },
	} {
		p := resumeSessions()
		spoil(p)
		_, err := ClientResumesFrom(p)
		porttest.WantField(t, err, field)
	}
	p := resumeSessions()
	p.Ids = many
	_, err := ClientResumesFrom(p)
	porttest.WantField(t, err, "ids")
	p = resumeSessions()
	p.Ids[1] = p.Ids[0]
	_, err = ClientResumesFrom(p)
	porttest.WantField(t, err, "ids")
	if !reflect.DeepEqual(p.GetIds(), []uint64{7, 7}) {
		t.Errorf("the check has changed the ids: %v", p.GetIds())
	}

	p = resumeSessions()
	p.Credentials[16] = 3
	got, err := ClientResumesFrom(p)
	want := &session.ResumesRequest{Instance: 5, Seen: 6, Sessions: []session.Resuming{
		{ID: 7, Attachment: 9, Attempt: 1}, {ID: 8, Credential: session.Credential{3}, Attachment: 10, Attempt: 2},
	}}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
}

// What became of the sessions comes back as it was, with the details of each refusal.
func TestMovedRoundTrip(t *testing.T) {
	certificate := porttest.Certificate(9)
	moved := &session.MovedError{Attachment: 4, Instance: 5}
	want := []session.MoveResult{
		{Attachment: 7},
		{Err: session.ErrClosing},
		{Err: session.ErrClosing},
		{Attachment: 8, Repeated: true},
		{Err: moved},
		{Err: &session.ExpiredError{ID: 9, Certificate: &certificate}},
		{Err: session.ErrClosing},
	}
	p := ReplyProto(&session.Reply{Seq: 3, Moved: want})
	if n := len(p.GetMoved().GetRefusals()); n != 4 {
		t.Errorf("%d refusals, want 4: successive sessions share one", n)
	}
	got, err := ReplyFrom(p)
	if err != nil || len(got.Moved) != len(want) {
		t.Fatalf("%+v, %v", got, err)
	}
	for i, w := range want {
		g := got.Moved[i]
		if g.Attachment != w.Attachment || g.Repeated != w.Repeated || (g.Err == nil) != (w.Err == nil) ||
			w.Err != nil && (g.Err.Error() != w.Err.Error() || !proto.Equal(Detail(g.Err), Detail(w.Err))) {
			t.Errorf("session %d: %+v, want %+v", i, g, w)
		}
	}
}

// A leader's word about sessions that it was not asked for, or without a refusal for a session that did not move, is no
// reply.
func TestMovedOutOfRange(t *testing.T) {
	for field, p := range map[string]*peerv1.Moved{
		"moved.attachments":    {},
		"moved.attachments[1]": {Attachments: []uint64{1, 0}},
		"moved.repeated":       {Attachments: []uint64{1}, Repeated: []uint32{1}},
		"moved.refusals.at":    {Attachments: []uint64{1}, Refusals: []*peerv1.Refusal{{At: []uint32{1 << 31}}}},
	} {
		_, err := ReplyFrom(&peerv1.Reply{Moved: p})
		porttest.WantField(t, err, field)
	}
	got, err := ReplyFrom(&peerv1.Reply{Moved: &peerv1.Moved{
		Attachments: []uint64{7}, Refusals: []*peerv1.Refusal{{At: []uint32{0}, Error: Detail(session.ErrClosing)}},
	}})
	if err != nil || got.Moved[0].Attachment != 0 || !errors.Is(got.Moved[0].Err, session.ErrClosing) {
		t.Errorf("a session with an attachment and a refusal is %+v, %v, want it refused", got, err)
	}
}
