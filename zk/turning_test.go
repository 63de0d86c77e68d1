package zk_test

import (
	"encoding/binary"
	"io"
	"net"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/zk/jute"
)

// TestANodeThatTurnsReadOnlyRefusesNoRead: a client with a global session learns that its node has become read-only by
// the end of its connection (Z9 read-only), however soon it asks. Without: its reads are refused as if they were writes
// to a read-only server, to which it had never agreed.
func TestANodeThatTurnsReadOnlyRefusesNoRead(t *testing.T) {
	const clients = 20
	runWith(t, func(cfg *config.Config) { cfg.Sessions.Local, cfg.ReadOnly = true, true }, func(c *world) {
		t := c.T
		var all []net.Conn
		for range clients {
			n := knock(c, "n1:7404")
			request := connecting(0, nil)
			binary.BigEndian.PutUint32(request[4+4+8:], 50_000) // so that its promise lasts
			_, _ = n.Write(request)
			connected(t, n)
			all = append(all, n)
		}
		defer c.Apart()()
		for end := time.Now().Add(time.Minute); say(c, "n1", "isro") != "ro"; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatal("the node does not become read-only")
			}
		}
		for _, n := range all {
			asks(t, n, 1, jute.Exists, reading("/"))
		}
		for i, n := range all {
			_ = n.SetReadDeadline(time.Now().Add(time.Minute))
			if answer, err := io.ReadAll(n); err != nil || len(answer) > 0 {
				t.Errorf("client %d: % x, %v: want the end of the connection", i, answer, err)
			}
		}
	})
}
