package clitest

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/test/whole"
	"holdfast/tree"
)

// Node is a whole node on loopback.
type Node struct {
	*whole.Life
	// Address is the client address.
	Address string
}

// Defaults keeps the settings of [StartNodes].
func Defaults(*config.Config) {}

// LocalSessions lets the nodes open local sessions.
func LocalSessions(cfg *config.Config) { cfg.Sessions.Local = true }

// StartNodes runs whole nodes as one cluster, until the end of the test. It returns once they are ready.
func StartNodes(tb testing.TB, count int, change func(*config.Config)) []Node {
	tb.Helper()
	var nodes []Node
	for _, cfg := range whole.OnLoopback(tb, count) {
		change(&cfg)
		n, err := whole.Begin(cfg, node.Options{})
		if err != nil {
			tb.Fatal(err)
		}
		tb.Cleanup(func() { whole.StopAll(tb, n) })
		nodes = append(nodes, Node{n, cfg.Listen.Client})
	}
	for _, n := range nodes {
		if err := n.Serves(); err != nil {
			tb.Fatal(err)
		}
	}
	return nodes
}

// StartTree points commands and the returned client at a cluster of one node, with quotas for all clients. All tests of
// a package share the cluster, and each test finds its tree empty.
func StartTree(t *testing.T) *client.Client {
	t.Helper()
	shared.Do(func() {
		sharedAddress = StartNodes(&binary, 1, withQuotasByACL)[0].Address
	})
	c := treeAt(t, sharedAddress)
	_, tr := OpenTree(t, c)
	for _, parent := range []string{tree.Root, tree.QuotaPath} {
		page, err := tr.ListPage(t.Context(), parent, client.Listing{PageSize: tree.MaxPage})
		if cli.IsRefused(err, tree.NoNode) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range page.Children {
			path := tree.Join(parent, child.Name)
			if strings.HasPrefix(tree.QuotaPath, path) {
				continue // the tree keeps this entry
			}
			if _, err := tr.DeleteTree(t.Context(), path); err != nil {
				t.Fatal(err)
			}
		}
	}
	return c
}

// StartNewTree is [StartTree] with a cluster of the test's own.
func StartNewTree(t *testing.T) *client.Client {
	t.Helper()
	return treeAt(t, StartNodes(t, 1, withQuotasByACL)[0].Address)
}

func withQuotasByACL(cfg *config.Config) { cfg.Tree.QuotasByACL = true }

// treeAt points commands at a node, and returns a client of it.
func treeAt(t *testing.T, address string) *client.Client {
	t.Helper()
	t.Setenv(cli.EndpointsVariable, address)
	c, err := client.New(client.Config{Endpoints: []string{address}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// The cluster that the tests of a package share.
var (
	shared        sync.Once
	sharedAddress string
	binary        wholeBinary
)

// wholeBinary is a testing.TB that lasts as long as the process: its cleanups run after all tests.
type wholeBinary struct {
	testing.TB

	dirs     []string
	cleanups []func()
}

func (*wholeBinary) Helper() {}

func (*wholeBinary) Name() string { return "TestMain" }

func (b *wholeBinary) TempDir() string {
	dir, err := os.MkdirTemp("", "holdfast")
	if err != nil {
		panic(err)
	}
	b.dirs = append(b.dirs, dir)
	return dir
}

func (b *wholeBinary) Cleanup(f func()) { b.cleanups = append(b.cleanups, f) }

func (*wholeBinary) Fatal(args ...any) { panic(fmt.Sprint(args...)) }

func (*wholeBinary) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (*wholeBinary) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func (b *wholeBinary) cleanUp() {
	for _, f := range slices.Backward(b.cleanups) {
		f()
	}
	for _, dir := range b.dirs {
		_ = os.RemoveAll(dir)
	}
}

// ClientOf returns a client with one node as its only endpoint.
func ClientOf(t *testing.T, n Node) *client.Client {
	t.Helper()
	c, err := client.New(client.Config{Endpoints: []string{n.Address}, OnlyEndpoints: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// Follower returns a node that does not lead: without it, the others are a quorum with a leader.
func Follower(t *testing.T, nodes []Node) int {
	t.Helper()
	members, err := ClientOf(t, nodes[0]).MembersOfLeader(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for i := len(nodes) - 1; i > 0; i-- {
		if !slices.ContainsFunc(members, func(m client.Member) bool { return m.Leader && int(m.Node) == i+1 }) {
			return i
		}
	}
	t.Fatal("no node follows")
	return 0
}

// OpenTree returns the tree for a session of the test's client.
func OpenTree(t *testing.T, c *client.Client) (*client.Session, *client.Tree) {
	t.Helper()
	s, err := c.Open(t.Context(), client.SessionOptions{Timeout: 30 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return s, s.Tree()
}
