package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/client/internal/core"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// A client without sessions reads the tree, and needs no node afterwards.
func TestReadsWithoutASession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		c.change(tree.Create{Path: "/a", Kind: tree.Persistent, Data: []byte("x")})
		if got, err := cl.Tree().Get(t.Context(), "/a"); err != nil || string(got.Data) != "x" {
			t.Fatalf("got %+v, %v", got, err)
		}
		for _, n := range c.all() {
			n.down()
		}
		time.Sleep(time.Minute)
		for _, n := range c.all() {
			n.up()
			if got := n.dialled(); len(got) > 1 {
				t.Errorf("node %d was dialled at %v while nothing was wanted", n.number, got)
			}
		}
		if _, err := cl.Tree().Get(t.Context(), "/a", Linearizable()); err != nil {
			t.Errorf("after the nodes came back: %v", err)
		}
	})
}

// Each loop over a list begins at its first page.
func TestListsRestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		c.change(create("/a"), create("/b"), create("/c"))
		all := cl.Tree().List(t.Context(), "/", Listing{PageSize: 2})
		for range 2 {
			var names []string
			for child, err := range all {
				if err != nil {
					t.Fatal(err)
				}
				names = append(names, child.Name)
			}
			wantStrings(t, names, "a", "b", "c")
		}
	})
}

// A read whose node is lost goes through another one, and ends with its context.
func TestReadsGoOnElsewhere(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		here := c.owner(s)
		here.refuse("read", errMute)
		done := make(chan error, 2)
		for _, in := range []*Tree{s.Tree(), cl.Tree()} {
			go func() {
				_, err := in.Get(t.Context(), "/")
				done <- err
			}()
		}
		synctest.Wait()
		here.down()
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		c.owner(s).refuse("read", errMute)
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		defer cancel()
		if _, err := s.Tree().Get(ctx, "/"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of the context", err)
		}
	})
}

// A node that is behind is asked again, and left when it does not catch up.
func TestReadsLeaveANodeThatLags(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 2)
		s := mustOpen(t, cl, 12*time.Second)
		here := c.owner(s)
		here.refuse("read", session.ErrLagging)
		if _, err := s.Tree().Get(t.Context(), "/"); err != nil {
			t.Fatal(err)
		}
		if got := here.count("read"); got < 3 {
			t.Errorf("the node was asked %d times before it was left", got)
		}
		if c.owner(s) == here {
			t.Error("the client is still at the node that lags")
		}
	})
}

// G3: a read of a session goes out behind the session's earlier writes, and before its later ones, also when they wait.
func TestG3ReadsAreInOrderWithWrites(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		in := mustOpen(t, cl, 12*time.Second).Tree()
		limit := &session.LimitError{Name: "admission", Limit: "1", RetryAfter: 300 * time.Millisecond}
		refused := false
		c.node(1).answer(func(kind string) error {
			if kind == "write" && !refused {
				refused = true
				return limit
			}
			return nil
		})
		c.node(1).record()
		go func() {
			if _, err := in.Create(t.Context(), "/a", nil, CreateOptions{}); err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		go func() {
			if _, err := in.Get(t.Context(), "/a"); err != nil {
				t.Errorf("the read does not show the write before it: %v", err)
			}
		}()
		synctest.Wait()
		mustCreate(t, in, "/b", CreateOptions{})
		wantStrings(t, c.node(1).record(), "0s write 1 acked 0", "300ms write 1 acked 0", "300ms read",
			"300ms write 2 acked 0")
	})
}

// G3: a read goes out behind a write, whose node refuses the write for now and answers the read. The read is asked
// again, behind the write.
func TestG3AReadWaitsForAWriteThatIsSentAgain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpen(t, cl, 12*time.Second)
		mustCreate(t, s.Tree(), "/b", CreateOptions{})
		for _, path := range []string{"/a", "/b"} {
			refused := false
			c.node(1).answer(func(kind string) error {
				if kind == "write" && !refused {
					refused = true
					return &session.LimitError{Name: "admission", Limit: "1", RetryAfter: 300 * time.Millisecond}
				}
				return nil
			})
			op := create("/a")
			if path == "/b" {
				op = set("/b")
			}
			write, read := newTreeWaiter(), newTreeWaiter()
			write.Transaction = tree.Transaction{Then: []tree.Op{op}}
			read.Query = tree.Query{Kind: tree.GetEntry, Path: path, Session: uint64(s.ID())}
			s.loop.do(core.Write{Call: &write.Call, Session: s.core})
			s.loop.do(core.Read{Call: &read.Call, Session: s.core})
			wrote, shown := <-write.answer, <-read.answer
			if wrote.Err != nil || shown.Err != nil || shown.Answer.Stat.Modified != wrote.Result.Stamp || !refused {
				t.Errorf("%s was written at %v, %v, and the read shows it of %v, %v", path, wrote.Result.Stamp, wrote.Err,
					shown.Answer.Stat.Modified, shown.Err)
			}
		}
	})
}

// G3: an answer that may be older than an earlier write is none. When the read's context ends before it is asked
// again, the caller hears of that, and not of what the old answer said.
func TestG3AnAnswerThatIsTooOldIsNone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		in := mustOpen(t, cl, 12*time.Second).Tree()
		bothSent := make(chan struct{})
		c.node(1).answer(func(kind string) error {
			if kind != "write" {
				return nil
			}
			<-bothSent
			return &session.LimitError{Name: "admission", Limit: "1", RetryAfter: time.Minute}
		})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		wrote, read := make(chan error, 1), make(chan error, 1)
		go func() {
			_, err := in.Create(ctx, "/a", nil, CreateOptions{})
			wrote <- err
		}()
		synctest.Wait()
		go func() {
			_, err := in.Get(ctx, "/a")
			read <- err
		}()
		synctest.Wait()
		close(bothSent)
		if err := <-read; !errors.Is(err, context.DeadlineExceeded) ||
			errors.Is(err, &tree.RefusedError{Code: tree.NoNode}) {
			t.Errorf("got %v, want the end of the context", err)
		}
		if err := <-wrote; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, session.ErrOutcomeUnknown) {
			t.Errorf("the write: %v, want ErrOutcomeUnknown", err)
		}
	})
}

// The end of a session and of its client end what waits.
func TestReadsEndWithTheirSession(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		s := mustOpen(t, cl, 12*time.Second)
		c.node(1).refuse("read", errMute)
		done := make(chan error, 1)
		read := func(in *Tree) {
			_, err := in.Get(t.Context(), "/")
			done <- err
		}
		go read(s.Tree())
		synctest.Wait()
		c.expire(s.ID())
		if err := <-done; !errors.Is(err, session.ErrExpired) {
			t.Errorf("got %v, want ErrExpired", err)
		}
		go read(cl.Tree())
		synctest.Wait()
		_ = cl.Close()
		if err := <-done; !errors.Is(err, session.ErrClosed) {
			t.Errorf("got %v, want ErrClosed", err)
		}
	})
}
