package zk_test

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
)

// knock connects to a node without a client, from a host of its own.
func knock(c *world, address string) net.Conn {
	c.T.Helper()
	n, err := c.Host(fmt.Sprint("raw", len(c.ends))).Dial(c.T.Context(), address)
	if err != nil {
		c.T.Fatal(err)
	}
	c.ends = append(c.ends, func() { _ = n.Close() })
	return n
}

// connecting is the frame of a ConnectRequest with a timeout of 10 s, for a session or, with 0, for a new one.
func connecting(id session.ID, password []byte) []byte {
	f := append([]byte{0, 0, 0, 44}, make([]byte, 44)...)
	binary.BigEndian.PutUint32(f[4+4+8:], 10_000)
	binary.BigEndian.PutUint64(f[4+4+8+4:], uint64(id))
	f[4+4+8+4+8+3] = 16
	copy(f[4+4+8+4+8+4:], password)
	return f
}

// connected reads the answer to a ConnectRequest: the session and its password, 0 for no session.
func connected(t *testing.T, n net.Conn) (session.ID, []byte) {
	t.Helper()
	answer := make([]byte, 4+36)
	if _, err := io.ReadFull(n, answer); err != nil {
		t.Fatal(err)
	}
	if timeout := binary.BigEndian.Uint32(answer[8:]); (timeout == 0) != (binary.BigEndian.Uint64(answer[12:]) == 0) {
		t.Errorf("the answer % x has one of timeout and session", answer)
	}
	return session.ID(binary.BigEndian.Uint64(answer[12:])), answer[24:]
}

// say returns a node's answer to a four-letter word.
func say(c *world, node, word string) string {
	c.T.Helper()
	n := knock(c, node+":7404")
	_, _ = n.Write([]byte(word))
	answer, _ := io.ReadAll(n)
	return string(answer)
}

// pulse is a ping.
var pulse = []byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}

// alive reports whether a connection answers a ping.
func alive(n net.Conn) bool {
	_, _ = n.Write(pulse)
	_ = n.SetReadDeadline(time.Now().Add(3 * time.Second))
	_, err := io.ReadFull(n, make([]byte, 4+16))
	return err == nil
}

// TestPasswords: a session is resumed only with its password. Other clients get the answer that there is no such
// session (H-61), at no cost to the session's own connection (H-41 does cost).
func TestPasswords(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		own := knock(c, "n1:7404")
		_, _ = own.Write(connecting(0, nil))
		id, password := connected(t, own)
		for name, wrong := range map[string][]byte{
			"a wrong one": bytes.Repeat([]byte{7}, 16), "none": make([]byte, 16),
		} {
			n := knock(c, "n2:7404")
			_, _ = n.Write(connecting(id, wrong))
			if got, _ := connected(t, n); got != 0 {
				t.Errorf("%s: got the session %v", name, got)
			}
			if _, err := n.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
				t.Errorf("%s: the connection goes on: %v", name, err)
			}
		}
		if !alive(own) {
			t.Error("the session's connection has ended")
		}
		n := knock(c, "n2:7404")
		_, _ = n.Write(connecting(id, password))
		if got, _ := connected(t, n); got != id {
			t.Errorf("with the password: %v, want %v", got, id)
		}
		if !alive(n) || alive(own) {
			t.Error("the session is served through its former connection")
		}
	})
}

// TestIDsThatMayBeLocalElsewhere: only the node of a local session knows whether it lives. Another node closes the
// connection without an answer; it reports a session gone when the session was global (Z3 expired).
func TestIDsThatMayBeLocalElsewhere(t *testing.T) {
	runWith(t, func(cfg *config.Config) { cfg.Sessions.Local = true }, func(c *world) {
		t := c.T
		cl, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		ended := session.ID(cl.SessionID())
		unknown := ended + 1
		if unknown.Node() != 1 {
			t.Fatalf("%v is an id of node %d", unknown, unknown.Node())
		}
		cl.Close()
		time.Sleep(time.Second)
		for _, tt := range []struct {
			node string
			id   session.ID
			told bool
		}{{"n1", unknown, true}, {"n2", unknown, false}, {"n1", ended, true}, {"n2", ended, true}} {
			n := knock(c, tt.node+":7404")
			_, _ = n.Write(connecting(tt.id, make([]byte, 16)))
			answer, err := io.ReadAll(n)
			if told := len(answer) > 0; told != tt.told || err != nil {
				t.Errorf("%s was asked for %v: answered % x, %v; want an answer: %v", tt.node, tt.id, answer, err, tt.told)
			}
		}
	})
}

