package node

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
)

// listener is a client's connection to a node that hears what becomes of its sessions.
type listener struct {
	session.Connection
	mu    sync.Mutex
	gone  []session.Certificate
	moved []session.ID
}

func listen(t *testing.T, n *testNode) *listener {
	t.Helper()
	l := &listener{}
	var err error
	if l.Connection, err = n.server.Connect(l); err != nil {
		t.Fatal(err)
	}
	return l
}

func (l *listener) Gone(c session.Certificate) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone = append(l.gone, c)
}

func (l *listener) Moved(id session.ID, _, _ uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.moved = append(l.moved, id)
}

func (l *listener) MovedLocally(id session.ID, attachment, by uint64) { l.Moved(id, attachment, by) }

func (l *listener) Jeopardy(time.Time, []string)    {}
func (l *listener) JeopardyEnded()                  {}
func (l *listener) Draining(*session.DrainingError) {}
func (l *listener) DrainingEnded()                  {}
func (l *listener) DrainTimeout()                   {}

func localSessions(c *config.Config) { c.Sessions.Local = true }

// A local session lives through the end of every leader but its own node, is known nowhere else, and ends with its
// node; its id is never given out again (I7, K-07).
func TestLocalSessionsInACluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(20 * time.Second)
		owner := c.others(leads)[0]
		c.eventually("ids for local sessions", 10*time.Second, func() bool { return owner.server.Stats().LocalIDs > 0 })
		conn := listen(t, owner)
		defer conn.Disconnect()
		before := owner.view.AppliedIndex()
		open := session.OpenRequest{
			Local: true, Spec: session.Spec{Timeout: 5 * time.Second},
			RequestID: session.RequestID{1},
		}
		g, err := conn.Open(t.Context(), open)
		if err != nil || !g.Session.Local || g.Session.ID.Node() != owner.cfg.Node {
			t.Fatalf("opened %+v, %v", g, err)
		}
		if after := owner.view.AppliedIndex(); after != before || owner.view.Sessions() != 0 {
			t.Errorf("the log went from %d to %d for a local session", before, after)
		}

		// Its own node goes on without the leader, and then without anybody.
		_ = c.end(leads)
		touch := func(what string, d time.Duration) {
			for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(time.Second) {
				if got := conn.Touch(nil); got.SafeFor <= 0 || len(got.Failures) > 0 {
					t.Fatalf("touch %s: %+v", what, got)
				}
			}
		}
		touch("after the leader's end", 10*time.Second)
		other := c.others(leads)[0]
		if other == owner {
			other = c.others(leads)[1]
		}
		_ = c.end(other)
		touch("of a node that is alone", 30*time.Second)
		if _, err = conn.Open(t.Context(),
			session.OpenRequest{
				Local: true, Spec: session.Spec{Timeout: 5 * time.Second},
				RequestID: session.RequestID{2},
			}); err != nil {
			t.Errorf("open at a node that is alone: %v", err)
		}

		// Another node says whose it is.
		c.start(leads)
		c.start(other)
		c.leader(30 * time.Second)
		touch("after all came back", time.Second)
		elsewhere := listen(t, other)
		defer elsewhere.Disconnect()
		var gone *session.ExpiredError
		c.eventually("a word of where the session is", 10*time.Second, func() bool {
			_, err = elsewhere.Resume(t.Context(), session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
			return errors.As(err, &gone)
		})
		if gone == nil || gone.LocalTo != owner.cfg.Node {
			t.Errorf("resume elsewhere: %v, want one that is local to node %d", gone, owner.cfg.Node)
		}
		if _, err = conn.Resume(t.Context(),
			session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 2}); err != nil {
			t.Errorf("resume at its own node: %v", err)
		}

		// It ends with its node, and nobody gets its id.
		_ = c.end(owner)
		c.start(owner)
		c.leader(30 * time.Second)
		c.eventually("ids for local sessions", 10*time.Second, func() bool { return owner.server.Stats().LocalIDs > 0 })
		again := listen(t, owner)
		defer again.Disconnect()
		c.eventually("the new leader reaches it", 10*time.Second, func() bool {
			_, err = again.TouchToken(t.Context(), g.Token)
			return !errors.Is(err, session.ErrLagging)
		})
		if !errors.Is(err, session.ErrExpired) {
			t.Errorf("touch after a restart: %v, want %v", err, session.ErrExpired)
		}
		next, err := again.Open(t.Context(), open)
		if err != nil || next.Session.ID <= g.Session.ID+session.MaxClaim-1 {
			t.Errorf("after a restart %v, %v; want an id above the block of %v", next.Session.ID, err, g.Session.ID)
		}
	})
}

// TestL9OfAnotherMind holds that a node whose setting differs takes no part, and says which setting and which values.
func TestL9OfAnotherMind(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(20 * time.Second)
		odd := c.others(leads)[0]
		_ = c.end(odd)
		c.change = func(cfg *config.Config) { cfg.Sessions.Local = false }
		c.start(odd)
		time.Sleep(time.Minute)
		if odd.server.Ready() == nil || odd.health.Check() == nil {
			t.Error("a node whose setting differs serves")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := listen(t, odd).Open(ctx,
			session.OpenRequest{
				Spec:      session.Spec{Timeout: 5 * time.Second},
				RequestID: session.RequestID{1},
			}); err == nil {
			t.Error("it opened a session")
		}
		if leads.server.Ready() != nil {
			t.Errorf("the others do not serve: %v", leads.server.Ready())
		}
		for _, n := range []*testNode{odd, leads} {
			if text := n.log.String(); !strings.Contains(text, "local_sessions is") ||
				!strings.Contains(text, `\"on\"`) || !strings.Contains(text, `\"off\"`) {
				t.Errorf("the log of %s does not name the setting and both values:\n%s", n.name, text)
			}
		}
	})
}

