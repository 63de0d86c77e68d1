package transport

import (
	"context"
	"testing"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/test/bubbles"
)

// TestL1OpensSayWhichKind holds that both ways to open a session say whether it is to be a local one.
func TestL1OpensSayWhichKind(t *testing.T) {
	var asked []bool
	service := &fakeService{open: func(_ context.Context, o session.OpenRequest) (session.Grant, error) {
		asked = append(asked, o.Local)
		g := grant(7)
		g.Session.Local, g.Token.Local = o.Local, o.Local
		return g, nil
	}}
	bubbles.Test(t, func(t *testing.T) {
		_, network, stop := clientPort(t, ClientConfig{}, service)
		defer stop()
		c := holdfastv1.NewSessionServiceClient(dialPipes(t, network))
		stream := connected(t, network)
		for i, local := range []bool{true, false} {
			answer, err := c.OpenSession(t.Context(), &holdfastv1.OpenSessionRequest{Timeout: PromiseProto(1e9), RequestId: make([]byte, 16), Local: local})
			if err != nil || answer.GetSession().GetLocal() != local || answer.GetToken().GetLocal() != local {
				t.Errorf("OpenSession: %v, %v", answer, err)
			}
			m := openMessage(uint64(i) + 1)
			m.GetOpen().Local = local
			send(t, stream, m)
			if o := receive(t, stream).GetOpened(); o.GetSession().GetLocal() != local || o.GetToken().GetLocal() != local {
				t.Errorf("opened %v", o)
			}
		}
		_ = stream.CloseSend()
	})
	if len(asked) != 4 || !asked[0] || !asked[1] || asked[2] || asked[3] {
		t.Errorf("asked for local sessions: %v", asked)
	}
}
