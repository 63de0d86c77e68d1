package node

import (
	"errors"
	"testing"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// killed ends sessions through a node, for an operator.
func (c *testCluster) killed(through *testNode, ids ...session.ID) []session.Killed {
	c.t.Helper()
	all, err := through.server.Kill(c.t.Context(), session.KillRequest{IDs: ids, By: "ops", Why: "stuck"})
	if err != nil || len(all) != len(ids) {
		c.t.Fatalf("kill through %s: %v, %v", through.name, all, err)
	}
	return all
}

// Any node ends sessions for an operator: global ones wherever they are, and its own local ones. Their clients are
// told, certificates tell who did it, and nothing brings the sessions back.
func TestKillInACluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(within)
		c.founded()
		through := c.others(leads)[0]
		c.eventually("ids for local sessions", within, func() bool { return through.server.Stats().LocalIDs > 0 })
		heard := listen(t, leads)
		defer heard.Disconnect()
		open := session.OpenRequest{
			Spec: session.Spec{Timeout: 40 * time.Second}, RequestID: session.RequestID{200},
			MS: session.MS(time.Now()),
		}
		global, err := heard.Open(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		own := listen(t, through)
		defer own.Disconnect()
		open.RequestID, open.Local = session.RequestID{201}, true
		local, err := own.Open(t.Context(), open)
		if err != nil {
			t.Fatal(err)
		}
		all := c.killed(through, global.Session.ID, local.Session.ID, 1<<56|1)
		if all[0].Err != nil || all[0].Index == 0 || all[1].Err != nil || all[1].Index != 0 ||
			!errors.Is(all[2].Err, session.ErrExpired) {
			t.Errorf("outcomes %+v", all)
		}
		c.agree(within)
		for id, n := range map[session.ID]*testNode{global.Session.ID: leads, local.Session.ID: through} {
			_, _, explained := n.server.Explain(t.Context(), id, 0)
			gone, ok := errors.AsType[*session.ExpiredError](explained)
			if !ok || gone.Certificate == nil || gone.Certificate.Cause != session.CauseKilled ||
				gone.Certificate.Story.By != "ops" || gone.Certificate.Story.Why != "stuck" ||
				gone.Certificate.Story.Timeout != 40*time.Second {
				t.Errorf("%v: %v", id, explained)
			}
		}
		for l, g := range map[*listener]session.Grant{heard: global, own: local} {
			l.mu.Lock()
			if len(l.gone) != 1 || l.gone[0].ID != g.Session.ID || l.gone[0].Cause != session.CauseKilled {
				t.Errorf("the client was told %+v", l.gone)
			}
			l.mu.Unlock()
		}
		resume := session.ResumeRequest{Token: global.Token, Instance: 9, Attempt: 1}
		if _, err = heard.Resume(t.Context(), resume); !errors.Is(err, session.ErrExpired) {
			t.Errorf("a resume: %v", err)
		}
		again := c.killed(leads, global.Session.ID)
		gone := &session.ExpiredError{}
		if !errors.As(again[0].Err, &gone) || gone.Certificate == nil {
			t.Errorf("killed again: %+v", again)
		}
		page, err := through.server.Deaths(t.Context(), session.DeathQuery{
			Size: 10, Filter: session.DeathFilter{Cause: session.CauseKilled},
		})
		if err != nil || len(page.Certificates) != 1 || page.Certificates[0].ID != global.Session.ID || page.Next != 0 {
			t.Errorf("deaths %+v, %v", page, err)
		}
		page, err = through.server.Deaths(t.Context(), session.DeathQuery{Size: 10, Filter: session.DeathFilter{Local: true}})
		if err != nil || len(page.Certificates) != 1 || page.Certificates[0].ID != local.Session.ID {
			t.Errorf("deaths of local sessions %+v, %v", page, err)
		}
	})
}