// TestNoSessionBeforeTheNodeServesReads: a node that grants a session serves it. After an election a node learns of the
// leader's first entries, and so of a session, before it learns of a good round, without which it reads nothing.
func TestNoSessionBeforeTheNodeServesReads(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		for range 5 {
			heal := c.Apart()
			time.Sleep(20 * time.Second)
			heal()
			var clients sync.WaitGroup
			for _, node := range c.Names {
				clients.Go(func() { welcomed(c, node) })
			}
			clients.Wait()
		}
	})
}

// welcomed asks a node for a session until it gives one, and reads an entry at once.
func welcomed(c *world, node string) {
	t := c.T
	for {
		n, err := c.Host("early-"+node).Dial(t.Context(), node+":7404")
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = n.Write(connecting(0, nil))
		if _, err := io.ReadFull(n, make([]byte, 4+36)); err == nil {
			defer func() { _ = n.Close() }()
			_, _ = n.Write([]byte{0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, '/', 0}) // exists
			if _, err := io.ReadFull(n, make([]byte, 4+16+68)); err != nil {
				t.Errorf("%s gave out a session and did not read an entry: %v", node, err)
			}
			return
		}
		_ = n.Close()
		time.Sleep(time.Millisecond)
	}
}

// TestAConnectionThatItsClientHasLeft: a resume in flight when its client gave the connection up does not move the
// session away from the client's next connection (Z2 connect, M-10).
func TestAConnectionThatItsClientHasLeft(t *testing.T) {
	for name, more := range map[string][]byte{"at once": nil, "after a ping behind its connect": pulse} {
		t.Run(name, func(t *testing.T) { leavesAConnection(t, more) })
	}
}

// leavesAConnection acts as a client that leaves a connection on which it has sent its connect, and more.
func leavesAConnection(t *testing.T, more []byte) {
	t.Helper()
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second)
		first := knock(c, "n1:7404")
		_, _ = first.Write(connecting(0, nil))
		id, password := connected(t, first)
		_ = first.Close()
		leader, slow := c.Names[0], c.Names[1]
		if !strings.Contains(say(c, leader, "srvr"), "Mode: leader") {
			if leader, slow = c.Names[1], c.Names[0]; !strings.Contains(say(c, leader, "srvr"), "Mode: leader") {
				leader = c.Names[2]
			}
		}
		c.Slow(slow, leader, 50*time.Millisecond, 0)
		c.Slow(leader, slow, 50*time.Millisecond, 0)
		left := knock(c, slow+":7404")
		_, _ = left.Write(slices.Concat(connecting(id, password), more))
		time.Sleep(20 * time.Millisecond)
		_ = left.Close()
		next := knock(c, leader+":7404")
		_, _ = next.Write(connecting(id, password))
		if got, _ := connected(t, next); got != id {
			t.Fatalf("the next connection got %v, want %v", got, id)
		}
		for range 4 {
			time.Sleep(2 * time.Second)
			if !alive(next) {
				t.Fatal("the session was taken from the next connection")
			}
		}
	})
}

// TestClose: a closeSession is answered when the session has ended, with its ephemerals, and the connection ends.
func TestClose(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		n := knock(c, "n1:7404")
		_, _ = n.Write(slices.Concat(connecting(0, nil), []byte{0, 0, 0, 8, 0, 0, 0, 7, 0xff, 0xff, 0xff, 0xf5}))
		answer, err := io.ReadAll(n)
		if err != nil || len(answer) != 4+36+4+16 {
			t.Fatalf("% x %v: want the answers to a connect and to a close", answer, err)
		}
		if reply := answer[4+36+4:]; !bytes.Equal(reply[:4], []byte{0, 0, 0, 7}) ||
			!bytes.Equal(reply[12:], []byte{0, 0, 0, 0}) {
			t.Errorf("the reply is % x", reply)
		}
		id := session.ID(binary.BigEndian.Uint64(answer[4+8:]))
		found, err := sdk(t, c, "sdk").Get(t.Context(), id)
		if err != nil || found.Certificate == nil || found.Certificate.Cause != session.CauseClosed {
			t.Errorf("session %v: %+v %v", id, found, err)
		}
		if _, _, err := z.Get("/"); err != nil {
			t.Error(err)
		}
	})
}

