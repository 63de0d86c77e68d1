//go:build e2e

package zk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"holdfast/test/proc"
	"holdfast/test/timeout"
	"holdfast/zk/jute"
)

const (
	// strangers are connections of each kind.
	silentOnes, talkingOnes = 10_000, 200
	// perStranger bounds the memory that a silent connection takes of a node, with the sockets' own in the kernel left
	// out, and the garbage of its beginning put in.
	perStranger = 24 << 10
	// floodBytes is how many bytes of pings a flooding client sends at least, reading nothing.
	floodBytes = 16 << 20
	// floodMemory bounds what all of that takes of the nodes.
	floodMemory = 96 << 20
)

// TestStrangers lets 10,000 connections say nothing, and others send what no client sends, while a client goes on with
// its session at each node.
func TestStrangers(t *testing.T) {
	nodes := nodesOf(t)
	addresses := begin(t, nodes)
	stop, harmed := bystanders(t, addresses)
	t.Run("nothing", func(t *testing.T) { silence(t, nodes) })
	t.Run("nonsense", func(t *testing.T) { nonsense(t, nodes) })
	t.Run("floods", func(t *testing.T) { floods(t, nodes) })
	stop()
	if err := harmed(); err != nil {
		t.Errorf("a client with a session was harmed: %v", err)
	}
	for _, n := range nodes {
		text, err := os.ReadFile(n.process.Log())
		if err != nil || !bytes.Contains(text, []byte("because they sent nothing")) {
			t.Errorf("the log of %s has no line of it: %v", n.address, err)
		}
	}
}

// bystanders are clients with sessions, one at each node, which write and read all the time.
func bystanders(t *testing.T, addresses []string) (stop func(), harmed func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var all sync.WaitGroup
	failed := make([]error, len(addresses))
	for i, address := range addresses {
		p := &peer{address: address}
		timeout.Check(t, p.connect())
		p.must(t, jute.Create, func(e *jute.Encoder) {
			e.String(fmt.Sprintf("/by-%d", i))
			e.Buffer(nil)
			e.ACLs([]jute.ACL{{Perms: 31, Scheme: "world", ID: "anyone"}})
			e.Int(0)
		})
		all.Go(func() {
			for n := 0; ctx.Err() == nil && failed[i] == nil; n++ {
				var e jute.Encoder
				e.String(fmt.Sprintf("/by-%d", i))
				e.Buffer([]byte("x"))
				e.Int(int32(n))
				if r, err := p.ask(jute.SetData, e.Bytes()); err != nil || r.code != jute.OK {
					failed[i] = fmt.Errorf("write %d at %s: %v %w", n, address, r.code, err)
				}
			}
			p.drop()
		})
	}
	return func() {
		cancel()
		all.Wait()
	}, func() error { return errors.Join(failed...) }
}

func processes(nodes []*node) (all []*proc.Process) {
	for _, n := range nodes {
		all = append(all, n.process)
	}
	return all
}

func memory(t *testing.T, nodes []*node) int64 {
	t.Helper()
	resident, err := proc.RSS(processes(nodes)...)
	timeout.Check(t, err)
	return resident
}

// silence opens connections that say nothing. Each is closed by its node.
func silence(t *testing.T, nodes []*node) {
	t.Helper()
	before := memory(t, nodes)
	conns := make([]net.Conn, 0, silentOnes)
	defer func() {
		for _, c := range conns {
			_ = c.Close()
		}
	}()
	for i := range silentOnes {
		c, err := net.DialTimeout("tcp", nodes[i%len(nodes)].address, answerWait)
		if err != nil {
			t.Fatalf("connection %d: %v", i, err)
		}
		conns = append(conns, c)
	}
	took := memory(t, nodes) - before
	t.Logf("%d connections that say nothing take %d bytes each of the nodes", silentOnes, took/silentOnes)
	if took > silentOnes*perStranger {
		t.Errorf("%d connections take %d bytes", silentOnes, took)
	}
	for i, c := range conns {
		_ = c.SetReadDeadline(time.Now().Add(answerWait))
		if _, err := c.Read(make([]byte, 1)); !errors.Is(closed(err), errClosed) {
			t.Fatalf("connection %d is not closed: %v", i, err)
		}
	}
}

// nonsense sends what is no request. Each connection is closed by its node.
func nonsense(t *testing.T, nodes []*node) {
	t.Helper()
	connect := jute.NewFrame()
	connect.Int(0)
	connect.Long(0)
	connect.Int(10_000)
	connect.Long(0)
	connect.Buffer(make([]byte, 16))
	connect.Bool(false)
	hello := connect.Frame()
	for name, sent := range map[string][]byte{
		"a negative length":           {0xff, 0xff, 0xff, 0xff},
		"a frame above the limit":     {0, 0x10, 0, 0},
		"half a connect":              hello[:20],
		"a negative length, later":    append(slices.Clone(hello), 0x80, 0, 0, 0),
		"an unknown operation":        append(slices.Clone(hello), 0, 0, 0, 8, 0, 0, 0, 1, 0, 0, 0, 99),
		"half a frame of the longest": append(slices.Clone(hello), 0, 0x0f, 0xff, 0xff, 0, 0, 0, 1, 0, 0, 0, 5),
	} {
		var all sync.WaitGroup
		for i := range talkingOnes {
			all.Go(func() {
				c, err := net.DialTimeout("tcp", nodes[i%len(nodes)].address, answerWait)
				if err != nil {
					t.Errorf("%s: %v", name, err)
					return
				}
				defer func() { _ = c.Close() }()
				_, _ = c.Write(sent)
				_ = c.SetReadDeadline(time.Now().Add(answerWait))
				if _, err := io.Copy(io.Discard, c); err != nil && !errors.Is(closed(err), errClosed) {
					t.Errorf("%s: the connection is not closed: %v", name, err)
				}
			})
		}
		all.Wait()
	}
}

// floods sends pings and reads no answer, until the node ends the connection.
func floods(t *testing.T, nodes []*node) {
	t.Helper()
	before := memory(t, nodes)
	pings := bytes.Repeat([]byte{0, 0, 0, 8, 0xff, 0xff, 0xff, 0xfe, 0, 0, 0, 11}, 1<<12)
	var all sync.WaitGroup
	for _, n := range nodes {
		all.Go(func() {
			p := &peer{address: n.address}
			if err := p.connect(); err != nil {
				t.Error(err)
				return
			}
			defer p.drop()
			sent := 0
			for sent < floodBytes {
				_ = p.conn.SetWriteDeadline(time.Now().Add(answerWait))
				some, err := p.conn.Write(pings)
				if sent += some; err != nil {
					t.Logf("%s ended the connection after %d bytes of pings", n.address, sent)
					return
				}
			}
			t.Errorf("%s took %d bytes of pings from a client that reads nothing", n.address, sent)
		})
	}
	all.Wait()
	took := memory(t, nodes) - before
	t.Logf("floods took %d bytes of the nodes", took)
	if took > floodMemory {
		t.Error("that is too much")
	}
}