// Ids that users ask for and ids of sessions of both kinds never meet (O3 id blocks, I7 ids are never reused).
func TestAllocateIDsInACluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(20 * time.Second)
		type span struct{ first, last session.ID }
		var given []span
		take := func(first, last session.ID) {
			for _, s := range given {
				if first <= s.last && s.first <= last {
					t.Errorf("%v to %v was given out before: %v to %v", first, last, s.first, s.last)
				}
			}
			given = append(given, span{first, last})
		}
		round := func(request byte) {
			for _, n := range c.nodes {
				c.eventually(n.name+" to serve", 20*time.Second, func() bool {
					return n.server.Ready() == nil && n.server.Stats().LocalIDs > 0
				})
				first, err := n.server.AllocateIDs(t.Context(),
					session.ClaimRequest{MS: session.MS(time.Now()), Count: 100})
				if err != nil || first.Node() != n.cfg.Node {
					t.Fatalf("ids of %s: %v, %v", n.name, first, err)
				}
				take(first, first+99)
				for _, local := range []bool{false, true} {
					g, err := listen(t, n).Open(t.Context(), session.OpenRequest{
						Local: local, Spec: session.Spec{Timeout: 5 * time.Second}, MS: session.MS(time.Now()),
						RequestID: session.RequestID{request, byte(n.cfg.Node)},
					})
					if err != nil {
						t.Fatalf("open through %s: %v", n.name, err)
					}
					take(g.Session.ID, g.Session.ID)
				}
			}
		}
		round(1)
		round(2)
		_ = c.end(leads)
		c.start(leads)
		c.leader(30 * time.Second)
		round(3)
		c.agree(10 * time.Second)
	})
}

// A local session that was upgraded lives through the end of its node's process and its leader, with its id; while the
// leader changes under the upgrade there is one session all the same.
func TestUpgradesInACluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, localSessions)
		defer c.stop()
		leads := c.leader(20 * time.Second)
		owner := c.others(leads)[0]
		c.eventually("ids for local sessions", 10*time.Second, func() bool { return owner.server.Stats().LocalIDs > 0 })
		conn := listen(t, owner)
		defer conn.Disconnect()
		g, err := conn.Open(t.Context(),
			session.OpenRequest{
				Local: true, Spec: session.Spec{Timeout: 30 * time.Second},
				RequestID: session.RequestID{1},
			})
		if err != nil {
			t.Fatal(err)
		}
		// The leader dies under many upgrades at once.
		results := make(chan error, 50)
		for range cap(results) {
			go func() {
				_, upgradeErr := conn.Upgrade(t.Context(), g.Token)
				results <- upgradeErr
			}()
		}
		_ = c.end(leads)
		for range cap(results) {
			if err = <-results; err != nil && !errors.Is(err, session.ErrNoLeader) &&
				!errors.Is(err, session.ErrNotLeader) {
				t.Errorf("upgrade while the leader dies: %v", err)
			}
		}
		c.leader(20 * time.Second)
		var global session.Grant
		c.eventually("the upgrade", 20*time.Second, func() bool {
			global, err = conn.Upgrade(t.Context(), g.Token)
			return err == nil
		})
		if global.Session.ID != g.Session.ID || global.Session.Timeout != g.Session.Timeout || global.Token.Local ||
			owner.view.Sessions() != 1 {
			t.Errorf("upgraded to %+v, %d sessions; want one, %v", global, owner.view.Sessions(), g.Session)
		}
		if s := owner.server.Stats(); s.Local != 0 || s.Attached != 1 {
			t.Errorf("its node has %d local and %d global sessions, want 0 and 1", s.Local, s.Attached)
		}
		if got := conn.Touch(nil); len(got.Failures) > 0 {
			t.Errorf("touch on its connection: %+v", got)
		}
		// The session's node dies. The session goes on at another node, also for a client that knows its local token
		// only.
		_ = c.end(owner)
		c.start(leads)
		c.leader(20 * time.Second)
		other := c.others(owner)[0]
		elsewhere := listen(t, other)
		defer elsewhere.Disconnect()
		var moved session.Grant
		c.eventually("a resume elsewhere", 20*time.Second, func() bool {
			moved, err = elsewhere.Resume(t.Context(), session.ResumeRequest{Token: g.Token, Instance: 1, Attempt: 1})
			return err == nil
		})
		if moved.Session.ID != g.Session.ID || moved.Session.Owner != other.cfg.Node ||
			moved.Session.Attachment <= global.Session.Attachment {
			t.Errorf("resumed as %+v", moved.Session)
		}
		c.start(owner)
		back := listen(t, owner)
		defer back.Disconnect()
		c.eventually("the old tokens to be refused", 20*time.Second, func() bool {
			_, one := back.TouchToken(t.Context(), g.Token)
			_, two := back.TouchToken(t.Context(), global.Token)
			return errors.Is(one, session.ErrMoved) && errors.Is(two, session.ErrMoved)
		})
		c.agree(10 * time.Second)
	})
}
