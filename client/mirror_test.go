package client

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

func mustMirror(t *testing.T, in *Tree, path string) *Mirror {
	t.Helper()
	m, err := in.Mirror(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.Close)
	return m
}

// walked returns the paths below the mirror's root in the order of a walk, with the versions of their data.
func walked(m *Mirror, path string) (all []string) {
	for at, e := range m.Walk(path) {
		all = append(all, fmt.Sprint(at, " ", e.Stat.Version))
	}
	return all
}

// A mirror shows the initial state, and each change once its reader has waited for it.
func TestMirror(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		c.change(create("/app"), create("/app/b"), create("/app/b/x"), create("/app/b-c"), create("/other"))
		s := mustOpen(t, cl, 12*time.Second)
		in, err := s.Tree().Chroot("/app")
		if err != nil {
			t.Fatal(err)
		}
		m := mustMirror(t, in, "/")
		wantStrings(t, walked(m, "/"), "/ 0", "/b 0", "/b/x 0", "/b-c 0")
		made := mustCreate(t, in, "/a", CreateOptions{})
		if err := m.Wait(t.Context(), made.Stamp); err != nil || m.Stamp() < made.Stamp {
			t.Fatalf("waited for %v: %v, shown %v", made.Stamp, err, m.Stamp())
		}
		if e, ok := m.Get("/a"); !ok || string(e.Data) != "data of /a" || e.Stamp < made.Stamp {
			t.Errorf("got %+v, %v", e, ok)
		}
		changed := m.Changes()
		c.change(set("/app/b"), tree.Delete{Path: "/app/b/x", Version: tree.Any})
		<-changed
		synctest.Wait()
		wantStrings(t, walked(m, "/b"), "/b 1")
		wantStrings(t, m.List("/"), "a", "b", "b-c")
		if got := m.List("/b"); len(got) > 0 {
			t.Errorf("an entry without children lists %q", got)
		}
		if _, ok := m.Get("/b/x"); ok {
			t.Error("a deleted entry is shown")
		}
	})
}

// A mirror reads the entries of a level at once when it is filled, and all that has changed at once.
func TestAMirrorReadsAtOnce(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const entries = 100
		c, cl := newTreeTrial(t, 1)
		var sets []tree.Op
		for i := range entries {
			c.change(create(fmt.Sprint("/", i)), create(fmt.Sprint("/", i, "/below")))
			sets = append(sets, set(fmt.Sprint("/", i)))
		}
		node, under := c.node(1), 0
		// answers lets the node answer the given number of reads.
		answers := func(n int) {
			under = 0
			node.answer(func(kind string) error {
				if kind != "read" {
					return nil
				}
				if under++; under > n {
					return errMute
				}
				return nil
			})
		}
		waits := func(want int) {
			t.Helper()
			synctest.Wait()
			c.set(func() {
				if under != want {
					t.Errorf("%d reads were asked for, want %d", under, want)
				}
			})
			node.heal()
			node.cut() // unanswered reads are repeated
		}
		answers(3) // Sync, the root, and the names below it
		made := make(chan *Mirror)
		go func() { made <- mustMirror(t, cl.Tree(), "/") }()
		waits(3 + mirrorReads)
		m := <-made
		if got := len(walked(m, "/")); got != 1+2*entries {
			t.Errorf("the mirror has %d entries", got)
		}
		answers(0)
		c.change(set("/0"))
		synctest.Wait() // the mirror waits for this read while it hears of the others
		stamp := c.change(sets...)
		synctest.Wait()
		answers(1)
		node.cut()
		waits(1 + mirrorReads)
		if err := m.Wait(t.Context(), stamp); err != nil {
			t.Fatal(err)
		}
		for i := range entries {
			if e, ok := m.Get(fmt.Sprint("/", i)); !ok || e.Stat.Version == 0 {
				t.Errorf("/%d: %+v, %v", i, e, ok)
			}
		}
	})
}

