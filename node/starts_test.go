package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"go.etcd.io/bbolt"

	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// change changes a stable store that nobody has open: conf has the values by key.
func change(path string, do func(conf *bbolt.Bucket) error) error {
	db, err := bbolt.Open(filepath.Join(path, storage.StableFile), 0o600, &bbolt.Options{Timeout: time.Second})
	if err != nil {
		return err
	}
	return errors.Join(
		db.Update(func(tx *bbolt.Tx) error { return do(tx.Bucket([]byte("conf"))) }),
		db.Close(),
	)
}

// refusal is why n does not start; nil when it does, and it has ended again then.
func (c *testCluster) refusal(n *testNode) error {
	made, err := c.make(n)
	if err != nil {
		return err
	}
	n.Node = made
	c.run(n)
	c.kill(n)
	return nil
}

// TestWhatOneFileSaysOfAnother has files that are whole, and do not belong together.
func TestWhatOneFileSaysOfAnother(t *testing.T) {
	l := newLibrary(t, 3)
	for name, test := range map[string]struct {
		do   func(path string) error
		want string
	}{
		"no stamp": {func(path string) error {
			return change(path, func(conf *bbolt.Bucket) error { return conf.Delete([]byte(stampKey)) })
		}, "raft.db is not this directory's log: it has no stamp"},
		"a stamp that is none": {func(path string) error {
			return change(path, func(conf *bbolt.Bucket) error { return conf.Put([]byte(stampKey), []byte("{}")) })
		}, "raft.db is damaged: its stamp"},
		"no term": {func(path string) error {
			return change(path, func(conf *bbolt.Bucket) error { return conf.Delete([]byte("CurrentTerm")) })
		}, "raft.db has lost Raft's term"},
		"an older term": {func(path string) error {
			return change(path, func(conf *bbolt.Bucket) error {
				return conf.Put([]byte("CurrentTerm"), []byte{0, 0, 0, 0, 0, 0, 0, 1})
			})
		}, "raft.db has lost Raft's term: it says 1, and has entries"},
		"a log that begins after the snapshot's end": {func(path string) error {
			return deleteEntries(path, 5)
		}, "log has lost entries: it begins with entry"},
		"entries that the node has applied are gone": {func(path string) error {
			file := filepath.Join(path, storage.PositionsFile)
			b, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			b = regexp.MustCompile(`"applied":\d+`).ReplaceAll(b, []byte(`"applied":1000000`))
			return os.WriteFile(file, b, 0o600)
		}, "log has lost entries: it ends with entry"},
		"a byte in the middle of the log": {func(path string) error {
			f, err := os.OpenFile(filepath.Join(path, segment), os.O_RDWR, 0)
			if err != nil {
				return err
			}
			_, err = f.WriteAt([]byte{0x55}, 200)
			return errors.Join(err, f.Close())
		}, ".wal is damaged after byte "},
		"no list of segments": {func(path string) error {
			return change(path, func(conf *bbolt.Bucket) error { return conf.Delete([]byte("holdfast.segments")) })
		}, "raft.db is an older copy: "},
		"a list of segments that is none": {func(path string) error {
			return change(path, func(conf *bbolt.Bucket) error { return conf.Put([]byte("holdfast.segments"), []byte("{")) })
		}, "raft.db is damaged: its list of segments"},
		"an identity of another directory": {func(path string) error {
			return rewrite(path, func(r *storage.Identity) {
				r.Key = raftnet.NewKey()
				r.Directory = r.Key.Directory()
			})
		}, "raft.db is not this directory's log: it belongs to directory"},
		"an identity that its key does not prove": {func(path string) error {
			return rewrite(path, func(r *storage.Identity) { r.Directory++ })
		}, "identity is damaged"},
		"an identity written again for another directory": {func(path string) error {
			return rewrite(path, func(r *storage.Identity) { r.Directory, r.Key = r.Directory+1, raftnet.Key{} })
		}, "identity is damaged"},
		"an identity of before the node took part": {func(path string) error {
			return rewrite(path, func(r *storage.Identity) { r.Founders = nil })
		}, "identity is an older copy: it says that this node never took part"},
		"an identity of an earlier start": {func(path string) error {
			return rewrite(path, func(r *storage.Identity) { r.Log, r.Incarnation = 5, 5 })
		}, "identity is an older copy: it ends with start 5"},
		"only the snapshots": {func(path string) error {
			return errors.Join(os.Remove(filepath.Join(path, storage.IdentityFile)), os.Remove(filepath.Join(path, storage.StableFile)),
				os.RemoveAll(filepath.Join(path, storage.LogFolder)))
		}, "identity and raft.db are missing, and only acknowledged, snapshots is there: the directory was emptied while " +
			"its node ran"},
		"an identity that is a link to nothing": {func(path string) error {
			file := filepath.Join(path, storage.IdentityFile)
			return errors.Join(os.Remove(file), os.Symlink("/nowhere/identity", file))
		}, "identity is a link to /nowhere/identity, which does not exist: mount or make"},
		"a log that is a link to nothing": {func(path string) error {
			file := filepath.Join(path, storage.StableFile)
			return errors.Join(os.Remove(file), os.Symlink("/nowhere/raft.db", file))
		}, "raft.db is a link to /nowhere/raft.db, which does not exist: mount or make"},
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := l.cluster(t)
				path := c.config(c.nodes[0]).DataDir
				if err := test.do(path); err != nil {
					t.Fatal(err)
				}
				err := c.refusal(c.nodes[0])
				if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) ||
					!strings.Contains(err.Error(), storage.Recovery) && !strings.Contains(test.want, "link to") {
					t.Errorf("got %v, want %q, the path and what to do", err, test.want)
				}
			})
		})
	}
}

