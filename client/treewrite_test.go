package client

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

func mustCreate(t *testing.T, in *Tree, path string, o CreateOptions) Created {
	t.Helper()
	made, err := in.Create(t.Context(), path, []byte("data of "+path), o)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// A session writes and reads what it has written, and is told why the tree refuses.
func TestWritesAndReads(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTreeTrial(t, 3)
		in := mustOpen(t, cl, 12*time.Second).Tree()
		made := mustCreate(t, in, "/a", CreateOptions{})
		if got, err := in.Get(t.Context(), "/a"); err != nil || string(got.Data) != "data of /a" ||
			got.Stat.Created != made.Stamp || got.Stamp < made.Stamp {
			t.Errorf("got %+v, %v", got, err)
		}
		if set, err := in.Set(t.Context(), "/a", nil, Version(0)); err != nil || set.Stat.Version != 1 {
			t.Errorf("set: %+v, %v", set, err)
		}
		_, err := in.Set(t.Context(), "/a", nil, Version(0))
		refused, ok := errors.AsType[*tree.WriteError](err)
		if !ok || refused.Refused.Code != tree.BadVersion || refused.Stamp == 0 {
			t.Errorf("a set of an old version: %v", err)
		}
		first, second := mustCreate(t, in, "/a/q-", CreateOptions{Sequential: true}),
			mustCreate(t, in, "/a/q-", CreateOptions{Sequential: true})
		var names []string
		for child, err := range in.List(t.Context(), "/a", Listing{PageSize: 1}) {
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, tree.Join("/a", child.Name))
		}
		wantStrings(t, names, first.Path, second.Path)
		if _, err := in.Delete(t.Context(), second.Path); err != nil {
			t.Error(err)
		}
		if _, found, err := in.Exists(t.Context(), second.Path); err != nil || found {
			t.Errorf("the deleted entry exists: %v, %v", found, err)
		}
		if _, err := in.Get(t.Context(), "/none"); !errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			t.Errorf("an entry that does not exist: %v", err)
		}
		if cl.SeenStamp() < second.Stamp {
			t.Errorf("the client has seen %v, and has written at %v", cl.SeenStamp(), second.Stamp)
		}
	})
}

// X1: writes of several goroutines get one number each, without a gap, and are acknowledged.
func TestX1WritesAreNumbered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpen(t, cl, 12*time.Second)
		in := s.Tree()
		var all sync.WaitGroup
		for i := range 600 { // more than may be unanswered
			all.Go(func() {
				if _, err := in.Create(t.Context(), fmt.Sprint("/", i), nil, CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		time.Sleep(4 * time.Second) // a touch
		synctest.Wait()
		c.set(func() {
			if w := c.tree.writers[s.ID()]; w.applied != 600 || c.tree.acks[s.ID()] != 600 {
				t.Errorf("applied %d, acknowledged %d, want 600", w.applied, c.tree.acks[s.ID()])
			}
		})
	})
}

// X2, X4: a write whose answer was lost with its connection is sent again through the next node, and takes effect once.
func TestX4WritesAreSentAgainAfterAMove(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		in, here := s.Tree(), c.owner(s)
		mustCreate(t, in, "/before", CreateOptions{})
		here.refuse("write", errMuteAfter)
		var all sync.WaitGroup
		for _, path := range []string{"/a", "/b", "/c"} {
			all.Go(func() {
				if made, err := in.Create(t.Context(), path, nil, CreateOptions{}); err != nil || made.Path != path {
					t.Errorf("%s: %+v, %v", path, made, err)
				}
			})
		}
		synctest.Wait()
		c.set(func() {
			if got := c.tree.writers[s.ID()].applied; got != 4 {
				t.Fatalf("%d writes took effect before the connection was lost, want 4", got)
			}
		})
		here.down()
		all.Wait()
		if got := c.other(s); got != here {
			t.Errorf("the session is still at node %d", here.number)
		}
		if got, want := c.taken(), "1 void false, 2 void false, 3 void false, 4 void false"; got != want {
			t.Errorf("numbers were taken: %s, want %s", got, want)
		}
	})
}

