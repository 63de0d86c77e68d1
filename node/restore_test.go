package node

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/backup"
	"holdfast/fsm"
	"holdfast/node/config"
	"holdfast/node/storage"
	holdfastv1 "holdfast/proto/holdfast/v1" //nolint:depguard // a client's own words, through the client port
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
	"holdfast/tree"
)

// save saves a backup of a node in a file.
func (c *testCluster) save(n *testNode) string {
	c.t.Helper()
	var b taken
	if err := b.take(c.t.Context(), c.operators(n), &holdfastv1.TakeSnapshotRequest{}, 0); err != nil {
		c.t.Fatal(err)
	}
	path := filepath.Join(c.t.TempDir(), "saved")
	f, err := os.Create(path)
	if err != nil {
		c.t.Fatal(err)
	}
	if err := errors.Join(backup.WriteHeader(f, b.header), func() error {
		_, err := f.Write(b.Bytes())
		return err
	}(), f.Close()); err != nil {
		c.t.Fatal(err)
	}
	return path
}

// unfounded returns a cluster of another id whose nodes are not started.
func unfounded(t *testing.T, size int) *testCluster {
	t.Helper()
	c := &testCluster{
		Network: simnet.New(func(string, string) time.Duration { return time.Millisecond }), t: t, dir: t.TempDir(),
		change: func(cfg *config.Config) { cfg.ClusterID = "restored" },
	}
	c.add(size)
	return c
}

// founding returns the founding of a cluster by the first nodes.
func (c *testCluster) founding(founders int) storage.Founding {
	f := storage.Founding{
		ClusterID: "restored", Peers: c.config(c.nodes[0]).Peers, Directories: map[session.Node]string{},
		Logger: hclog.NewNullLogger(), Now: time.Now(),
	}
	for i, n := range c.nodes[:founders] {
		f.Directories[session.Node(i+1)] = c.config(n).DataDir
	}
	return f
}

// startAll starts the nodes.
func (c *testCluster) startAll() {
	c.t.Helper()
	for _, n := range c.nodes {
		c.start(n)
	}
}

// gone waits for the end of a session, and returns its certificate.
func (c *testCluster) gone(n *testNode, id session.ID, within time.Duration) (certificate session.Certificate) {
	c.t.Helper()
	c.eventually("the session ends", within, func() bool {
		_, err := n.server.Find(c.t.Context(), id, session.ReadOptions{})
		e, ok := errors.AsType[*session.ExpiredError](err)
		if ok && e.Certificate != nil {
			certificate = *e.Certificate
		}
		return ok
	})
	return certificate
}

// A backup of three nodes becomes a cluster of five. Its tree is that of the backup. The sessions of the backup live
// for their timeouts, and nobody has a token for them: then they end, with their ephemerals. What was given out after
// the backup is not given out again.
func TestRestoreMakesAnotherCluster(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former := newTestCluster(t, 3, nil)
		leads := former.leader(within)
		x := former.treeClient(leads)
		x.create("/kept", tree.Persistent)
		x.create("/held", tree.Ephemeral)
		file := former.save(former.others(leads)[0])
		after := former.mustOpen(leads, 5*time.Second)
		x.create("/after", tree.Persistent)
		index := leads.view.AppliedIndex()
		former.stop()

		c := unfounded(t, 5)
		made, err := storage.Restore(file, c.founding(3)) // two of five start on empty directories
		if err != nil {
			t.Fatal(err)
		}
		if made.From.Cluster != "holdfast" || made.Contents.Sessions != 1 || !strings.Contains(made.String(), "1, 2 and 3") {
			t.Errorf("made %+v: %v", made, made)
		}
		c.startAll()
		defer c.stop()
		now := c.leader(20 * time.Second)
		c.voters()
		c.agree(10 * time.Second)
		if got := now.view.AppliedIndex(); got < index+1<<37 {
			t.Errorf("the cluster goes on with index %d, and the former one was at %d", got, index)
		}
		begun := time.Now()
		entries := now.view.Tree().Root
		for path, want := range map[string]bool{"/kept": true, "/held": true, "/after": false} {
			if _, ok := entries.Get(path); ok != want {
				t.Errorf("%s is there: %v, want %v", path, ok, want)
			}
		}
		for _, token := range []session.Token{x.token, after.Token} {
			if err := c.resume(now, token); !errors.Is(err, session.ErrBadCredential) && !errors.Is(err, session.ErrExpired) {
				t.Errorf("a token of the former cluster: %v", err)
			}
		}
		if err := c.resume(now, x.token); !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("the token of a session that is there: %v", err)
		}
		fresh := c.mustOpen(now, 5*time.Second)
		if fresh.Session.ID.MS() <= max(after.Session.ID.MS(), session.MS(time.Now())) ||
			fresh.Session.Attachment < fsm.AttachmentLeap {
			t.Errorf("opened %v with attachment %d, and the former cluster had %v", fresh.Session.ID,
				fresh.Session.Attachment, after.Session.ID)
		}
		certificate := c.gone(now, x.session.ID, 60*time.Second)
		if lived := time.Since(begun); certificate.Cause != session.CauseExpired || lived < 30*time.Second {
			t.Errorf("a session of the backup ended after %v: %+v; want its timeout of 40 s", lived, certificate)
		}
		if _, ok := now.view.Tree().Root.Get("/held"); ok {
			t.Error("its ephemeral is still there")
		}
		for _, n := range c.nodes { // each starts again on what it has
			if err := c.end(n); err != nil {
				t.Error(err)
			}
			c.start(n)
			c.voters()
		}
		c.agree(10 * time.Second)
	})
}

