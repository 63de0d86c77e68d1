//go:build e2e

package disk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/disk/faultfs"
	"holdfast/test/disk/simdisk"
	"holdfast/test/loopback"
	"holdfast/test/timeout"
)

const (
	// sessionTimeout is so long that no session expires: a missing session was lost.
	sessionTimeout = time.Hour
	// recoverWithin is how long the cluster may take to serve again with all nodes. It includes Raft's back-off for a
	// follower that was away.
	recoverWithin = 30 * time.Second
	// leaderWithin is how long the others may take to elect when the leader's disk hangs or fails.
	leaderWithin = 30 * time.Second
	// exitWithin is how long a node may take to end when its disk fails. Its orderly stop has a lower bound.
	exitWithin = 30 * time.Second
)

// cluster is three nodes, each a process with a disk of its own.
type cluster struct {
	t     *testing.T
	nodes []*server
	peers string
	// node is that of [setup].
	node string
	// images holds copies of the disks after the last power cut.
	images string
	// asker is a client for status requests, never for sessions.
	asker *client.Client
}

// server is one node.
type server struct {
	number                   int
	disk                     *device
	clients, raft, peer, web string
	log                      *os.File
	cmd                      *exec.Cmd
	// exited is closed when the process has ended. err is its result.
	exited chan struct{}
	err    error
	// killed is set while the node is without power, mayEnd if the test lets the node fail. Any other end fails the test.
	killed, mayEnd bool
}

// setup says how the nodes of a cluster differ from those of most tests.
type setup struct {
	// node is the program of the nodes, that of frequent snapshots if it is empty.
	node string
	// disk, if set, is called with a node's disk before the node starts.
	disk func(d *device)
}

// newCluster starts three nodes, and waits until all serve.
func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterWith(t, setup{})
}

// newClusterWith is newCluster with nodes of a setup.
func newClusterWith(t *testing.T, with setup) *cluster {
	t.Helper()
	c := &cluster{t: t, images: t.TempDir(), node: cmp.Or(with.node, build(t).snapshots)}
	at := loopback.Free(t, 12)
	address := func() string {
		a := at[0]
		at = at[1:]
		return a
	}
	var peers, endpoints []string
	for n := 1; n <= 3; n++ {
		s := &server{
			number: n, disk: newDevice(t), clients: address(), raft: address(), peer: address(),
			web: address(),
		}
		_, peer, _ := net.SplitHostPort(s.peer)
		peers = append(peers, fmt.Sprintf("%d=%s:%s@%s", n, s.raft, peer, s.clients))
		endpoints = append(endpoints, s.clients)
		if with.disk != nil {
			with.disk(s.disk)
		}
		var err error
		if s.log, err = os.Create(filepath.Join(t.TempDir(), fmt.Sprintf("n%d.log", n))); err != nil {
			t.Fatal(err)
		}
		c.nodes = append(c.nodes, s)
	}
	c.peers = strings.Join(peers, ",")
	t.Cleanup(c.down)
	for _, s := range c.nodes {
		c.start(s)
	}
	var err error
	if c.asker, err = client.New(client.Config{Endpoints: endpoints}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.asker.Close() })
	c.awaitServing(recoverWithin, c.nodes...)
	return c
}

// start starts a node's process.
func (c *cluster) start(s *server) {
	c.t.Helper()
	s.cmd = exec.Command(c.node,
		"run", "--node", fmt.Sprint(s.number), "--cluster-id", "disk",
		"--data-dir", filepath.Join(s.disk.dir, "data"), "--peers", c.peers,
		"--client-listen", s.clients, "--raft-listen", s.raft, "--peer-listen", s.peer, "--http-listen", s.web,
		"--max-timeout", "2h", "--heartbeat-interval", "200ms",
		"--raft-heartbeat-timeout", "400ms",
	)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	timeout.Check(c.t, start(s.cmd))
	cmd, exited := s.cmd, make(chan struct{})
	s.exited, s.killed = exited, false
	go func() {
		s.err = cmd.Wait()
		close(exited)
	}()
}