// X2, X4: a client that gives up what is in flight on a lost connection repeats a write with [UntilAnswered] all the
// same.
func TestX4UntilAnswered(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newModalTrial(t, 2, func(cfg *Config) { cfg.Instance, cfg.InFlight = 77, FailInFlight })
		c.grow()
		s := mustOpen(t, cl, 12*time.Second)
		in, here := s.Tree(), c.owner(s)
		here.refuse("write", errMute)
		var all sync.WaitGroup
		all.Go(func() {
			_, err := in.Create(t.Context(), "/a", nil, CreateOptions{})
			if !errors.Is(err, session.ErrOutcomeUnknown) {
				t.Errorf("without the option: %v, want ErrOutcomeUnknown", err)
			}
		})
		synctest.Wait()
		all.Go(func() {
			made, err := in.Create(t.Context(), "/b", nil, CreateOptions{}, UntilAnswered())
			if err != nil || made.Path != "/b" {
				t.Errorf("until answered: %+v, %v", made, err)
			}
		})
		synctest.Wait()
		here.down()
		all.Wait()
		if got, want := c.taken(), "1 void true, 2 void false"; got != want {
			t.Errorf("numbers were taken: %s, want %s", got, want)
		}
	})
}

// X4: OUTCOME_UNKNOWN says that a number is taken only if the state had it when the attachment began. A node says it,
// too, of writes that it sent before the attachment ended, if it was restored since. Such a write is sent again after a
// resume: if its number is free and the client leaves it out, no other can follow.
func TestX4AnUnknownOutcomeLeavesTheNumberFree(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpen(t, cl, 12*time.Second)
		in := s.Tree()
		mustCreate(t, in, "/a", CreateOptions{})
		writes, bothSent := 0, make(chan struct{})
		c.node(1).answer(func(kind string) error {
			if kind != "write" {
				return nil
			}
			<-bothSent
			if writes++; writes <= 2 {
				return session.ErrOutcomeUnknown
			}
			return nil
		})
		c.node(1).record()
		var all sync.WaitGroup
		for _, path := range []string{"/b", "/c"} {
			all.Go(func() {
				if _, err := in.Create(t.Context(), path, nil, CreateOptions{}); err != nil {
					t.Errorf("%s: %v", path, err)
				}
			})
		}
		synctest.Wait()
		close(bothSent)
		all.Wait()
		wantStrings(t, c.node(1).record(), "0s write 2 acked 1", "0s write 3 acked 1",
			"0s resume "+s.ID().String()+" attempt 1", "0s write 2 acked 1", "0s write 3 acked 1")
		mustCreate(t, in, "/d", CreateOptions{})
		if got, want := c.taken(), "1 void false, 2 void false, 3 void false, 4 void false"; got != want {
			t.Errorf("numbers were taken: %s, want %s", got, want)
		}
	})
}

// X6: a caller that gives up hears that the outcome is unknown, and a void goes out. A write that was never sent has no
// effect.
func TestX6GivingUp(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpen(t, cl, 12*time.Second)
		in := s.Tree()
		c.node(1).refuse("write", errMute)
		ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		defer cancel()
		if _, err := in.Create(ctx, "/a", nil, CreateOptions{}); !errors.Is(err, session.ErrOutcomeUnknown) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want ErrOutcomeUnknown", err)
		}
		synctest.Wait()
		if got, want := c.taken(), "1 void true"; got != want {
			t.Errorf("numbers were taken: %s, want %s", got, want)
		}
		c.node(1).heal()
		mustCreate(t, in, "/b", CreateOptions{})

		c.node(1).down()
		synctest.Wait()
		short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer end()
		if _, err := in.Create(ctx, "/c", nil, CreateOptions{}); !errors.Is(err, ErrNoEffect) {
			t.Errorf("a write whose context had ended: %v, want ErrNoEffect", err)
		}
		if _, err := in.Create(short, "/c", nil, CreateOptions{}); !errors.Is(err, ErrNoEffect) ||
			errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("a write that was never sent: %v, want ErrNoEffect", err)
		}
	})
}

// The result of a refused transaction has the path as its caller named it, also one below the chroot's own name.
func TestRefusedTransactionsBelowTheChroot(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		_, cl := newTreeTrial(t, 1)
		in, err := mustOpen(t, cl, 12*time.Second).Tree().Chroot("/app")
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{"/x", "/app/x"} {
			done, err := in.Transact(t.Context(), tree.Transaction{Then: []tree.Op{tree.Delete{Path: path, Version: tree.Any}}})
			refused, ok := errors.AsType[*tree.WriteError](err)
			if !ok || refused.Refused.Path != path || done.Outcome.Refused == nil || done.Outcome.Refused.Path != path {
				t.Errorf("deleting %s below /app: %+v, %v", path, done.Outcome.Refused, err)
			}
		}
	})
}

