package client

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

func TestUpgrade(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		was, home := s.Token(), c.owner(s)
		time.Sleep(time.Second)
		if err := s.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := s.Token(); s.Local() || now.Local || now.ID != was.ID || now.Attachment == was.Attachment {
			t.Errorf("token was %+v, is %+v", was, now)
		}
		wantSafe(t, c, s, time.Second+promised(12*time.Second))
		if err := s.Upgrade(t.Context()); err != nil {
			t.Errorf("second Upgrade: %v", err)
		}
		if got := home.record(); !slices.Contains(got, "1s upgrade") ||
			strings.Count(strings.Join(got, "\n"), "upgrade") != 1 {
			t.Errorf("got %q, want one upgrade", got)
		}
		home.restart()
		home.down()
		synctest.Wait()
		if s.Err() != nil || s.Owner() == home.number {
			t.Errorf("after its node died the session is %v, at node %d", s.Err(), s.Owner())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Upgrade(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("Upgrade of a closed session: %v", err)
		}
	})
}

func TestARefusedUpgradeLeavesTheSessionAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 2, 2)
		c.set(func() { c.upgradeOff = true })
		s := mustOpenLocal(t, cl, 12*time.Second)
		if err := s.Upgrade(t.Context()); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("got %v", err)
		}
		time.Sleep(30 * time.Second)
		if s.Err() != nil || !s.Local() || s.Context().Err() != nil {
			t.Errorf("got %v, local %v", s.Err(), s.Local())
		}
	})
}

// An upgrade is repeated at the same node until its outcome is known.
func TestUpgradeIsRepeatedUntilItsOutcomeIsKnown(t *testing.T) {
	for name, first := range map[string]error{
		"no leader": session.ErrNoLeader, "outcome unknown": session.ErrOutcomeUnknown, "stopping": session.ErrStopping,
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 3)
				s := mustOpenLocal(t, cl, 12*time.Second)
				home := c.owner(s)
				refusals := 2
				home.answer(func(kind string) error {
					if kind != "upgrade" || refusals == 0 {
						return nil
					}
					refusals--
					return first
				})
				if err := s.Upgrade(t.Context()); err != nil || s.Local() || s.Owner() != home.number {
					t.Errorf("got %v, local %v, at node %d", err, s.Local(), s.Owner())
				}
				wantStrings(t, kinds(s), "connected")
			})
		})
	}
}

func TestALostAnswerToAnUpgrade(t *testing.T) {
	for name, lose := range map[string]func(n *fakeNode){
		"node comes back": (*fakeNode).cut,
		"node is dead":    func(n *fakeNode) { n.restart(); n.down() },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 3)
				s := mustOpenLocal(t, cl, 12*time.Second)
				home := c.owner(s)
				home.refuse("upgrade", errMuteAfter)
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := s.Upgrade(ctx)
				if !errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) ||
					s.Err() != nil || !s.Local() {
					t.Fatalf("got %v, session %v, local %v", err, s.Err(), s.Local())
				}
				home.heal()
				lose(home)
				time.Sleep(time.Second)
				synctest.Wait()
				if s.Err() != nil || s.Local() || s.Context().Err() != nil {
					t.Errorf("after a resume: %v, local %v", s.Err(), s.Local())
				}
				if err := s.Upgrade(t.Context()); err != nil {
					t.Error(err)
				}
			})
		})
	}
}

func TestUpgradeGoesOnAfterAReconnection(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		home := c.owner(s)
		home.answer(func(kind string) error {
			if kind != "upgrade" {
				return nil
			}
			home.heal()
			go func() { home.down(); home.up() }()
			return errMute
		})
		if err := s.Upgrade(t.Context()); err != nil || s.Local() || s.Owner() != home.number {
			t.Errorf("got %v, local %v", err, s.Local())
		}
	})
}

func TestCallsByALocalTokenFindItsNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		a, b := mustOpenLocal(t, cl, 30*time.Second), mustOpenLocal(t, cl, 30*time.Second)
		home := a.Owner()
		away := 1 + int(home)%3
		tool := newTestClient(t, c, c.endpoints(away, away)) // it learns the other addresses from ListMembers
		if f, err := tool.Get(t.Context(), a.ID()); err != nil || !f.Session.Local || f.Session.Owner != home {
			t.Errorf("Get: %+v, %v", f, err)
		}
		touched, err := tool.Touch(t.Context(), []session.Token{a.Token()})
		if err != nil || touched[0].Err != nil || touched[0].SafeUntil.IsZero() {
			t.Errorf("Touch: %+v, %v", touched, err)
		}
		now := time.Now()
		u, err := tool.UpgradeToken(t.Context(), a.Token())
		if err != nil || u.Token.Local || u.Session.Local || u.Session.ID != a.ID() ||
			u.SafeUntil != now.Add(promised(30*time.Second)) {
			t.Errorf("UpgradeToken: %+v, %v", u, err)
		}
		if err := tool.CloseToken(t.Context(), b.Token()); err != nil {
			t.Errorf("CloseToken: %v", err)
		}
		if err := tool.CloseToken(t.Context(), b.Token()); !errors.Is(err, session.ErrExpired) {
			t.Errorf("CloseToken again: %v", err)
		}
		gone := b.Token()
		gone.ID++
		gone.Credential = credentialOf(gone.ID)
		if _, err := tool.UpgradeToken(t.Context(), gone); !errors.Is(err, session.ErrExpired) {
			t.Errorf("UpgradeToken of an unknown session: %v", err)
		}
	})
}

