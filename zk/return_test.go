package zk_test

import (
	"fmt"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/learner"
	"holdfast/test/whole"
	"holdfast/zk/jute"
)

// TestWatchesBeyondTheRing: a client with a lasting watch that was away for more changes than a node remembers, or
// while the nodes were restarted, gets its watch back. It hears nothing of what it missed (Z7), and of what comes.
func TestWatchesBeyondTheRing(t *testing.T) {
	runSetup(t, whole.Setup{Telling: learner.Telling{Changes: 16}}, func(c *world) {
		t := c.T
		s := c.Session(sdk(t, c, "sdk"), 10*time.Second)
		create := func(path string) {
			if _, err := s.Tree().Create(t.Context(), path, nil, client.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		n, id, password := comes(c, "n1", 0, nil)
		asks(t, n, 1, jute.AddWatch, func(e *jute.Encoder) {
			e.String("/")
			e.Int(jute.ModeRecursive)
		})
		newest := hears(t, n)
		_ = n.Close()
		for i := range 100 {
			create(fmt.Sprint("/missed-", i))
		}
		n, _, _ = comes(c, "n2", id, password)
		asks(t, n, jute.WatchesXid, jute.SetWatches2, func(e *jute.Encoder) {
			e.Long(newest.zxid)
			for range 4 {
				e.Strings(nil)
			}
			e.Strings([]string{"/"})
		})
		if h := hears(t, n); h.xid != jute.WatchesXid || h.code != jute.OK {
			t.Errorf("bringing the watch back was answered by %+v", h)
		}
		create("/told")
		if h := hears(t, n); h.xid != jute.EventXid {
			t.Errorf("heard %+v, want an event", h)
		}
	})
}
