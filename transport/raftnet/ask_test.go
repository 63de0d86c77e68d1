package raftnet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
)

// layerOn returns the layer of a node on a simulated network. Its address is the node's name and :1.
func layerOn(t *testing.T, n *simnet.Network, name string, node session.Node, change func(*Config)) *Layer {
	t.Helper()
	host := n.Host(name)
	port, err := host.Listen(":1")
	if err != nil {
		t.Fatal(err)
	}
	cfg := Config{
		ClusterID: "c", Node: node, Advertise: name + ":1", Listener: port, Dial: host.Dial, Key: Key{byte(node)},
		OnQuery: func(from session.Node, on Directory, question []byte) []byte {
			return fmt.Appendf(nil, "%d on %v asks %s", from, on, question)
		},
	}
	if change != nil {
		change(&cfg)
	}
	return New(cfg)
}

// TestAsk asks a node that answers, one that is another than expected, one whose process has ended, and one that is not
// reached. Only an address at which no process listens refuses.
func TestAsk(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := simnet.New(nil)
		elsewhere := ""
		a := layerOn(t, n, "a", 1, func(c *Config) { c.Elsewhere = func(Directory) string { return elsewhere } })
		b := layerOn(t, n, "b", 2, nil)
		accepted := accepting(b)
		ask := func(to raft.ServerAddress) (string, error) {
			ctx, cancel := context.WithTimeout(t.Context(), 150*time.Millisecond)
			defer cancel()
			answer, err := a.Ask(ctx, to, []byte("hello"))
			return string(answer), err
		}
		if got, err := ask(At("b:1", dir(2))); err != nil || got != "1 on "+dir(1).String()+" asks hello" {
			t.Errorf("asked: %q, %v", got, err)
		}
		if _, err := ask(At("b:1", dir(3))); !errors.Is(err, session.ErrWrongCluster) {
			t.Errorf("asked on another directory: %v", err)
		}
		if _, err := ask("b:1#"); err == nil {
			t.Error("an address that is none was asked")
		}
		elsewhere = "c:1" // nobody is there
		if got, err := ask(At("b:1", dir(2))); err != nil || got == "" {
			t.Errorf("asked where Raft has it: %q, %v", got, err)
		}
		gone := layerOn(t, n, "gone", 3, nil)
		n.Cut("a", "gone")
		elsewhere = "gone:1" // nothing answers there
		if got, err := ask(At("b:1", dir(2))); err != nil || got == "" {
			t.Errorf("asked where Raft has it, and where nothing answers: %q, %v", got, err)
		}
		elsewhere = "c:1"
		closeAll(t, gone)
		synctest.Wait()
		if len(accepted) != 0 || b.Links(1) != (Links{}) {
			t.Error("a question was given to Raft, or counts as a connection of its")
		}
		b.Suspend()
		if _, err := ask(At("b:1", dir(2))); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("a node that is suspended: %v", err)
		}
		b.Resume()
		n.Cut("b", "a")
		begun := time.Now()
		if _, err := ask(At("b:1", dir(2))); err == nil || errors.Is(err, ErrRefused) || time.Since(begun) > 150*time.Millisecond {
			t.Errorf("an unanswered question: %v after %v", err, time.Since(begun))
		}
		n.Heal("b", "a")
		n.Kill("b")
		if _, err := ask(At("b:1", dir(2))); !errors.Is(err, ErrRefused) {
			t.Errorf("a node that has ended: %v, want that it refuses", err)
		}
		elsewhere = "a:1" // this node itself: not the member, but a process
		if _, err := ask(At("b:1", dir(2))); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("one address refuses, the other does not: %v", err)
		}
		_ = b.cfg.Listener.Close()
		closeAll(t, a)
		_ = b.Close()
	})
}

// TestAskWaits: a node that waits for admission neither asks nor answers. One without an answer gives an empty one.
func TestAskWaits(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := simnet.New(nil)
		a := layerOn(t, n, "a", 1, func(c *Config) { c.OnQuery = nil })
		b := layerOn(t, n, "b", 2, func(c *Config) { c.Waits = true })
		accepting(a)
		accepting(b)
		if _, err := b.Ask(t.Context(), "a:1", nil); !errors.Is(err, errWaits) {
			t.Errorf("it asks: %v", err)
		}
		if _, err := a.Ask(t.Context(), "b:1", nil); err == nil || errors.Is(err, ErrRefused) {
			t.Errorf("it answers: %v", err)
		}
		b.Admit()
		if got, err := b.Ask(t.Context(), "a:1", nil); err != nil || len(got) != 0 {
			t.Errorf("got %q, %v; want an empty answer", got, err)
		}
		closeAll(t, a, b)
	})
}