// L7: the upgrade of a global session returns its grant, whichever nodes a tool knows and in whichever order it asks
// them.
func TestL7UpgradeTokenOfAGlobalSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 3)
		holder := newTestClient(t, c, c.endpoints(2, 2))
		token := mustOpen(t, holder, 30*time.Second).Token()
		for name, endpoints := range map[string][]string{
			"its node":     c.endpoints(2, 2),
			"another node": c.endpoints(1, 1), // it learns the owner's address from ListMembers
			"all":          c.endpoints(1, 3), // the owner is neither first nor last
		} {
			tool := newTestClient(t, c, endpoints)
			for range 2 { // the node that answered last is asked first
				u, err := tool.UpgradeToken(t.Context(), token)
				if err != nil || u.Token != token || u.Session.Owner != 2 ||
					u.SafeUntil != time.Now().Add(promised(30*time.Second)) {
					t.Errorf("%s: %+v, %v", name, u, err)
				}
			}
		}
		tool := newTestClient(t, c, c.endpoints(1, 3))
		newer, err := newTestClient(t, c, c.endpoints(3, 3)).Resume(t.Context(), token)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := tool.UpgradeToken(t.Context(), token); !errors.Is(err, session.ErrMoved) {
			t.Errorf("with the token of a former attachment: %v, want %v", err, session.ErrMoved)
		}
		if time.Since(c.start) != 0 {
			t.Errorf("took %v, want no waits: each answer is final", time.Since(c.start))
		}
		lagging := 2
		c.node(3).answer(func(string) error { // the node has not applied the token's attachment yet (T2)
			if lagging == 0 {
				return nil
			}
			lagging--
			return session.ErrLagging
		})
		if u, err := tool.UpgradeToken(t.Context(), newer.Token()); err != nil || u.Token != newer.Token() ||
			lagging != 0 {
			t.Errorf("after a node that lagged: %+v, %v", u, err)
		}
	})
}

// After an upgrade of unknown outcome the session may be global, so the client asks other nodes too. When they do not
// know it, the client looks for it at its own node again.
func TestAfterAnUnknownUpgradeAllNodesAreAsked(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		home := c.owner(s)
		home.refuse("upgrade", errMute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Upgrade(ctx); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		home.down()
		time.Sleep(time.Second)
		// an open, an upgrade, and resumes at two nodes
		if got := len(c.node(1).record()) + len(c.node(2).record()) + len(c.node(3).record()); got < 4 {
			t.Errorf("%d requests, want other nodes asked", got)
		}
		home.up()
		time.Sleep(2 * DefaultMaxBackoff)
		synctest.Wait()
		if s.Err() != nil || !s.Local() || s.Owner() != home.number || s.State() != StateConnected {
			t.Errorf("got %v, local %v, in state %v", s.Err(), s.Local(), s.State())
		}
	})
}

// An upgrade that was sent and not answered may have taken effect.
func TestUpgradeTokenSaysThatTheOutcomeIsUnknown(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 1, 1)
		refused, unanswered := mustOpenLocal(t, cl, time.Minute).Token(), mustOpenLocal(t, cl, time.Minute).Token()
		global := mustOpen(t, cl, time.Minute).Token()
		upgrade := func(token session.Token) error {
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			_, err := cl.UpgradeToken(ctx, token)
			return err
		}
		c.node(1).refuse("upgrade", session.ErrLagging)
		if err := upgrade(refused); !errors.Is(err, session.ErrLagging) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("refused: %v, want only the refusal", err)
		}
		c.node(1).answer(func(kind string) error {
			if kind == "upgrade" {
				time.Sleep(3 * time.Second)
			}
			return nil
		})
		if err := upgrade(unanswered); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("not answered: %v, want %v", err, session.ErrOutcomeUnknown)
		}
		if err := upgrade(global); !errors.Is(err, ErrUnreachable) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("already global, and not answered: %v, want %v", err, ErrUnreachable)
		}
		c.node(1).answer(func(kind string) error {
			if kind != "upgrade" {
				return nil
			}
			c.node(1).refuse("upgrade", session.ErrStopping)
			return session.ErrOutcomeUnknown
		})
		if err := upgrade(refused); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("of unknown outcome, and then refused by a node that stops: %v, want %v", err,
				session.ErrOutcomeUnknown)
		}
		c.node(1).down()
		synctest.Wait() // then the client knows that the connection is lost, and sends nothing there
		if err := upgrade(refused); !errors.Is(err, ErrUnreachable) || errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("not sent: %v, want %v", err, ErrUnreachable)
		}
	})
}
