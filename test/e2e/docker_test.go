//go:build e2e

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/test/timeout"
)

// commandTimeout bounds every command, so that a hung docker fails a test and not the build.
const commandTimeout = time.Minute

// command runs a program. It returns its stdout without the last newline.
func command(env []string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env = append(os.Environ(), env...)
	cmd.WaitDelay = time.Second
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s: %w: %s", strings.Join(args, " "), errors.Join(err, ctx.Err()),
			tail(stderr.String(), 20))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// must is command for a program that must succeed.
func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := command(nil, args...)
	timeout.Check(t, err)
	return out
}

// composeCommand returns the command of COMPOSE, or else the plugin, or else the separate program.
func composeCommand(t *testing.T) []string {
	t.Helper()
	if c := os.Getenv("COMPOSE"); c != "" {
		return strings.Fields(c)
	}
	if _, err := command(nil, "docker", "compose", "version"); err == nil {
		return []string{"docker", "compose"}
	}
	return []string{"docker-compose"}
}

// container returns the id of node n's container, running or not.
func (c *cluster) container(n int) string {
	c.t.Helper()
	ids, err := c.containers(n)
	timeout.Check(c.t, err)
	if len(ids) != 1 {
		c.t.Fatalf("containers of %s: got %q, want one", service(n), ids)
	}
	return ids[0]
}

// containers returns the ids of node n's containers, running or not.
func (c *cluster) containers(n int) ([]string, error) {
	ids, err := command(nil, "docker", "ps", "-aq", "--no-trunc",
		"--filter", "label=com.docker.compose.project="+c.project,
		"--filter", "label=com.docker.compose.service="+service(n))
	return strings.Fields(ids), err
}

// state returns the state of node n's container in docker's words: running, paused, exited.
func (c *cluster) state(n int) string {
	c.t.Helper()
	return must(c.t, "docker", "inspect", "-f", "{{.State.Status}}", c.container(n))
}

// kill ends nodes as a power cut does, with SIGKILL, and checks that they are dead.
func (c *cluster) kill(nodes ...int) {
	c.t.Helper()
	args := []string{"docker", "kill", "-s", "KILL"}
	for _, n := range nodes {
		args = append(args, c.container(n))
		c.mayStop(n)
	}
	must(c.t, args...)
	for _, n := range nodes {
		want := "exited 137"
		c.await(healWithin, fmt.Sprintf("node %d is dead", n), func() (bool, string) {
			got := must(c.t, "docker", "inspect", "-f", "{{.State.Status}} {{.State.ExitCode}}", c.container(n))
			return got == want, got
		})
	}
}

// stop stops a node in order, as an operator does.
func (c *cluster) stop(n int, flags ...string) {
	c.t.Helper()
	c.mayStop(n)
	must(c.t, slices.Concat([]string{"docker", "stop"}, flags, []string{c.container(n)})...)
}

// mayStop notes that this test stops a node. It judges the node's processes so far: a start resets docker's count of them.
func (c *cluster) mayStop(n int) {
	c.t.Helper()
	timeout.Check(c.t, c.unbrokenNode(n))
	c.stopped[n] = true
}

// start starts stopped nodes on their volumes.
func (c *cluster) start(nodes ...int) {
	c.t.Helper()
	for _, n := range nodes {
		must(c.t, "docker", "start", c.container(n))
		delete(c.stopped, n)
	}
}

// pause freezes all threads of a node, and checks that it did.
func (c *cluster) pause(n int) {
	c.t.Helper()
	must(c.t, "docker", "pause", c.container(n))
	if got := c.state(n); got != "paused" {
		c.t.Fatalf("node %d is %s, want paused", n, got)
	}
}

func (c *cluster) unpause(n int) {
	c.t.Helper()
	must(c.t, "docker", "unpause", c.container(n))
}

// disconnect takes a node off the network between the nodes, as if its cable were pulled: its interface disappears.
func (c *cluster) disconnect(n int) {
	c.t.Helper()
	must(c.t, "docker", "network", "disconnect", c.project+"_peers", c.container(n))
	if got := c.networks(n); strings.Contains(got, "_peers") {
		c.t.Fatalf("node %d is still on %s", n, got)
	}
}

// connect undoes disconnect. It gives the node its name on the network again.
func (c *cluster) connect(n int) {
	c.t.Helper()
	must(c.t, "docker", "network", "connect", "--alias", service(n)+".peers", c.project+"_peers", c.container(n))
}

func (c *cluster) networks(n int) string {
	c.t.Helper()
	return must(c.t, "docker", "inspect", "-f", "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}",
		c.container(n))
}

// addresses returns node n's addresses on all of its networks.
func (c *cluster) addresses(n int) []string {
	c.t.Helper()
	found := strings.Fields(must(c.t, "docker", "inspect", "-f",
		"{{range .NetworkSettings.Networks}}{{.IPAddress}} {{end}}", c.container(n)))
	if len(found) == 0 {
		c.t.Fatalf("node %d has no address", n)
	}
	return found
}

// tail returns the last lines of s.
func tail(s string, lines int) string {
	all := strings.Split(strings.TrimRight(s, "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}
