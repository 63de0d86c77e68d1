package sim

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/bubble"
)

// withReadOnly runs a cluster of three nodes whose read_only is on, and passes it to do when it serves.
func withReadOnly(t *testing.T, do func(t *testing.T, w *world)) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0)))
		w := newWorld(t, newReport(3, 3))
		w.readOnly = all(w.names)
		for _, name := range w.names {
			w.Start(name)
		}
		defer w.stop()
		time.Sleep(10 * time.Second)
		do(t, w)
	})
}

// all returns the set of names.
func all(names []string) map[string]bool {
	set := make(map[string]bool)
	for _, name := range names {
		set[name] = true
	}
	return set
}

func (w *world) reader(name string) *client.Client {
	c, err := client.New(client.Config{
		Endpoints: w.endpoints(), Dial: w.Host(name).Dial, Logger: w.logs.logger(name), Rand: w.stream(name),
		ReadOnly: true,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

// part cuts the hosts of here off from the hosts of there, in both directions. mend undoes it.
func (w *world) part(here, there []string) (mend func()) {
	each := func(do func(from, to string)) {
		for _, a := range here {
			for _, b := range there {
				do(a, b)
				do(b, a)
			}
		}
	}
	each(w.Cut)
	return func() { each(w.Heal) }
}

// A client on the smaller side of a partition is connected read-only. It reads its node's state, never anything older,
// and continues with its session when the partition ends (N3 to N5).
func TestReadOnlySideOfAPartition(t *testing.T) {
	withReadOnly(t, func(t *testing.T, w *world) {
		t.Helper()
		c := w.reader("x")
		defer c.Close()
		s, err := c.Open(t.Context(), client.SessionOptions{Timeout: 40 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		here := w.names[s.Owner()-1]
		others := slices.DeleteFunc(slices.Clone(w.names), func(n string) bool { return n == here })
		mend := w.part([]string{here, "x"}, others)
		time.Sleep(15 * time.Second)
		if got := s.State(); got != client.StateConnectedReadOnly {
			t.Errorf("15 s after the cut the session is %v", got)
		}
		far := w.reader("y")
		defer far.Close()
		later, err := far.Open(t.Context(), client.SessionOptions{Timeout: 40 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		shown := c.SeenIndex()
		reads := func(mode session.Mode, id session.ID) error {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			defer cancel()
			f, err := c.Get(ctx, id)
			if err == nil && (f.State.Mode != mode || f.State.Index < shown) {
				t.Errorf("read of %+v after index %d, want it to be %v", f.State, shown, mode)
			}
			shown = max(shown, f.State.Index)
			return err
		}
		if err := reads(session.ModeReadOnly, s.ID()); err != nil {
			t.Errorf("read of the session: %v", err)
		}
		if err := reads(session.ModeReadOnly, later.ID()); !errors.Is(err, session.ErrReadOnly) ||
			!errors.Is(err, session.ErrExpired) {
			t.Errorf("read of what was opened on the other side: %v", err)
		}
		mend()
		time.Sleep(15 * time.Second)
		if s.State() != client.StateConnected || s.Err() != nil || s.Context().Err() != nil {
			t.Errorf("after the partition the session is %v, %v, %v", s.State(), s.Err(), s.Context().Err())
		}
		if err := reads(session.ModeReadWrite, later.ID()); err != nil {
			t.Errorf("read of what was opened on the other side, after the partition: %v", err)
		}
	})
}

// Without a quorum no node issues an id, and no session ends. With a quorum again, the waiting open is served (N2
// read-only refusals, I8 a sick server kills nobody).
func TestNoQuorumNoID(t *testing.T) {
	withReadOnly(t, func(t *testing.T, w *world) {
		t.Helper()
		c := w.reader("x")
		defer c.Close()
		held, err := c.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatal(err)
		}
		last := w.names[held.Owner()-1]
		for _, name := range w.names {
			if name != last {
				w.Kill(name)
			}
		}
		time.Sleep(15 * time.Second)
		if got := held.State(); got != client.StateConnectedReadOnly {
			t.Errorf("without a quorum the session is %v", got)
		}
		fresh := w.reader("y")
		defer fresh.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_, err = fresh.Open(ctx, client.SessionOptions{Timeout: 10 * time.Second})
		if !errors.Is(err, session.ErrReadOnly) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("open: %v", err)
		}
		page, err := fresh.List(t.Context(), client.ListOptions{})
		if err != nil || len(page.Sessions) != 1 || page.State.Mode != session.ModeReadOnly {
			t.Errorf("list: %+v, %v", page, err)
		}
		for _, name := range w.names {
			if name != last {
				w.Start(name)
			}
		}
		again, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		s, err := fresh.Open(again, client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil {
			t.Fatalf("open with a quorum: %v", err)
		}
		time.Sleep(10 * time.Second)
		if s.State() != client.StateConnected || held.State() != client.StateConnected || held.Err() != nil {
			t.Errorf("with a quorum the sessions are %v and %v, %v", s.State(), held.State(), held.Err())
		}
	})
}
