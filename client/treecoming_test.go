package client

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/tree"
)

// newComingTrial returns a cluster that is about to get a tree, and a client.
func newComingTrial(t *testing.T) (*fakeCluster, *Client) {
	t.Helper()
	c, cl := newModalTrial(t, 1, func(cfg *Config) { cfg.ReadOnly, cfg.Instance = false, 77 })
	c.set(func() { c.coming = session.FeatureLevel })
	return c, cl
}

// W8: calls to a new cluster wait for its tree, and go out soon after it is there.
func TestW8CallsWaitForATreeThatIsComing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newComingTrial(t)
		s := mustOpen(t, cl, 12*time.Second)
		calls := []func() error{
			func() error {
				_, err := s.Tree().Create(t.Context(), "/a", nil, CreateOptions{})
				return err
			},
			func() error {
				_, err := cl.Tree().Get(t.Context(), "/")
				return err
			},
			func() error {
				for e, err := range cl.Tree().Watch(t.Context(), "/b", tree.WatchExists) {
					if err == nil && !e.Started {
						err = errors.New("not begun")
					}
					return err
				}
				return errors.New("ended")
			},
		}
		done := make([]time.Time, len(calls))
		for i, call := range calls {
			go func() {
				if err := call(); err != nil {
					t.Errorf("call %d: %v", i, err)
				}
				done[i] = time.Now()
			}()
		}
		time.Sleep(2200 * time.Millisecond)
		synctest.Wait()
		for i, at := range done {
			if !at.IsZero() {
				t.Errorf("call %d was answered without a tree", i)
			}
		}
		c.grow()
		grown := time.Now()
		time.Sleep(time.Second)
		synctest.Wait()
		for i, at := range done {
			if took := at.Sub(grown); at.IsZero() || took > 100*time.Millisecond {
				t.Errorf("call %d was answered %v after the tree was there", i, took)
			}
		}
	})
}

// W8: a caller that waits no longer for the tree is told what it has waited for, and its write is never sent.
func TestW8ACallerGivesUpATreeThatIsComing(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newComingTrial(t)
		s := mustOpen(t, cl, 12*time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		_, err := s.Tree().Create(ctx, "/a", nil, CreateOptions{})
		if !errors.Is(err, session.ErrNoTree) || !errors.Is(err, ErrNoEffect) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a write: %v", err)
		}
		c.set(func() { c.coming = 0 })
		time.Sleep(time.Second)
		if _, err = cl.Tree().Get(t.Context(), "/"); !errors.Is(err, session.ErrNoTree) {
			t.Errorf("a read of a cluster that gets no tree: %v", err)
		}
		c.grow()
		time.Sleep(time.Second)
		if _, ok, err := s.Tree().Exists(t.Context(), "/a"); ok || err != nil {
			t.Errorf("the write that was given up: %v, %v", ok, err)
		}
	})
}

// W8: while the tree is coming, a client asks its node about 20 times a second, however many calls wait.
func TestW8AskingForATreeIsBounded(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newComingTrial(t)
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		for range 10 {
			go func() {
				if _, err := cl.Tree().Get(ctx, "/"); !errors.Is(err, session.ErrNoTree) {
					t.Errorf("a read: %v", err)
				}
			}()
		}
		<-ctx.Done()
		synctest.Wait()
		if n := c.node(1).count("touch"); n < 100 || n > 210 {
			t.Errorf("%d questions in 10 s", n)
		}
	})
}