// A mirror that moves shows what has happened meanwhile, also when the watch has lost events.
func TestMirrorAfterAMove(t *testing.T) {
	for _, lost := range []bool{false, true} {
		t.Run(fmt.Sprintf("lost %v", lost), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTreeTrial(t, 2)
				c.change(create("/a"), create("/b"))
				s := mustOpen(t, cl, 12*time.Second)
				m := mustMirror(t, cl.Tree(), "/")
				here := c.owner(s)
				for _, n := range c.all() {
					n.down()
				}
				stamp := c.change(create("/c"), tree.Delete{Path: "/a", Version: tree.Any}, set("/b"))
				if lost {
					c.set(func() { c.tree.start = c.tree.now() + 1 })
				}
				c.others(here)[0].up()
				if err := m.Wait(t.Context(), stamp); err != nil {
					t.Fatal(err)
				}
				wantStrings(t, walked(m, "/"), "/ 0", "/b 1", "/c 0")
			})
		})
	}
}

// A mirror of nothing shows the entry once it is there, and ends with its close and with its client.
func TestMirrorBeginsAndEnds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		m := mustMirror(t, cl.Tree(), "/a")
		if got := walked(m, "/"); len(got) > 0 {
			t.Errorf("a mirror of nothing shows %q", got)
		}
		stamp := c.change(create("/a"), create("/a/b"))
		if err := m.Wait(t.Context(), stamp); err != nil {
			t.Fatal(err)
		}
		wantStrings(t, walked(m, "/a"), "/a 0", "/a/b 0")
		m.Close()
		if err := m.Err(); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after the close: %v", err)
		}
		<-m.Changes()
		if err := m.Wait(t.Context(), stamp+1); !errors.Is(err, session.ErrClosed) {
			t.Errorf("a wait after the close: %v", err)
		}
		c.node(1).refuse("read", errMute)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := cl.Tree().Mirror(ctx, "/a"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a mirror that is not filled in time: %v", err)
		}
		c.node(1).heal()
		last := mustMirror(t, cl.Tree(), "/a")
		_ = cl.Close()
		<-last.Changes()
		if err := last.Err(); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after the end of the client: %v", err)
		}
	})
}

// I13: while watches wait for events of a former connection, reads wait: no answer comes before the events that it
// shows.
func TestI13AnswersWaitForDueEvents(t *testing.T) {
	for _, ordered := range []bool{false, true} {
		t.Run(fmt.Sprintf("in the order of a session %v", ordered), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c, cl := newTreeTrial(t, 2)
				c.change(create("/a"))
				s := mustOpen(t, cl, 12*time.Second)
				in := cl.Tree()
				if ordered {
					in = s.Tree()
				}
				wantOrder(t, c, in, c.other(s))
			})
		})
	}
}

// wantOrder moves the client to the next node, which refuses its watch at first, and reads there.
func wantOrder(t *testing.T, c *fakeCluster, in *Tree, next *fakeNode) {
	t.Helper()
	all := watchAll(t, in, "/", tree.WatchRecursive)
	refused := false
	next.answer(func(kind string) error {
		if kind == "watch" && !refused {
			refused = true
			return session.ErrLagging
		}
		return nil
	})
	for _, n := range c.all() {
		n.down()
	}
	c.change(set("/a"))
	next.up()
	if got, err := in.Get(t.Context(), "/a"); err != nil || got.Stat.Version != 1 {
		t.Fatalf("%+v, %v", got, err)
	}
	wantStrings(t, all.take(), "started", "/a data changed")
	var order []string
	for _, m := range next.record() {
		if kind := kindOf(m); kind == "watch" || kind == "read" {
			order = append(order, kind)
		}
	}
	wantStrings(t, order, "watch", "watch", "read")
}

// kindOf returns the kind of a request in [fakeNode.record].
func kindOf(recorded string) string { return strings.Fields(recorded)[1] }