// resume resumes a session by a token.
func (c *testCluster) resume(n *testNode, token session.Token) error {
	c.t.Helper()
	conn, err := n.server.Connect(noEvents{})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(c.t.Context(), 5*time.Second)
	defer cancel()
	_, err = conn.Resume(ctx, session.ResumeRequest{Token: token, Instance: 9, Attempt: 1})
	return err
}

// create creates an entry without data.
func (x *treeClient) create(path string, kind tree.Kind) {
	x.t.Helper()
	x.did(tree.Create{Path: path, Kind: kind})
}

// A restore changes nothing unless all of it can be done.
func TestRestoreRefuses(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former := newTestCluster(t, 1, nil)
		former.mustOpen(former.leader(within), 5*time.Second)
		file := former.save(former.nodes[0])
		former.stop()
		damaged := filepath.Join(t.TempDir(), "damaged")
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		b[len(b)-3] ^= 4
		if err := os.WriteFile(damaged, b, 0o600); err != nil {
			t.Fatal(err)
		}
		for name, one := range map[string]struct {
			file   string
			change func(*storage.Founding)
			want   string
		}{
			"a used directory": {file, func(f *storage.Founding) {
				if err := os.MkdirAll(f.Directories[2], 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(f.Directories[2], "identity"), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}, "is not empty (identity)"},
			"a file in the way":       {file, func(f *storage.Founding) { f.Directories[2] = file }, "a file is in the way"},
			"the former cluster's id": {file, func(f *storage.Founding) { f.ClusterID = "holdfast" }, "needs its own cluster_id"},
			"no id":                   {file, func(f *storage.Founding) { f.ClusterID = "" }, "cluster_id"},
			"no directory":            {file, func(f *storage.Founding) { f.Directories = nil }, "no directory"},
			"one directory for two": {
				file, func(f *storage.Founding) { f.Directories[2] = f.Directories[1] + "/." },
				"nodes 1 and 2 have one directory",
			},
			"a node that is no peer": {file, func(f *storage.Founding) { f.Directories[9] = f.Directories[1] + "9" }, "peers"},
			"a clock that is behind": {file, func(f *storage.Founding) { f.Now = f.Now.Add(-time.Hour) }, "set the clock"},
			"a damaged backup":       {damaged, func(*storage.Founding) {}, "SHA-256"},
			"no backup":              {file + ".none", func(*storage.Founding) {}, "no such file"},
		} {
			f := unfounded(t, 3).founding(3)
			one.change(&f)
			_, err := storage.Restore(one.file, f)
			if err == nil || !strings.Contains(err.Error(), one.want) {
				t.Errorf("%s: %v, want %q", name, err, one.want)
			}
			if left, err := os.ReadDir(f.Directories[1]); err == nil {
				t.Errorf("%s: left behind %v", name, left)
			}
		}
	})
}

// A restore that was cut short anywhere leaves directories that no node starts on.
func TestARestoreCutShortIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former := newTestCluster(t, 1, nil)
		former.mustOpen(former.leader(within), 5*time.Second)
		file := former.save(former.nodes[0])
		former.stop()
		names := []string{"lock", storage.StableFile, storage.SnapshotFolder, storage.IdentityFile}
		for moved := range names {
			c := unfounded(t, 1)
			path := c.config(c.nodes[0]).DataDir
			if _, err := storage.Restore(file, c.founding(1)); err != nil {
				t.Fatal(err)
			}
			if err := os.Mkdir(filepath.Join(path, ".restoring"), 0o700); err != nil {
				t.Fatal(err)
			}
			for _, name := range names[moved:] {
				if err := os.Rename(filepath.Join(path, name), filepath.Join(path, ".restoring", name)); err != nil {
					t.Fatal(err)
				}
			}
			n, err := c.make(c.nodes[0])
			if err == nil {
				t.Errorf("a node starts where %d of %v were moved", moved, names)
				c.nodes[0].Node = n
				c.run(c.nodes[0])
				c.stop()
			}
		}
	})
}

