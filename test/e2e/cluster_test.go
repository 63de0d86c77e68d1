//go:build e2e

package e2e

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/test/timeout"
)

// cluster is one compose project of containers.
type cluster struct {
	t       *testing.T
	nodes   int
	project string
	compose []string
	env     []string
	ports   int
	// speaks is how clients of this test speak TLS with the nodes, nil without it.
	speaks *client.TLS
	// stopped are the nodes that this test has stopped, failing those that it lets fail. All others must run on.
	stopped, failing map[int]bool
}

// up returns a cluster of 3 or 5 nodes that all serve and hold no session, to a test that runs beside others. After a
// test that passed, other tests use the cluster: the test must leave all nodes running.
func up(t *testing.T, nodes int) *cluster {
	t.Helper()
	t.Parallel()
	return borrow(t, nodes)
}

// alone is up for a test that needs the whole machine.
func alone(t *testing.T, nodes int) *cluster {
	t.Helper()
	return borrow(t, nodes)
}

func borrow(t *testing.T, nodes int) *cluster {
	t.Helper()
	c := clusters.take(nodes)
	if c == nil {
		c = create(t, nodes)
	}
	c.t = t
	t.Cleanup(c.giveBack)
	c.awaitServing(healWithin, c.all()...)
	c.awaitNoSessions()
	return c
}

// create starts a cluster. Further compose files may change the nodes.
func create(t *testing.T, nodes int, files ...string) *cluster {
	t.Helper()
	c := planned(t, nodes, files...)
	if _, err := command(c.env, append(c.compose, "up", "-d")...); err != nil {
		c.down()
		t.Fatal(err)
	}
	return c
}

// planned returns a cluster that create would start.
func planned(t *testing.T, nodes int, files ...string) *cluster {
	t.Helper()
	ports := freePorts(t)
	c := &cluster{
		t: t, nodes: nodes, project: fmt.Sprintf("holdfast-e2e-%d-%d", os.Getpid(), ports), ports: ports,
		stopped: map[int]bool{}, failing: map[int]bool{},
	}
	var peers []string
	for _, n := range c.all() {
		peers = append(peers, fmt.Sprintf("%d=%s.peers@%s", n, service(n), c.address(n)))
	}
	c.compose = append(composeCommand(t), "-f", "../../deploy/compose.yaml")
	for _, f := range files {
		c.compose = append(c.compose, "-f", f)
	}
	c.compose = append(c.compose, "-p", c.project)
	if nodes == 5 {
		c.compose = append(c.compose, "--profile", "five")
	}
	c.env = []string{fmt.Sprintf("PORTS=%d", ports), "HOLDFAST_PEERS=" + strings.Join(peers, ",")}
	return c
}

// giveBack returns the cluster for other tests, or removes it if this test failed or has let a node fail.
func (c *cluster) giveBack() {
	if timeout.Ended(c.t) || len(c.failing) > 0 {
		c.down()
		return
	}
	for _, n := range c.all() {
		if got := c.state(n); got != "running" {
			c.t.Errorf("node %d is %s after the test, want running", n, got)
		}
	}
	if unknown := c.unbroken(); unknown != nil || timeout.Ended(c.t) {
		c.clear()
		timeout.Check(c.t, unknown)
		return
	}
	clusters.give(c)
}

// down removes the cluster. It fails the test if a node has ended by itself.
func (c *cluster) down() {
	unknown := c.unbroken()
	c.clear()
	timeout.Check(c.t, unknown)
}

// unbroken fails the test for each node that has ended, and for each that was started again after its process had ended,
// if this test did not stop the node or let it fail. It returns an error if docker does not say.
func (c *cluster) unbroken() error {
	var unknown []error
	for _, n := range c.all() {
		unknown = append(unknown, c.unbrokenNode(n))
	}
	return timeout.Join(unknown...)
}

func (c *cluster) unbrokenNode(n int) error {
	c.t.Helper()
	ids, err := c.containers(n)
	if c.failing[n] || err != nil || len(ids) == 0 { // a test may end before it starts a node
		return err
	}
	said, err := command(nil, "docker", "inspect", "-f", "{{.State.Status}} {{.State.ExitCode}} {{.RestartCount}}", ids[0])
	if err != nil {
		return err
	}
	var status string
	var code, restarts int
	if _, err = fmt.Sscan(said, &status, &code, &restarts); err != nil {
		return fmt.Errorf("docker inspect says %q: %w", said, err)
	}
	if restarts > 0 {
		c.t.Errorf("node %d has ended by itself, and was started again %d times", n, restarts)
	}
	if status != "running" && status != "paused" && !c.stopped[n] {
		c.t.Errorf("node %d is %s with exit code %d, and the test has not stopped it", n, status, code)
	}
	return nil
}

// clear removes the cluster. A failed test keeps the nodes' logs.
func (c *cluster) clear() {
	if timeout.Ended(c.t) {
		c.keepLogs()
	}
	if err := c.remove(); err != nil {
		c.t.Error(err)
	}
}

func (c *cluster) remove() error {
	_, err := command(c.env, append(c.compose, "down", "-v", "-t", "2")...)
	return err
}

func (c *cluster) keepLogs() {
	dir := c.t.ArtifactDir()
	for _, n := range c.all() {
		logs := c.logs(n)
		if err := os.WriteFile(filepath.Join(dir, service(n)+".log"), []byte(logs), 0o600); err != nil {
			c.t.Logf("keep logs of node %d: %v", n, err)
		}
		c.t.Logf("node %d's log ends with (all of it: go test -artifacts):\n%s", n, tail(logs, 30))
	}
}

// logs returns the logs of all processes of node n, or why they cannot be read.
func (c *cluster) logs(n int) string {
	ids, err := c.containers(n)
	if err != nil || len(ids) == 0 {
		return fmt.Sprintf("no container: %v", err)
	}
	// docker logs prints the node's stderr on its own stderr.
	logs, err := command(nil, "sh", "-c", "docker logs "+ids[0]+" 2>&1")
	if err != nil {
		return fmt.Sprintf("%s\n%v", logs, err)
	}
	return logs
}

// all returns the numbers of all nodes.
func (c *cluster) all() []int {
	all := make([]int, c.nodes)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

// but returns the numbers of all nodes except some.
func (c *cluster) but(some ...int) []int {
	var rest []int
	for _, n := range c.all() {
		if !slices.Contains(some, n) {
			rest = append(rest, n)
		}
	}
	return rest
}

// address returns the address of node n for clients.
func (c *cluster) address(n int) string { return fmt.Sprintf("127.0.0.1:%d%d0", c.ports, n) }

func service(n int) string { return fmt.Sprintf("n%d", n) }

// freePorts returns three digits such that the ports of six nodes that begin with them are free. The ports are below
// those that Linux gives out.
func freePorts(t *testing.T) int {
	t.Helper()
	for range 100 {
		prefix := 180 + rand.IntN(140)
		if allFree(prefix) && clusters.claim(prefix) {
			return prefix
		}
	}
	t.Fatal("no free ports between 18000 and 32000")
	return 0
}

func allFree(prefix int) bool {
	for n := 1; n <= 6; n++ {
		for _, last := range []int{0, 1, 2, 3, 4} {
			l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d%d%d", prefix, n, last))
			if err != nil {
				return false
			}
			l.Close()
		}
	}
	return true
}

// await polls until ok reports true. If that takes longer than d, it fails the test with ok's last text.
func (c *cluster) await(d time.Duration, what string, ok func() (bool, string)) {
	c.t.Helper()
	timeout.Until(c.t, d, 50*time.Millisecond, what, ok)
}
