package client

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/test/bubble"
	"holdfast/tree"
)

// stuck makes a node read nothing more of its client until the returned function is called, and fills the connection:
// later messages wait in the client.
func stuck(t *testing.T, n *fakeNode, in *Tree) (goOn func()) {
	t.Helper()
	block := make(chan struct{})
	n.answer(func(kind string) error {
		<-block
		if kind == "close" { // of the session that no caller waits for
			return errMute
		}
		return nil
	})
	var all sync.WaitGroup
	for _, bytes := range []int{1, 512 << 10, 1} {
		all.Go(func() {
			if _, err := in.Create(t.Context(), "/fill-", make([]byte, bytes), CreateOptions{Sequential: true}); err != nil {
				t.Errorf("fill the way: %v", err)
			}
		})
		synctest.Wait()
	}
	return func() {
		close(block)
		all.Wait()
	}
}

// After a call whose context ended, the caller may change the call's arguments, although the request is still queued.
// Without a copy the node would get the changed arguments.
func TestCallsThatEndGiveTheirArgumentsBack(t *testing.T) {
	const meant, other = "meant", "other"
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTreeTrial(t, 1)
		in := mustOpen(t, cl, 12*time.Second).Tree()
		mustCreate(t, in, "/set", CreateOptions{})
		goOn := stuck(t, c.node(1), in)
		data, labels := []byte(meant), map[string]string{"key": meant}
		ctx, cancel := context.WithCancel(t.Context())
		var calls sync.WaitGroup
		for _, call := range []func() error{
			func() error { _, err := in.Create(ctx, "/create", data, CreateOptions{}); return err },
			func() error { _, err := in.Set(ctx, "/set", data); return err },
			func() error {
				_, err := in.Transact(ctx, tree.Transaction{
					Then: []tree.Op{tree.Create{Path: "/transact", Data: data, Kind: tree.Persistent}},
				})
				return err
			},
			func() error {
				_, err := cl.Open(ctx, SessionOptions{Timeout: time.Minute, Labels: labels})
				return err
			},
		} {
			calls.Go(func() {
				if err := call(); !errors.Is(err, context.Canceled) {
					t.Errorf("got %v, want the end of the context", err)
				}
			})
			synctest.Wait()
		}
		cancel()
		calls.Wait()
		copy(data, other)
		labels["key"] = other
		c.set(func() {
			if len(c.tree.entries) != 2 {
				t.Errorf("the node has %d entries already: the way to it is not full", len(c.tree.entries))
			}
		})
		goOn()
		synctest.Wait()
		c.set(func() {
			for _, path := range []string{"/create", "/set", "/transact"} {
				if e := c.tree.entries[path]; e == nil || string(e.data) != meant {
					t.Errorf("%s has %+v, want %q", path, e, meant)
				}
			}
			var opened []string
			for _, s := range c.sessions {
				if value, labelled := s.Labels.Value("key"); labelled {
					opened = append(opened, value)
				}
			}
			if !slices.Equal(opened, []string{meant}) {
				t.Errorf("the session was opened with %q, want %q", opened, meant)
			}
		})
	})
}
