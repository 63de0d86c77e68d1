package node

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/session"
	"holdfast/test/bubble"
)

// library has the directories that tests begin with: the directories of three nodes that acknowledged sessions and were
// killed, and copies of them from the former start.
type library struct {
	dir string
	ids []session.ID
	// trailing is how many entries a log keeps when it is cut after a snapshot.
	trailing uint64
	// first and newest are the names of the two snapshots of each node.
	first, newest [3]string
}

// newLibrary makes a library whose nodes leave so many entries in their logs when they cut them after a snapshot.
func newLibrary(t *testing.T, trailing uint64) *library {
	t.Helper()
	l := &library{dir: t.TempDir(), trailing: trailing}
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, l.config)
		work := func(number int) {
			leads := c.leader(within)
			l.ids = append(l.ids, c.openMany(number, 20, leads)...)
			c.agree(within)
			for i, n := range c.nodes { // no two snapshots are the same
				l.ids = append(l.ids, c.openMany(number+20+i, 1, leads)...)
				c.agree(within)
				if err := n.consensus.Raft.Snapshot().Error(); err != nil {
					t.Fatal(err)
				}
			}
			l.ids = append(l.ids, c.openMany(number+30, 10, leads)...)
			c.agree(within)
		}
		work(0)
		c.stop()
		l.copy(t, "older", c.dir)
		time.Sleep(time.Minute)
		for _, n := range c.nodes {
			c.start(n)
		}
		work(100)
		for _, n := range c.nodes {
			n.positions.Save() // a node does so each second
			c.kill(n)
		}
		l.copy(t, "now", c.dir)
	})
	for i := range 3 {
		folders, err := os.ReadDir(filepath.Join(l.dir, "now", fmt.Sprintf("n%d", i+1), storage.SnapshotFolder))
		if err != nil || len(folders) != 2 {
			t.Fatalf("snapshots of node %d: %v, %v", i+1, folders, err)
		}
		l.first[i], l.newest[i] = folders[0].Name(), folders[1].Name()
	}
	return l
}

func (l *library) config(cfg *config.Config) {
	cfg.Sessions.MaxTimeout, cfg.Tuning.TrailingLogs, cfg.Tuning.SnapshotInterval = 2*time.Hour, l.trailing, time.Hour
}