// Directories of two restores of one backup do not mix, even with one cluster_id: no two nodes of one restore, no
// quorum, and the nodes say why.
func TestDirectoriesOfTwoRestoresDoNotMix(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former := newTestCluster(t, 1, nil)
		former.mustOpen(former.leader(within), 5*time.Second)
		file := former.save(former.nodes[0])
		former.stop()
		c := unfounded(t, 3)
		for i, n := range c.nodes { // each operator restores for all nodes, and takes the own one
			other := unfounded(t, 3)
			if _, err := storage.Restore(file, other.founding(3)); err != nil {
				t.Fatal(err)
			}
			if err := os.Rename(other.config(other.nodes[i]).DataDir, c.config(n).DataDir); err != nil {
				t.Fatal(err)
			}
		}
		c.startAll()
		defer c.stop()
		time.Sleep(time.Minute)
		for _, n := range c.nodes {
			if n.Leads() || n.health.Check() == nil {
				t.Errorf("%s serves", n.name)
			}
			if len(n.admission.Foreign()) != 2 || !strings.Contains(n.log.String(), "were not made together") {
				t.Errorf("%s does not say that the others are of other restores: %v", n.name, n.admission.Foreign())
			}
		}
	})
}

// Two nodes of one restore serve, and do not take in the third, which is of another restore: its log only looks like
// theirs. On an empty directory they take it in.
func TestANodeOfAnotherRestoreIsNotTakenIn(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former := newTestCluster(t, 1, nil)
		former.mustOpen(former.leader(within), 5*time.Second)
		file := former.save(former.nodes[0])
		former.stop()
		c, other := unfounded(t, 3), unfounded(t, 3)
		for _, one := range []*testCluster{c, other} {
			if _, err := storage.Restore(file, one.founding(3)); err != nil {
				t.Fatal(err)
			}
		}
		third := c.nodes[2]
		c.empty(third)
		if err := os.Rename(other.config(other.nodes[2]).DataDir, c.config(third).DataDir); err != nil {
			t.Fatal(err)
		}
		c.startAll()
		defer c.stop()
		leads := c.leader(20 * time.Second)
		time.Sleep(time.Minute)
		if got := leads.membership.DirectoryOf(3); got == third.membership.OwnDirectory() || third.health.Check() == nil {
			t.Errorf("node 3 was taken in on directory %v", got)
		}
		c.kill(third)
		c.empty(third)
		c.start(third)
		c.voters()
		c.agree(10 * time.Second)
	})
}

// The directory of one node that is left becomes a cluster of one, and the others come back on empty directories. All
// that the node had is there. The former nodes cannot take part, and the directory is as it was.
func TestRecoverFromOneNode(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		former := newTestCluster(t, 3, nil)
		leads := former.leader(within)
		x := former.treeClient(leads)
		for i := range 30 {
			x.create(fmt.Sprint("/e", i), tree.Persistent)
		}
		former.agree(5 * time.Second)
		left := former.others(leads)[0]
		path := former.config(left).DataDir
		if _, err := storage.OpenSurvivor(path, "test", hclog.NewNullLogger()); err == nil ||
			!strings.Contains(err.Error(), "another process uses it") {
			t.Errorf("while its node runs: %v", err)
		}
		_, digest := left.view.Digest()
		former.stop()
		before := filesIn(t, path)

		s, err := storage.OpenSurvivor(path, "test", hclog.NewNullLogger())
		if err != nil {
			t.Fatal(err)
		}
		if s.From.Cluster != "holdfast" || s.From.Node != left.cfg.Node || s.From.Entries != 33 || s.From.Sessions != 1 ||
			len(s.Members) != 3 {
			t.Errorf("it has %+v, members %v; its digest was %x", s.From, s.Members, digest)
		}
		c := unfounded(t, 3)
		made, err := s.Found(c.founding(1))
		if err != nil {
			t.Fatal(err)
		}
		if text := made.String(); !strings.Contains(text, `of cluster "holdfast":`) {
			t.Errorf("no backup was taken, and the command says when:\n%s", text)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if after := filesIn(t, path); after != before {
			t.Errorf("the directory was\n%s\nand is\n%s", before, after)
		}
		c.startAll()
		defer c.stop()
		now := c.leader(20 * time.Second)
		c.voters()
		c.agree(10 * time.Second)
		if got := now.view.Tree().Root.Len(); got != 33 {
			t.Errorf("%d entries, want 33", got)
		}
		if err := c.resume(now, x.token); !errors.Is(err, session.ErrBadCredential) {
			t.Errorf("a token of the former cluster: %v", err)
		}
		if fresh := c.mustOpen(now, 5*time.Second); fresh.Session.ID.MS() <= x.session.ID.MS() {
			t.Errorf("opened %v after %v", fresh.Session.ID, x.session.ID)
		}
		if _, err := storage.OpenSurvivor(t.TempDir(), "test", hclog.NewNullLogger()); err == nil {
			t.Error("an empty directory has a state")
		}
	})
}

// filesIn lists the files of a directory, but for the lock, with sizes and times.
func filesIn(t *testing.T, path string) string {
	t.Helper()
	var all strings.Builder
	err := filepath.Walk(path, func(name string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			b, readErr := os.ReadFile(name)
			fmt.Fprintf(&all, "%s %d %v %x %v\n", name, info.Size(), info.ModTime(), len(b), readErr)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all.String()
}
