package node

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/test/bubble"
)

// removals are what somebody does to the directory of a node that runs, and undo is what brings it back, nil: nothing
// does.
func removals() map[string]struct {
	do, undo func(dir string) error
	what     string
} {
	aside := func(name string) (do, undo func(dir string) error) {
		return func(dir string) error { return os.Rename(filepath.Join(dir, name), dir+".aside") },
			func(dir string) error { return os.Rename(dir+".aside", filepath.Join(dir, name)) }
	}
	type removal = struct {
		do, undo func(dir string) error
		what     string
	}
	all := map[string]removal{
		"everything is removed": {do: os.RemoveAll, what: "was removed or moved"},
		"all in it is removed": {what: "identity was removed or moved", do: func(dir string) error {
			all, err := os.ReadDir(dir)
			for _, one := range all {
				err = errors.Join(err, os.RemoveAll(filepath.Join(dir, one.Name())))
			}
			return err
		}},
		"raft.db is replaced": {what: "raft.db was replaced", do: func(dir string) error {
			file := filepath.Join(dir, storage.StableFile)
			b, err := os.ReadFile(file)
			return errors.Join(err, os.Remove(file), os.WriteFile(file, b, 0o600))
		}},
		"identity is replaced": {what: "identity was replaced", do: func(dir string) error {
			file := filepath.Join(dir, storage.IdentityFile)
			b, err := os.ReadFile(file)
			return errors.Join(err, os.WriteFile(file+".new", b, 0o600), os.Rename(file+".new", file))
		}},
	}
	for _, name := range []string{"", storage.IdentityFile, storage.StableFile, storage.LogFolder, segment, storage.SnapshotFolder} {
		do, undo := aside(name)
		all["moved away and back: "+name] = removal{do, undo, "was removed or moved"}
	}
	return all
}

// TestADirectoryThatIsRemoved: the node notices that its data directory is gone, moved or replaced while it runs, steps
// out, says so everywhere, and comes back when the directory does.
func TestADirectoryThatIsRemoved(t *testing.T) {
	for name, how := range removals() {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				old := c.leader(within)
				before := c.mustOpen(old, time.Second)
				dir := c.config(old).DataDir
				if err := how.do(dir); err != nil {
					t.Fatal(err)
				}
				c.eventually("stepping out", old.cfg.Raft.StallTimeout, func() bool {
					return old.watchdog.Check() != nil
				})
				next := c.leader(within, old)
				c.mustOpen(next, time.Second)
				c.says(old, "directory", "while the node runs")
				if code, body := c.get(old, "/healthz"); code != http.StatusServiceUnavailable ||
					!strings.Contains(body, dir) || !strings.Contains(body, "stop the node and, "+storage.Recovery) ||
					!strings.Contains(body, how.what) {
					t.Errorf("healthz: %d %q, want what was done to %s, and what to do", code, body, dir)
				}
				if err := old.consensus.Raft.Snapshot().Error(); err == nil {
					t.Error("a snapshot was written to a directory that is gone")
				}
				if how.undo == nil {
					// As an operator does it: the node is stopped, what is left is removed, and the node starts on
					// nothing.
					if err := c.end(old); err != nil {
						t.Logf("the stop: %v", err)
					}
					c.empty(old)
					c.start(old)
					c.eventually("that it says that its directory was emptied", within, func() bool {
						err := old.health.Check()
						return err != nil && strings.Contains(err.Error(),
							"this node's data directory was emptied, lost or replaced")
					})
					c.voters()
				} else {
					if err := how.undo(dir); err != nil {
						t.Fatal(err)
					}
					c.eventually("serving again", 20*time.Second, func() bool { return old.health.Check() == nil })
					if log := old.log.String(); strings.Count(log, "the data directory is back") != 1 {
						t.Error("the log does not say once that the directory is back")
					}
				}
				c.agree(10 * time.Second)
				if _, err := old.server.Find(t.Context(), before.Session.ID, session.ReadOptions{}); err != nil {
					t.Errorf("a session of before: %v", err)
				}
			})
		})
	}
}

// A directory that is left alone is never found to be anything else: not while the node is admitted, takes snapshots,
// and stops.
func TestADirectoryThatIsLeftAlone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) {
			cfg.Tuning.SnapshotInterval, cfg.Tuning.SnapshotThreshold, cfg.Tuning.TrailingLogs = time.Second, 2, 1
		})
		leads := c.leader(within)
		for range 20 {
			c.mustOpen(leads, time.Second)
			time.Sleep(time.Second)
		}
		c.stop()
		for _, n := range c.nodes {
			if got := n.watchdog.Stats(); got.Stalled[watchdog.OnDirectory] != 0 {
				t.Errorf("%s: the directory was found to be gone %d times", n.name, got.Stalled[watchdog.OnDirectory])
			}
		}
	})
}
