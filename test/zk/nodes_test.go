//go:build e2e

package zk

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/proc"
	"holdfast/test/timeout"
)

// node is a node in a process of its own, which a test may stop and start again.
type node struct {
	address string // of ZooKeeper's clients
	clients string // the client port's
	spec    proc.Spec
	process *proc.Process
}

// nodesOf returns what starts three nodes, with flags besides their own.
func nodesOf(t *testing.T, flags ...string) []*node {
	t.Helper()
	file, err := program()
	timeout.Check(t, err)
	base := freeBase(t)
	address := func(n, port int) string { return fmt.Sprintf("127.0.0.1:%d", base+10*n+port) }
	var peers []string
	for n := range nodeCount {
		peers = append(peers, fmt.Sprintf("%d=127.0.0.1:%d:%d@%s", n+1, base+10*n+1, base+10*n+2, address(n, 0)))
	}
	var all []*node
	for n := range nodeCount {
		dir := filepath.Join(t.TempDir(), fmt.Sprintf("n%d", n+1))
		timeout.Check(t, os.Mkdir(dir, 0o700))
		args := []string{
			file, "run", "--node", fmt.Sprint(n + 1), "--data-dir", filepath.Join(dir, "data"),
			"--peers", strings.Join(peers, ","), "--log-level", "warn",
			"--client-listen", address(n, 0), "--raft-listen", address(n, 1), "--peer-listen", address(n, 2),
			"--http-listen", address(n, 3), "--zk-listen", address(n, 4), "--zk-4lw-commands", allWords,
		}
		one := &node{
			address: address(n, 4), clients: address(n, 0),
			spec: proc.Spec{Name: "node", Dir: dir, Args: append(args, flags...), Env: superEnv()},
		}
		t.Cleanup(func() {
			if one.process != nil {
				one.process.Stop()
			}
		})
		all = append(all, one)
	}
	return all
}

const (
	nodeCount = 3
	allWords  = "conf,cons,dump,envi,isro,mntr,ruok,srvr,stat,wchs"
)

// begin starts the nodes and waits until each serves.
func begin(t *testing.T, all []*node) (addresses []string) {
	t.Helper()
	for _, n := range all {
		n.begin(t)
		addresses = append(addresses, n.address)
	}
	for _, n := range all {
		n.serves(t)
	}
	return addresses
}

func (n *node) begin(t *testing.T) {
	t.Helper()
	var err error
	if n.process, err = proc.Start(n.spec); err != nil {
		t.Fatal(err)
	}
}

// serves waits until the node gives out sessions.
func (n *node) serves(t *testing.T) {
	t.Helper()
	one := servers{process: n.process, addresses: []string{n.address}}
	one.serve(t)
}