// X5: a session whose opener is unknown to the cluster is resumed once, and then writes.
func TestX5ResumesBeforeTheFirstWrite(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		c.set(func() { c.tree.noInstances = true })
		s := mustOpen(t, cl, 12*time.Second)
		c.node(1).record()
		mustCreate(t, s.Tree(), "/a", CreateOptions{})
		mustCreate(t, s.Tree(), "/b", CreateOptions{})
		wantStrings(t, c.node(1).record(), "0s write 1 acked 0", "0s resume "+s.ID().String()+" attempt 1",
			"0s write 1 acked 0", "0s write 2 acked 1")
	})
}

// X8: after a GAP the client goes back, and after a limit it waits as long as the node says.
func TestX8GoesBackAndWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		in := mustOpen(t, cl, 12*time.Second).Tree()
		mustCreate(t, in, "/a", CreateOptions{})
		limit := &session.LimitError{Name: "admission", Limit: "1", RetryAfter: 300 * time.Millisecond}
		writes, bothSent := 0, make(chan struct{})
		c.node(1).answer(func(kind string) error {
			if kind != "write" {
				return nil
			}
			<-bothSent // the client would wait before its second write otherwise
			if writes++; writes == 1 {
				return limit
			}
			return nil
		})
		c.node(1).record()
		var all sync.WaitGroup
		for _, path := range []string{"/b", "/c"} {
			all.Go(func() {
				if _, err := in.Create(t.Context(), path, nil, CreateOptions{}); err != nil {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		close(bothSent)
		all.Wait()
		got := c.node(1).record()
		wantStrings(t, got, "0s write 2 acked 1", "0s write 3 acked 1", "300ms write 2 acked 1", "300ms write 3 acked 1")
		if got, want := c.taken(), "1 void false, 2 void false, 3 void false"; got != want {
			t.Errorf("numbers were taken: %s, want %s", got, want)
		}
	})
}

// U4: the first write of a local session makes it global. A cluster that does not allow it has the write refused.
func TestU4LocalSessionsWrite(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpenLocal(t, cl, 12*time.Second)
		c.set(func() { c.upgradeOff = true })
		_, err := s.Tree().Create(t.Context(), "/a", nil, CreateOptions{})
		if !errors.Is(err, session.ErrLocalSession) || !errors.Is(err, ErrNoEffect) {
			t.Errorf("got %v, want ErrLocalSession", err)
		}
		c.set(func() { c.upgradeOff = false })
		mustCreate(t, s.Tree(), "/a", CreateOptions{Kind: tree.Ephemeral})
		if s.Local() {
			t.Error("the session is still local")
		}
	})
}

// X9: the certificate says what became of the writes of a session that has ended.
func TestX9OutcomeByCertificate(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpen(t, cl, 12*time.Second)
		errs := make([]error, 3)
		var all sync.WaitGroup
		for i, how := range []error{errMuteAfter, errMute} {
			c.node(1).refuse("write", how)
			all.Go(func() { _, errs[i] = s.Tree().Create(t.Context(), fmt.Sprint("/", i), nil, CreateOptions{}) })
			synctest.Wait()
		}
		c.expire(s.ID())
		all.Wait()
		_, errs[2] = s.Tree().Create(t.Context(), "/2", nil, CreateOptions{})
		for i, want := range []error{ErrResultGone, ErrNoEffect, ErrNoEffect} {
			if !errors.Is(errs[i], want) || !errors.Is(errs[i], session.ErrExpired) {
				t.Errorf("write %d: %v, want %v", i, errs[i], want)
			}
		}
	})
}

// X4: a session of which the cluster has lost a write that it had answered writes no more, and says so by type: its
// application has to open another one.
func TestX4ASessionWhoseWritesAreLost(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		mustCreate(t, s.Tree(), "/a", CreateOptions{})
		c.set(func() { c.tree.writers[s.ID()] = nil }) // as an older backup is restored
		c.owner(s).down()
		time.Sleep(time.Second)
		_, err := s.Tree().Create(t.Context(), "/b", nil, CreateOptions{})
		lost, ok := errors.AsType[*WritesLostError](err)
		if !ok || lost.Answered != 1 || lost.Applied != 0 || !errors.Is(err, ErrNoEffect) {
			t.Errorf("got %v, want a WritesLostError", err)
		}
	})
}
