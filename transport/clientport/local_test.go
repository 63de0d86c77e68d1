package clientport

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/internal/porttest"
	"holdfast/transport/wire"
)

// TestL1OpensSayWhichKind holds that both ways to open a session pass on whether it is local.
func TestL1OpensSayWhichKind(t *testing.T) {
	var asked []bool
	service := &fakeService{open: func(_ context.Context, o session.OpenRequest) (session.Grant, error) {
		asked = append(asked, o.Local)
		g := porttest.Grant(7)
		g.Session.Local, g.Token.Local = o.Local, o.Local
		return g, nil
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		stream := connected(t, network)
		for i, local := range []bool{true, false} {
			answer, err := c.OpenSession(t.Context(),
				&holdfastv1.OpenSessionRequest{
					Timeout: wire.PromiseProto(1e9), RequestId: make([]byte, 16),
					Local: local,
				})
			if err != nil || answer.GetSession().GetLocal() != local || answer.GetToken().GetLocal() != local {
				t.Errorf("OpenSession: %v, %v", answer, err)
			}
			m := openMessage(uint64(i) + 1)
			m.GetOpen().Local = local
			send(t, stream, m)
			if o := receive(t, stream).GetOpened(); o.GetSession().GetLocal() != local ||
				o.GetToken().GetLocal() != local {
				t.Errorf("opened %v", o)
			}
		}
		_ = stream.CloseSend()
	})
	if len(asked) != 4 || !asked[0] || !asked[1] || asked[2] || asked[3] {
		t.Errorf("asked for local sessions: %v", asked)
	}
}

// TestL7AnUpgradeNeedsNoSlot holds that a stream with all the sessions it may have can upgrade a session of another
// stream, and that a running upgrade does not count against an open.
func TestL7AnUpgradeNeedsNoSlot(t *testing.T) {
	decided := make(chan struct{})
	service := &fakeService{
		open: func(context.Context, session.OpenRequest) (session.Grant, error) { return porttest.Grant(7), nil },
		upgrade: func(context.Context, session.Token) (session.Grant, error) {
			<-decided
			return porttest.Grant(8), nil
		},
	}
	bubble.Test(t, func(t *testing.T) {
		s, network, stop := clientPort(t, Config{Stream: StreamLimits{Sessions: 1}}, service)
		defer stop()
		decided = make(chan struct{})
		stream := connected(t, network)
		up := func(seq uint64) *holdfastv1.ClientMessage {
			return &holdfastv1.ClientMessage{
				Message: &holdfastv1.ClientMessage_Upgrade{
					Upgrade: &holdfastv1.Upgrade{Seq: seq, Token: wire.TokenProto(porttest.Grant(8).Token)},
				},
			}
		}
		send(t, stream, up(1))
		send(t, stream, openMessage(2))
		if receive(t, stream).GetOpened().GetSeq() != 2 {
			t.Error("an open was refused for an upgrade that is under way")
		}
		send(t, stream, up(3))
		synctest.Wait()
		close(decided)
		for range 2 {
			if m := receive(t, stream); m.GetUpgraded() == nil {
				t.Errorf("want both upgrades, got %v", m)
			}
		}
		if got := s.Stats().Sessions; got != 1 {
			t.Errorf("%d sessions are counted, want the opened one", got)
		}
		_ = stream.CloseSend()
	})
}

// TestL5AMoveInTheLogIsNewerThanLocalOnes holds that a local grant does not overtake a move in the log, whatever the
// numbers, and does overtake older moves at its node.
func TestL5AMoveInTheLogIsNewerThanLocalOnes(t *testing.T) {
	r := newStreamState(StreamLimits{Sessions: 10, Requests: 10}, func(bool) {})
	q := &request{request: session.Request{Open: &session.OpenRequest{}}}
	if err := r.begin(q); err != nil {
		t.Fatal(err)
	}
	r.answered(q, session.Token{ID: 7, Attachment: 5, Local: true})
	for _, tt := range []struct {
		to   session.Token
		told bool
	}{
		{session.Token{Attachment: 4, Local: true}, false},
		{session.Token{Attachment: 5, Local: true}, false},
		{session.Token{Attachment: 6, Local: true}, true},
		{session.Token{Attachment: 3}, true},
	} {
		if told := r.happened(event{id: 7, moved: attachmentRank(tt.to)}); told != tt.told {
			t.Errorf("a move to %+v is told: %v, want %v", tt.to, told, tt.told)
		}
	}
	q = &request{resume: 7}
	if err := r.begin(q); err != nil {
		t.Fatal(err)
	}
	r.answered(q, session.Token{ID: 7, Attachment: 2})
	if r.happened(event{id: 7, moved: attachmentRank(session.Token{Attachment: 9, Local: true})}) {
		t.Error("a local move is told after the session became global")
	}
}

// TestL7UpgradesOfBothForms holds that both ways to upgrade pass the token on and return the global one, and that on a
// stream the event of the session's end waits for that answer.
func TestL7UpgradesOfBothForms(t *testing.T) {
	local := porttest.Grant(7).Token
	local.Local = true
	var service *fakeService
	service = &fakeService{upgrade: func(_ context.Context, tok session.Token) (session.Grant, error) {
		if tok != local {
			return session.Grant{}, session.ErrMoved
		}
		if service.ended() > 0 { // the second time, on the stream, the session ends before the answer is queued
			service.newest().Gone(porttest.Certificate(7))
		}
		return porttest.Grant(7), nil
	}}
	bubble.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, Config{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		answer, err := c.UpgradeSession(t.Context(), &holdfastv1.UpgradeSessionRequest{Token: wire.TokenProto(local)})
		if got, tokenErr := wire.TokenFrom(answer.GetToken()); err != nil || tokenErr != nil ||
			got != porttest.Grant(7).Token || wire.PromiseFrom(answer.GetSafeFor()) != porttest.Grant(7).SafeFor {
			t.Errorf("UpgradeSession: %v, %v", answer, err)
		}
		_, err = c.UpgradeSession(t.Context(),
			&holdfastv1.UpgradeSessionRequest{Token: wire.TokenProto(porttest.Grant(7).Token)})
		if !errors.Is(wire.Domain(err), session.ErrMoved) {
			t.Errorf("UpgradeSession by another token: %v, want %v", err, session.ErrMoved)
		}
		if _, err = c.UpgradeSession(t.Context(), &holdfastv1.UpgradeSessionRequest{}); !errors.Is(wire.Domain(err),
			session.ErrInvalid) {
			t.Errorf("UpgradeSession without a token: %v, want %v", err, session.ErrInvalid)
		}
		stream := connected(t, network)
		send(
			t, stream, &holdfastv1.ClientMessage{
				Message: &holdfastv1.ClientMessage_Upgrade{
					Upgrade: &holdfastv1.Upgrade{Seq: 3, Token: wire.TokenProto(local)},
				},
			},
		)
		if up := receive(t, stream).GetUpgraded(); up.GetSeq() != 3 || up.GetToken().GetLocal() ||
			up.GetSession().GetId() != 7 {
			t.Errorf("upgraded %v", up)
		}
		if gone := receive(t, stream).GetGone(); len(gone.GetIds()) != 1 {
			t.Errorf("after the answer came %v, want the event of the end", gone)
		}
		_ = stream.CloseSend()
	})
}
