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
	"holdfast/test/bubbles"
)

func TestUpgrade(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		was, home := s.Token(), c.node(int(s.Owner()))
		time.Sleep(time.Second)
		if err := s.Upgrade(t.Context()); err != nil {
			t.Fatal(err)
		}
		if now := s.Token(); s.Local() || now.Local || now.ID != was.ID || now.Attachment == was.Attachment {
			t.Errorf("token was %+v, is %+v", was, now)
		}
		wantSafe(t, c, s, time.Second+promised(12*time.Second))
		if err := s.Upgrade(t.Context()); err != nil {
			t.Errorf("again: %v", err)
		}
		if got := home.record(); !slices.Contains(got, "1s upgrade") || strings.Count(strings.Join(got, "\n"), "upgrade") != 1 {
			t.Errorf("got %q, want one upgrade", got)
		}
		home.restart()
		home.down()
		synctest.Wait()
		if s.Err() != nil || s.Owner() == home.number {
			t.Errorf("after the death of its node: %v, at node %d", s.Err(), s.Owner())
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Upgrade(t.Context()); !errors.Is(err, session.ErrClosed) {
			t.Errorf("of a closed session: %v", err)
		}
	})
}

func TestARefusedUpgradeLeavesTheSessionAlone(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
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

// TestUpgradeIsRepeatedUntilItIsKnown: whatever comes between, and on the same node all the time.
func TestUpgradeIsRepeatedUntilItIsKnown(t *testing.T) {
	for name, first := range map[string]error{
		"no leader": session.ErrNoLeader, "outcome unknown": session.ErrOutcomeUnknown, "stopping": session.ErrStopping,
	} {
		t.Run(name, func(t *testing.T) {
			bubbles.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 3)
				s := mustOpenLocal(t, cl, 12*time.Second)
				home := c.node(int(s.Owner()))
				refusals := 2
				c.set(func() {
					home.script = func(kind string) error {
						if kind != "upgrade" || refusals == 0 {
							return nil
						}
						refusals--
						return first
					}
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
			bubbles.Test(t, func(t *testing.T) {
				c, cl := newTrial(t, 3, 3)
				s := mustOpenLocal(t, cl, 12*time.Second)
				home := c.node(int(s.Owner()))
				c.set(func() {
					home.script = func(kind string) error {
						if kind == "upgrade" {
							return errMuteAfter
						}
						return nil
					}
				})
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				err := s.Upgrade(ctx)
				if !errors.Is(err, session.ErrOutcomeUnknown) || !errors.Is(err, context.DeadlineExceeded) || s.Err() != nil || !s.Local() {
					t.Fatalf("got %v, session %v, local %v", err, s.Err(), s.Local())
				}
				c.set(func() { home.script = nil })
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
	bubbles.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		home := c.node(int(s.Owner()))
		c.set(func() {
			home.script = func(kind string) error {
				if kind != "upgrade" {
					return nil
				}
				c.set(func() { home.script = nil })
				go func() { home.down(); home.up() }()
				return errMute
			}
		})
		if err := s.Upgrade(t.Context()); err != nil || s.Local() || s.Owner() != home.number {
			t.Errorf("got %v, local %v", err, s.Local())
		}
	})
}

func TestCallsByALocalTokenFindItsNode(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		a, b := mustOpenLocal(t, cl, 30*time.Second), mustOpenLocal(t, cl, 30*time.Second)
		home := a.Owner()
		away := 1 + int(home)%3
		tool := newTestClient(t, c, c.endpoints(away, away)) // learns of the others from the members
		if f, err := tool.Get(t.Context(), a.ID()); err != nil || !f.Session.Local || f.Session.Owner != home {
			t.Errorf("Get: %+v, %v", f, err)
		}
		touched, err := tool.Touch(t.Context(), []session.Token{a.Token()})
		if err != nil || touched[0].Err != nil || touched[0].SafeUntil.IsZero() {
			t.Errorf("Touch: %+v, %v", touched, err)
		}
		now := time.Now()
		u, err := tool.UpgradeToken(t.Context(), a.Token())
		if err != nil || u.Token.Local || u.Session.Local || u.Session.ID != a.ID() || u.SafeUntil != now.Add(promised(30*time.Second)) {
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
			t.Errorf("of a session that never was: %v", err)
		}
	})
}

// TestAfterAnUnknownUpgradeALocalSessionIsLookedForEverywhere: as it may be global, other nodes are asked too; and when they
// say that it is not, it is looked for at its own again.
func TestAfterAnUnknownUpgradeALocalSessionIsLookedForEverywhere(t *testing.T) {
	bubbles.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 3, 3)
		s := mustOpenLocal(t, cl, 12*time.Second)
		home := c.node(int(s.Owner()))
		c.set(func() {
			home.script = func(kind string) error {
				if kind == "upgrade" {
					return errMute
				}
				return nil
			}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := s.Upgrade(ctx); !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Fatal(err)
		}
		home.down()
		time.Sleep(time.Second)
		if got := len(c.node(1).record()) + len(c.node(2).record()) + len(c.node(3).record()); got < 4 { // open, upgrade, resume
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
