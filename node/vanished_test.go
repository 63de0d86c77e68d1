package node

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/session"
	"holdfast/test/bubble"
)

// openMany opens sessions through nodes in turn, once all of them serve, and returns the acknowledged ids. number is
// the beginning of the request ids.
func (c *testCluster) openMany(number, count int, through ...*testNode) []session.ID {
	c.t.Helper()
	for _, n := range through {
		c.eventually(n.name+" serves", within, func() bool { return n.server.Ready() == nil })
	}
	var ids []session.ID
	for i := range count {
		n := through[i%len(through)]
		conn, err := n.server.Connect(nil)
		if err != nil {
			c.t.Fatal(err)
		}
		var request session.RequestID
		binary.BigEndian.PutUint32(request[:], uint32(number+i)+1)
		granted, err := conn.Open(c.t.Context(),
			session.OpenRequest{
				RequestID: request, Spec: session.Spec{Timeout: n.cfg.Sessions.MaxTimeout},
				MS: session.MS(time.Now()),
			})
		if err != nil {
			c.t.Fatalf("open %d through %s: %v", i, n.name, err)
		}
		ids = append(ids, granted.Session.ID)
	}
	return ids
}

// lost counts the sessions that a node does not know.
func lost(n *testNode, ids []session.ID) int {
	count := 0
	for _, id := range ids {
		if _, ok := n.view.Session(id); !ok {
			count++
		}
	}
	return count
}

// TestAVanishedLogIsNotANewOne: two of three nodes acknowledge sessions while the third is down. The log of one of the
// two is cut to nothing while both are dead. It must not found the cluster once more with the third, which never heard
// of the sessions.
func TestAVanishedLogIsNotANewOne(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) { cfg.Sessions.MaxTimeout = time.Hour })
		defer c.stop()
		c.leader(within)
		n1, n2, n3 := c.nodes[0], c.nodes[1], c.nodes[2]
		c.kill(n3)
		c.leader(within, n3)
		ids := c.openMany(0, 300, n1, n2)
		c.kill(n1)
		c.kill(n2)
		file := filepath.Join(c.config(n2).DataDir, storage.StableFile)
		// The segments and the newest applied entry go too: each of them alone stops the start.
		dir := c.config(n2).DataDir
		err := errors.Join(os.Truncate(file, 0), os.RemoveAll(filepath.Join(dir, storage.LogFolder)),
			os.Remove(filepath.Join(dir, storage.PositionsFile)))
		if err != nil {
			t.Fatal(err)
		}
		if made, err := c.make(n2); err == nil {
			t.Errorf("%s starts on a log that was cut to nothing", n2.name)
			n2.Node = made
			c.run(n2)
		} else if named := (&storage.UnusableError{}); !errors.As(err, &named) || named.File != file || named.Advice != storage.Recovery {
			t.Errorf("got %v, want that %s is empty, and what to do", err, file)
		}
		c.start(n3)
		time.Sleep(30 * time.Second)
		for _, n := range []*testNode{n2, n3} {
			if n.Leads() {
				t.Errorf("%s leads, and does not know %d of %d sessions that were acknowledged", n.name, lost(n, ids),
					len(ids))
			}
		}
		// The safe way: the node with the good log comes back, and the directory is emptied as a whole.
		c.start(n1)
		c.leader(20*time.Second, n2)
		c.empty(n2)
		c.start(n2)
		c.voters()
		c.agree(10 * time.Second)
		for _, n := range c.nodes {
			if missing := lost(n, ids); missing > 0 {
				t.Errorf("%s does not know %d of %d sessions that were acknowledged", n.name, missing, len(ids))
			}
		}
	})
}