// TestAStartGoesOnWhereOneWasCutShort cuts a start short after each of its steps: on a new directory, and on a
// directory that was used before. The next start goes on from there, and loses nothing that was acknowledged.
func TestAStartGoesOnWhereOneWasCutShort(t *testing.T) {
	l := newLibrary(t, 3)
	steps := []string{"the identity file", "the log's files", "the stamp"}
	for name, prepare := range map[string]func(path string) error{
		"a new directory": os.RemoveAll, "a directory": func(string) error { return nil },
	} {
		for upTo, step := range steps {
			t.Run(name+", after "+step, func(t *testing.T) {
				bubble.Test(t, func(t *testing.T) {
					c := l.cluster(t)
					n := c.nodes[0]
					cfg := c.config(n)
					if err := prepare(cfg.DataDir); err != nil {
						t.Fatal(err)
					}
					for range 2 { // twice in turn, and the clock moves
						time.Sleep(time.Second)
						if err := cutShort(cfg, upTo); err != nil {
							t.Fatalf("the start that is cut short: %v", err)
						}
					}
					c.start(n)
					c.start(c.nodes[1])
					defer func() {
						for _, n := range c.nodes {
							if n.ended != nil {
								c.kill(n)
							}
						}
					}()
					if name == "a new directory" { // it waits for the leader, who needs the third
						c.start(c.nodes[2])
						c.voters()
						c.agree(within)
						if lost(n, l.ids) > 0 {
							t.Errorf("%d sessions are lost", lost(n, l.ids))
						}
						return
					}
					l.kept(c)
					r, err := storage.ReadIdentity(cfg.DataDir)
					if err != nil || r.Log != n.dir.Incarnation() {
						t.Errorf("the identity file says %+v, %v, want start %d", r, err, n.dir.Incarnation())
					}
					for _, snapshot := range []string{l.first[0], l.newest[0]} {
						if _, err := os.Stat(filepath.Join(cfg.DataDir, storage.SnapshotFolder, snapshot, "origin")); err != nil {
							t.Errorf("the origin of a snapshot: %v", err)
						}
					}
				})
			})
		}
	}
}

// cutShort makes the steps of a start up to one.
func cutShort(cfg config.Config, upTo int) (err error) {
	d, err := storage.OpenDir(cfg.DataDir, cfg.ClusterID, cfg.Node, time.Now())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	if upTo == 0 {
		return nil
	}
	options := storage.Options{
		Logger: hclog.NewNullLogger(), Halt: func(error) { runtime.Goexit() },
		Watch: func(string) func() { return func() {} }, Synced: func(time.Duration) {}, Applied: func() uint64 { return 0 },
	}
	if upTo == 1 { // the stamp is never written
		options.Wrap = func(logs raft.LogStore, stable raft.StableStore) (raft.LogStore, raft.StableStore) {
			return logs, unwritable{stable}
		}
	}
	// The last step is the identity file: its new content never gets its name.
	before, err := os.ReadFile(filepath.Join(d.Path(), storage.IdentityFile))
	if err != nil {
		return err
	}
	var (
		s      *storage.Store
		failed error
		ended  = make(chan struct{})
	)
	go func() {
		defer close(ended)
		s, failed = storage.Open(d, options)
	}()
	<-ended
	err = failed
	if s != nil {
		err = errors.Join(err, s.Close())
	}
	if err != nil || upTo == 1 {
		return err
	}
	return os.WriteFile(filepath.Join(d.Path(), storage.IdentityFile), before, 0o600)
}