// TestAskEndsInTime: greeting and answer have one deadline together. A node that greets late has the rest of the time
// for its answer.
func TestAskEndsInTime(t *testing.T) {
	const wait = 150 * time.Millisecond
	for name, limit := range map[string]struct{ handshake, caller time.Duration }{
		"the caller's deadline": {time.Hour, wait}, "the handshake's timeout": {wait, time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				n := simnet.New(nil)
				a := layerOn(t, n, "a", 1, func(c *Config) { c.HandshakeTimeout = limit.handshake })
				port, err := n.Host("b").Listen(":1")
				if err != nil {
					t.Fatal(err)
				}
				go func() {
					conn, err := port.Accept()
					if err != nil {
						t.Error(err)
						return
					}
					theirs, err := readGreeting(conn)
					time.Sleep(wait - soon)
					ours := greeting{format: session.GreetingFormat, code: codeHello, node: 2, text: theirs.text, directory: dir(2)}
					said := append(theirs.bytes(), ours.bytes()...)
					report := (&Layer{cfg: Config{Key: Key{2}}}).report(theirs.directory, sideDialled, said)
					_, writeErr := conn.Write(append(ours.bytes(), report...))
					if err = errors.Join(err, writeErr); err != nil {
						t.Error(err)
					}
					_, _ = io.Copy(io.Discard, conn) // until the other side gives up
				}()
				ctx, cancel := context.WithTimeout(t.Context(), limit.caller)
				defer cancel()
				begun := time.Now()
				if _, err := a.Ask(ctx, "b:1", nil); err == nil || time.Since(begun) != wait {
					t.Errorf("%v after %v, want the end after %v", err, time.Since(begun), wait)
				}
				closeAll(t, a)
			})
		})
	}
}

// TestLinks counts the connections of a node, and reports who ended the last one.
func TestLinks(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := simnet.New(nil)
		var told atomic.Int32
		a := layerOn(t, n, "a", 1, nil)
		b := layerOn(t, n, "b", 2, func(c *Config) { c.Linked = func() { told.Add(1) } })
		accepted := accepting(b)
		connect := func() (ours, theirs net.Conn) {
			t.Helper()
			ours, err := a.Dial("b:1", time.Second)
			if err != nil {
				t.Fatal(err)
			}
			return ours, <-accepted
		}
		expect := func(what string, want Links, news int32) {
			t.Helper()
			synctest.Wait()
			if got := b.Links(1); got != want || told.Swap(0) != news {
				t.Errorf("%s: %+v, want %+v", what, got, want)
			}
		}
		// As Raft does: it closes a connection that it cannot read from.
		serve := func(c net.Conn) { _, _ = io.Copy(io.Discard, c); _ = c.Close() }
		one, in := connect()
		go serve(in)
		two, in := connect()
		go serve(in)
		expect("two", Links{Open: 2, Opened: 2}, 2)
		_ = one.Close()
		expect("one of two ended", Links{Open: 1, Opened: 2}, 1)
		_ = two.Close()
		expect("both ended", Links{Opened: 2, Lost: true}, 1)
		_, in = connect()
		expect("another", Links{Open: 1, Opened: 3}, 1)
		_ = in.Close()
		_ = in.Close()
		expect("closed here", Links{Opened: 3}, 1)
		_, in = connect()
		go serve(in)
		b.Suspend()
		expect("suspended", Links{Opened: 4}, 2)
		b.Resume()
		three, in := connect()
		go serve(in)
		go func() { _, _ = three.Write([]byte{0xff}) }()
		expect("garbage", Links{Opened: 5}, 2)
		_, in = connect()
		go serve(in)
		n.Reset("a", "b")
		expect("reset", Links{Opened: 6, Lost: true}, 2)
		closeAll(t, a, b)
	})
}

// TestAVoteIsAskedForAfresh: the connections that Raft keeps to a node are dead once the node's process was started
// again. A vote is not lost to them.
func TestAVoteIsAskedForAfresh(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		n := simnet.New(nil)
		a := NewTransport(layerOn(t, n, "a", 1, nil), time.Second)
		stop := make(chan struct{})
		start := func() *Transport {
			b := NewTransport(layerOn(t, n, "b", 2, nil), time.Second)
			go func() {
				for {
					select {
					case rpc := <-b.Consumer():
						rpc.Respond(&raft.RequestVoteResponse{Term: 7, Granted: true}, nil)
					case <-stop:
						return
					}
				}
			}()
			return b
		}
		vote := func(what string) {
			t.Helper()
			var got raft.RequestVoteResponse
			begun := time.Now()
			err := a.RequestVote("2", "b:1", &raft.RequestVoteRequest{Term: 7}, &got)
			if err != nil || !got.Granted || time.Since(begun) > probeWait {
				t.Errorf("%s: %+v, %v after %v", what, got, err, time.Since(begun))
			}
		}
		b := start()
		vote("the first")
		vote("the second, on the same connection")
		n.Kill("b")
		if err := b.Close(); err != nil {
			t.Logf("closing a killed node's port: %v", err)
		}
		b = start()
		vote("after a restart")
		close(stop)
		if err := errors.Join(a.Close(), b.Close()); err != nil {
			t.Error(err)
		}
	})
}