// down kills the processes that run. It fails the test for a node that has ended by itself. A failed test keeps logs
// and data.
func (c *cluster) down() {
	for _, s := range c.nodes {
		if s.cmd == nil {
			continue
		}
		if !s.running() && !s.killed && !s.mayEnd {
			c.t.Errorf("node %d has ended by itself: %v", s.number, s.err)
		}
		ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
		_ = s.cmd.Process.Kill()
		if err := s.disk.Set(
			ctx, faultfs.Faults{},
		); err != nil { // a killed process ends only when no operation is held
			c.t.Error(err)
		}
		cancel()
		if err := bounded(callTimeout, "the end of a node", s.wait); err != nil {
			c.t.Error(err)
		}
	}
	if timeout.Ended(c.t) {
		c.keep()
	}
	for _, s := range c.nodes {
		s.log.Close()
	}
}

// keep saves the logs, the disks as they are now, and the disks after the last power cut.
func (c *cluster) keep() {
	dir := c.t.ArtifactDir()
	for _, s := range c.nodes {
		kept := filepath.Join(dir, fmt.Sprintf("n%d", s.number))
		err := bounded(callTimeout, "copying a disk", func() error { return os.CopyFS(kept, os.DirFS(s.disk.dir)) })
		if _, none := os.Stat(c.image(s)); none == nil {
			err = errors.Join(err, os.CopyFS(kept+"-as-cut", os.DirFS(c.image(s))))
		}
		log, unread := os.ReadFile(s.log.Name())
		if err = errors.Join(err, unread, os.WriteFile(filepath.Join(dir, fmt.Sprintf("n%d.log", s.number)), log,
			0o600)); err != nil {
			c.t.Logf("keeping node %d: %v", s.number, err)
		}
		lines := strings.Split(strings.TrimSpace(string(log)), "\n")
		c.t.Logf("node %d's log ends with:\n%s", s.number, strings.Join(lines[max(0, len(lines)-15):], "\n"))
	}
	c.t.Logf("logs and disks are in %s (kept with go test -artifacts)", dir)
}

func (s *server) wait() error {
	<-s.exited
	return nil
}

func (s *server) running() bool {
	select {
	case <-s.exited:
		return false
	default:
		return true
	}
}

// status asks one node for its status.
func (c *cluster) status(s *server) (client.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	return c.asker.Status(ctx, s.clients)
}

// serving waits until nodes serve. It returns an error at once if one of them has ended.
func (c *cluster) serving(d time.Duration, nodes ...*server) (time.Duration, error) {
	var dead error
	took, err := eventually(d, "nodes serve", func() (bool, string) {
		for _, s := range nodes {
			if !s.running() {
				dead = fmt.Errorf("node %d has ended by itself: %v", s.number, s.err) //nolint:errorlint // no deadline excuses it
				return true, ""
			}
		}
		return c.serve(nodes...)
	})
	return took, cmp.Or(dead, err)
}

// awaitServing is serving for a test that needs the nodes.
func (c *cluster) awaitServing(d time.Duration, nodes ...*server) time.Duration {
	c.t.Helper()
	took, err := c.serving(d, nodes...)
	timeout.Check(c.t, err)
	return took
}

// serve reports whether nodes serve under a leader that is one of them.
func (c *cluster) serve(nodes ...*server) (bool, string) {
	leader := session.Node(0)
	for _, s := range nodes {
		st, err := c.status(s)
		switch {
		case err != nil:
			return false, fmt.Sprintf("node %d: %v", s.number, err)
		case !st.Ready:
			return false, fmt.Sprintf("node %d is not ready: %s", s.number, st.NotReadyBecause)
		case leader != 0 && st.Leader != leader,
			!slices.ContainsFunc(nodes, func(s *server) bool { return s.number == int(st.Leader) }):
			return false, fmt.Sprintf("node %d follows %d, another one %d", s.number, st.Leader, leader)
		}
		leader = st.Leader
	}
	return true, ""
}