// unwritable is a store that takes no write.
type unwritable struct{ raft.StableStore }

func (unwritable) Set([]byte, []byte) error { return errors.New("not written") }

// A first start that was cut short while it made raft.db leaves any part of it, and nothing was written to it.
func TestAStableFileThatWasNeverMade(t *testing.T) {
	for size, content := range map[int]byte{0: 0, 1: 0, 4096: 0, 16384: 0, 8192: 'x'} {
		t.Run(fmt.Sprintf("%d bytes of %d", size, content), func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 0, nil)
				c.add(1)
				cfg := c.config(c.nodes[0])
				if err := cutShort(cfg, 0); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(cfg.DataDir, storage.StableFile), slices.Repeat([]byte{content}, size),
					0o600); err != nil {
					t.Fatal(err)
				}
				c.start(c.nodes[0])
				defer c.stop()
				c.mustOpen(c.leader(within), time.Second)
			})
		})
	}
}

// An identity file that is damaged leads with the safe way; to write it again, the log says what it has to say, and
// that is taken.
func TestADamagedIdentityFile(t *testing.T) {
	l := newLibrary(t, 3)
	bubble.Test(t, func(t *testing.T) {
		c := l.cluster(t)
		n, path := c.nodes[0], c.config(c.nodes[0]).DataDir
		file := filepath.Join(path, storage.IdentityFile)
		sound, err := storage.ReadIdentity(path)
		if err != nil {
			t.Fatal(err)
		}
		if err = os.WriteFile(file, []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		err = c.refusal(n)
		if err == nil || !strings.Contains(err.Error(), file+" is damaged: "+storage.Recovery+
			"; only where no majority is left") {
			t.Fatalf("got %v, want the safe way first", err)
		}
		line := fmt.Sprintf(
			`{"format":1,"cluster_id":"...","node":...,"incarnation":%d,"directory":"%v","founders":{...},"log":%d}`,
			sound.Log, sound.Directory, sound.Log,
		)
		if !strings.Contains(err.Error(), line) {
			t.Errorf("got %v, want %s", err, line)
		}
		founders, err := json.Marshal(sound.Founders)
		if err != nil {
			t.Fatal(err)
		}
		line = strings.NewReplacer(`"node":...`, `"node":1`, `"..."`, `"holdfast"`, "{...}",
			string(founders)).Replace(line)
		if err = os.WriteFile(file, []byte(line), 0o600); err != nil {
			t.Fatal(err)
		}
		c.start(n)
		c.start(c.nodes[1])
		defer func() {
			for _, n := range c.nodes {
				c.kill(n)
			}
		}()
		l.kept(c)
	})
}

// A snapshot that the leader sent may be all that a node has of what it has said that it has: when it is gone, the node
// refuses, though its log and the snapshot before would do for a start.
func TestAnInstalledSnapshotThatIsGone(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, func(cfg *config.Config) {
			cfg.Sessions.MaxTimeout, cfg.Tuning.TrailingLogs, cfg.Tuning.SnapshotInterval = time.Hour, 1, time.Hour
		})
		defer c.stop()
		leads := c.leader(within)
		behind := c.others(leads)[0]
		if err := behind.consensus.Raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		c.kill(behind)
		c.openMany(0, 30, leads)
		if err := leads.consensus.Raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		c.start(behind)
		c.eventually("the snapshot is installed", 30*time.Second, func() bool { return behind.health.Check() == nil })
		c.kill(behind)
		path := c.config(behind).DataDir
		all, err := filepath.Glob(filepath.Join(path, storage.SnapshotFolder, "*"))
		if err != nil || len(all) != 2 {
			t.Fatalf("snapshots %v, %v", all, err)
		}
		named, err := stampOf(path)
		if err != nil {
			t.Fatal(err)
		}
		installed := filepath.Join(path, storage.SnapshotFolder, named.Snapshot.ID)
		// As if no entry had come after it.
		if err = errors.Join(deleteEntries(path, 0), os.RemoveAll(installed)); err != nil {
			t.Fatal(err)
		}
		if err := c.refusal(behind); err == nil ||
			!strings.Contains(err.Error(), "snapshots has lost snapshot "+filepath.Base(installed)) ||
			!strings.Contains(err.Error(), storage.Recovery) {
			t.Errorf("got %v, want that the snapshot is lost", err)
		}
		c.empty(behind)
		c.start(behind)
		c.voters()
	})
}