func (l *library) copy(t *testing.T, as, from string) {
	t.Helper()
	if err := os.CopyFS(filepath.Join(l.dir, as), os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// path is where something of a node's directory is: S1 and S2 stand for its two snapshots.
func (l *library) path(when string, node int, file string) string {
	file = strings.NewReplacer("S1", l.first[node], "S2", l.newest[node]).Replace(file)
	return filepath.Join(l.dir, when, fmt.Sprintf("n%d", node+1), file)
}

// cluster returns a cluster on the directories of the library. Its nodes are not started.
func (l *library) cluster(t *testing.T) *testCluster {
	t.Helper()
	c := newTestCluster(t, 0, l.config)
	time.Sleep(time.Hour) // the library's directories are of before
	c.add(3)
	if err := os.CopyFS(c.dir, os.DirFS(filepath.Join(l.dir, "now"))); err != nil {
		t.Fatal(err)
	}
	return c
}

// damage is done to one file or folder of a node's directory, which is at path.
type damage struct {
	name string
	do   func(l *library, node int, file, path string) error
}

func damages() []damage {
	put := func(from, path string) error {
		info, err := os.Stat(from)
		if err != nil {
			return err
		}
		if err = os.RemoveAll(path); err != nil {
			return err
		}
		if info.IsDir() {
			return os.CopyFS(path, os.DirFS(from))
		}
		b, err := os.ReadFile(from)
		return errors.Join(err, os.WriteFile(path, b, 0o600))
	}
	return []damage{
		{"missing", func(_ *library, _ int, _, path string) error { return os.RemoveAll(path) }},
		{"empty", func(_ *library, _ int, _, path string) error {
			if info, err := os.Stat(path); err != nil || !info.IsDir() {
				return errors.Join(err, os.Truncate(path, 0))
			}
			return errors.Join(os.RemoveAll(path), os.Mkdir(path, 0o700))
		}},
		{"short", func(_ *library, _ int, _, path string) error {
			info, err := os.Stat(path)
			if err != nil || info.IsDir() {
				return err
			}
			size := info.Size()
			if strings.HasSuffix(path, ".wal") { // it has space for more entries
				b, err := os.ReadFile(path)
				if err != nil {
					return err
				}
				size = int64(len(bytes.TrimRight(b, "\x00")))
			}
			return os.Truncate(path, size/2)
		}},
		{"older", func(l *library, node int, file, path string) error {
			return put(l.path("older", node, strings.Replace(file, "S2", "S1", 1)), path)
		}},
		{"of another node", func(l *library, node int, file, path string) error {
			return put(l.path("now", (node+1)%3, file), path)
		}},
	}
}

// refusals are what a node says of each file, by the damage; "" is none: the node starts, and nothing is lost.
type refusals map[string]string

// TestEveryFileOfADataDirectory damages each file in each way, on one node and on two of three. The node says which
// file it is and what to do, or it serves; nothing that was acknowledged is lost, though the third node is down.
func TestEveryFileOfADataDirectory(t *testing.T) {
	const (
		lostSnapshot = "snapshots has lost snapshot S2, which the log needs"
		damaged      = "identity is damaged"
		otherMeta    = "meta.json belongs to another snapshot"
		lostSegment  = segment + " is missing"
		lostEntries  = "has lost entries: it ends with entry"
		foreign      = segment + " belongs to the log of directory"
	)
	whole := map[string]refusals{
		"identity": {
			"missing": "identity is missing, but raft.db is there", "empty": damaged, "short": damaged,
			"older": "identity is an older copy", "of another node": "it belongs to node",
		},
		"lock": {},
		"raft.db": {
			"missing": "raft.db is missing", "empty": "raft.db is empty", "short": "raft.db is cut short",
			"older": "raft.db is an older copy", "of another node": "raft.db is not this directory's log",
		},
		"log": {
			"missing": lostSegment, "empty": lostSegment, "older": lostEntries, "of another node": foreign,
		},
		segment: {
			"missing": lostSegment, "empty": lostEntries, "short": lostEntries, "older": lostEntries, "of another node": foreign,
		},
		"snapshots/S1":           {"of another node": otherMeta},
		"snapshots/S1/meta.json": {"of another node": otherMeta},
		"snapshots/S1/state.bin": {},
		"snapshots/S1/origin":    {"of another node": "S1 is not this directory's snapshot"},
	}
	// Where the log goes back to the beginning, or to the first snapshot, the newest one is not needed.
	long := map[string]refusals{
		"snapshots":              {"of another node": "is not this directory's snapshot"},
		"snapshots/S2":           {"older": otherMeta, "of another node": otherMeta},
		"snapshots/S2/meta.json": {"older": otherMeta, "of another node": otherMeta},
		"snapshots/S2/state.bin": {},
		"snapshots/S2/origin":    {"of another node": "S2 is not this directory's snapshot"},
	}
	short := map[string]refusals{
		"snapshots": {
			"missing": lostSnapshot, "empty": lostSnapshot, "older": lostSnapshot,
			"of another node": "is not this directory's snapshot",
		},
		"snapshots/S2": {
			"missing": lostSnapshot, "empty": lostSnapshot, "older": otherMeta, "of another node": otherMeta,
		},
		"snapshots/S2/meta.json": {
			"missing": lostSnapshot, "empty": lostSnapshot, "short": lostSnapshot, "older": otherMeta,
			"of another node": otherMeta,
		},
		"snapshots/S2/state.bin": {
			"missing": "S2/state.bin does not load", "empty": "S2/state.bin does not load",
			"short": "S2/state.bin does not load",
			"older": "S2/state.bin does not load", "of another node": "S2/state.bin does not load",
		},
		"snapshots/S2/origin": {
			"missing": "S2/origin does not load", "empty": "S2/origin does not load",
			"short":           "S2/origin does not load",
			"older":           "S2 is not the snapshot that was completed there",
			"of another node": "S2 is not this directory's snapshot",
		},
	}
	for _, kind := range []struct {
		name     string
		trailing uint64
		files    []map[string]refusals
	}{{"log after the newest snapshot", 3, []map[string]refusals{whole, short}}, {
		"whole log", 10_000, []map[string]refusals{long},
	}} {
		l := newLibrary(t, kind.trailing)
		for _, files := range kind.files {
			for file, want := range files {
				for _, how := range damages() {
					for count := 1; count <= 2; count++ {
						t.Run(fmt.Sprintf("%s/%s %s on %d", kind.name, strings.ReplaceAll(file, "/", "_"), how.name,
							count), func(t *testing.T) {
							l.try(t, file, how, want[how.name], count)
						})
					}
				}
			}
		}
	}
}

// try damages a file on so many nodes, and fails unless they refuse as is wanted, or lose nothing.
func (l *library) try(t *testing.T, file string, how damage, want string, count int) {
	t.Helper()
	bubble.Test(t, func(t *testing.T) {
		c := l.cluster(t)
		started := 0
		for i, n := range c.nodes[:2] {
			path := filepath.Join(c.dir, n.name, strings.NewReplacer("S1", l.first[i], "S2", l.newest[i]).Replace(file))
			if i < count {
				if err := how.do(l, i, file, path); err != nil {
					t.Fatal(err)
				}
			}
			made, err := c.make(n)
			if err == nil {
				n.Node = made
				c.run(n)
				started++
			}
			if i >= count {
				continue
			}
			text := strings.NewReplacer("S1", l.first[i], "S2", l.newest[i]).Replace(want)
			named := &storage.UnusableError{}
			switch {
			case want == "" && err != nil:
				t.Errorf("%s is refused: %v", n.name, err)
			case want == "":
			case err == nil:
				t.Errorf("%s starts, want %q", n.name, text)
			case !strings.Contains(err.Error(), text):
				t.Errorf("%s is refused with %v\nand not with %q", n.name, err, text)
			case strings.HasPrefix(text, "it belongs"):
			case !errors.As(err, &named) || !strings.HasPrefix(named.File, filepath.Join(c.dir, n.name)) ||
				!strings.Contains(err.Error(), storage.Recovery):
				t.Errorf("%s is refused with %v\nwhich names no file, or not what to do", n.name, err)
			}
		}
		defer func() {
			for _, n := range c.nodes {
				if n.ended != nil {
					c.kill(n)
				}
			}
		}()
		if started < 2 {
			return // one of three cannot lead
		}
		l.kept(c)
	})
}

// kept fails unless the two first nodes of a cluster, and then all three, have every session that was acknowledged.
func (l *library) kept(c *testCluster) {
	c.t.Helper()
	has := func(nodes ...*testNode) func() bool {
		return func() bool {
			for _, n := range nodes {
				if n.health.Check() != nil || lost(n, l.ids) > 0 {
					return false
				}
			}
			return true
		}
	}
	c.eventually("two nodes serve all sessions", 20*time.Second, has(c.nodes[:2]...))
	c.start(c.nodes[2])
	c.eventually("all nodes serve all sessions", 30*time.Second, has(c.nodes...))
}