// leader returns the leading node, and the others.
func (c *cluster) leader() (leads *server, others []*server) {
	c.t.Helper()
	c.awaitServing(recoverWithin, c.nodes...)
	st, err := c.status(c.nodes[0])
	timeout.Check(c.t, err)
	leads = c.nodes[st.Leader-1]
	return leads, c.but(leads)
}

// but returns all nodes but one.
func (c *cluster) but(one *server) []*server {
	return slices.DeleteFunc(slices.Clone(c.nodes), func(s *server) bool { return s == one })
}

// powerCut cuts the power of victims at the same moment, which the first one's disk determines. It rolls the disks
// back, and starts nothing.
func (c *cluster) powerCut(when faultfs.Freezing, how faultfs.Cutting, victims ...*server) (simdisk.Loss, error) {
	ctx, cancel := context.WithTimeout(context.Background(), callTimeout)
	defer cancel()
	if err := victims[0].disk.Freeze(ctx, when); err != nil {
		return simdisk.Loss{}, err
	}
	// The other disks freeze at the same moment: before any node is killed.
	if err := together(victims[1:], func(s *server) error {
		return s.disk.Freeze(ctx, faultfs.Freezing{})
	}); err != nil {
		return simdisk.Loss{}, err
	}
	var total simdisk.Loss
	var mu sync.Mutex
	err := together(victims, func(s *server) error {
		s.killed = true
		loss, err := s.disk.powerCut(faultfs.Freezing{},
			faultfs.Cutting{Seed: how.Seed + uint64(s.number), Tear: how.Tear}, s.cmd.Process.Kill, s.wait)
		mu.Lock()
		defer mu.Unlock()
		total.Add(loss)
		return err
	})
	return total, err
}

func together(nodes []*server, do func(*server) error) error {
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, s := range nodes {
		wg.Go(func() { errs[i] = do(s) })
	}
	wg.Wait()
	return timeout.Join(errs...)
}

// corrupt returns what bbolt finds wrong with raft.db of stopped nodes, and keeps images of their disks until the next
// cut.
func (c *cluster) corrupt(nodes ...*server) error {
	return together(nodes, func(s *server) error {
		image := c.image(s)
		if err := errors.Join(os.RemoveAll(image), os.CopyFS(image, os.DirFS(s.disk.dir))); err != nil {
			return err
		}
		file := filepath.Join(image, "data", "raft.db")
		if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
			return nil // the power went before it was created; the ledger judges the consequences
		}
		if _, err := sound(file); err != nil {
			return fmt.Errorf("node %d: %w", s.number, err)
		}
		return nil
	})
}

func (c *cluster) image(s *server) string {
	return filepath.Join(c.images, fmt.Sprintf("n%d", s.number))
}

// digests waits until all nodes have applied the same entries, and returns how their states differ (I6 same state).
func (c *cluster) digests() error {
	var diverged error
	_, err := eventually(recoverWithin, "all nodes have applied the same entries", func() (bool, string) {
		var all [3]client.Status
		for i, s := range c.nodes {
			st, err := c.status(s)
			if err != nil {
				return false, err.Error()
			}
			all[i] = st
		}
		if all[0].AppliedIndex != all[1].AppliedIndex || all[0].AppliedIndex != all[2].AppliedIndex {
			return false, fmt.Sprintf("indexes %d, %d, %d", all[0].AppliedIndex, all[1].AppliedIndex,
				all[2].AppliedIndex)
		}
		if all[0].StateDigest != all[1].StateDigest || all[0].StateDigest != all[2].StateDigest {
			diverged = fmt.Errorf("I6: at index %d the states are %s, %s, %s", all[0].AppliedIndex, all[0].StateDigest,
				all[1].StateDigest, all[2].StateDigest)
		}
		return true, ""
	})
	return timeout.Join(err, diverged)
}