// TestWords: each word gets an answer that monitoring can read, and ZooKeeper's others are not executed.
func TestWords(t *testing.T) {
	run(t, func(c *world) {
		t := c.T
		served(t, c, "z", 10*time.Second, "n1:7404")
		for word, want := range map[string]string{
			"ruok": "imok", "srvr": "Mode: ", "stat": "Clients:\n /", "mntr": "zk_znode_count\t", "cons": "sid=0x",
			"conf": "minSessionTimeout=", "dump": "SessionTracker dump:", "envi": "zookeeper.version=3.", "isro": "rw",
			"wchs": "Total watches:",
		} {
			if got := say(c, "n1", word); !strings.Contains(got, want) {
				t.Errorf("%s: %q, want %q in it", word, got, want)
			}
		}
		for _, word := range []string{"crst", "dirs", "gtmk", "hash", "srst", "stmk", "wchc", "wchp"} {
			if got, want := say(c, "n1", word), word+" is not executed because it is not in the whitelist.\n"; got != want {
				t.Errorf("%s: %q, want %q", word, got, want)
			}
		}
		if got := say(c, "n1", "sess"); got != "" {
			t.Errorf("sess, which is no word: %q", got)
		}
		for word, want := range map[string]bool{"stat": false, "cons": true} {
			_, line, _ := strings.Cut(say(c, "n1", word), " /")
			line, _, _ = strings.Cut(line, "\n")
			if strings.Contains(line, "sid=") != want || !strings.Contains(line, "(queued=0,recved=") ||
				!strings.HasSuffix(line, ")") {
				t.Errorf("%s: the line of a connection is %q", word, line)
			}
		}
		if len(words()) != 10 {
			t.Errorf("%d words: the test knows 10", len(words()))
		}
	})
}

// TestHostile: an invalid request ends the connection, and harms no other client.
func TestHostile(t *testing.T) {
	connect := connecting(0, nil)
	frame := func(body ...byte) []byte { return append([]byte{0, 0, 0, byte(len(body))}, body...) }
	op := func(code byte) []byte { return frame(0, 0, 0, 1, 0, 0, 0, code) }
	run(t, func(c *world) {
		t := c.T
		z, _ := served(t, c, "z", 10*time.Second, "n1:7404")
		for _, one := range []struct {
			name  string
			sent  []byte
			wants []byte // in the last bytes of the answer
		}{
			{"a frame that is too long", []byte{0, 16, 0, 0}, nil},
			{"a negative length", []byte{0xff, 0xff, 0xff, 0xff}, nil},
			{"half a connect", connect[:20], nil},
			{"nothing", nil, nil},
			{"a connect that is too short", frame(0, 0, 0, 0), nil},
			{"an unknown operation", slices.Concat(connect, op(99)), []byte{0xff, 0xff, 0xff, 0xfa}},
			{"deleteContainer (W-23)", slices.Concat(connect, op(20)), []byte{0xff, 0xff, 0xff, 0xfa}},
			{
				"check alone", slices.Concat(connect, frame(0, 0, 0, 1, 0, 0, 0, 13, 0, 0, 0, 1, '/', 0, 0, 0, 0)),
				[]byte{0xff, 0xff, 0xff, 0xfa},
			},
			{
				"createSession (N-41)", slices.Concat(connect, frame(0, 0, 0, 1, 0xff, 0xff, 0xff, 0xf6, 0, 0x7f, 0, 0)),
				[]byte{0xff, 0xff, 0xff, 0xfa},
			},
			{
				"a string that claims 2 GiB", slices.Concat(connect, frame(0, 0, 0, 1, 0, 0, 0, 4, 0x7f, 0xff, 0xff, 0xff)),
				[]byte{0xff, 0xff, 0xff, 0xfb},
			},
			{"an empty frame", slices.Concat(connect, frame()), nil},
		} {
			n := knock(c, "n1:7404")
			began := time.Now()
			_, _ = n.Write(one.sent)
			answer, _ := io.ReadAll(n)
			_ = n.Close()
			if took := time.Since(began); took > 30*time.Second {
				t.Errorf("%s: the connection lived for %v", one.name, took)
			}
			if !bytes.HasSuffix(answer, one.wants) {
				t.Errorf("%s: the answer ends with % x, want % x", one.name, answer[max(0, len(answer)-16):], one.wants)
			}
		}
		if _, _, err := z.Get("/"); err != nil {
			t.Errorf("another client: %v", err)
		}
	})
}
