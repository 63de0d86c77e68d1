// Package onenode runs a cluster of one node for examples. The node is a process: go mod tidy of a program fetches what
// the tests of the packages that it imports import, and a user of the SDK should not fetch a server.
package onenode

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/test/loopback"
)

// startWait bounds the time from the start of the node until it serves.
const startWait = time.Minute

// run runs the node until standard input ends, and removes its directory. Standard input also ends when the process of
// the examples does.
const run = `
"$0" "$@" >"$DIR/log" 2>&1 &
read -r ends
kill $!
wait $!
code=$?
rm -rf "$DIR"
exit $code
`

// Cluster is one node on loopback.
type Cluster struct {
	// Endpoints are for [client.Config].
	Endpoints []string

	shell *exec.Cmd
	stdin io.Closer
}

// Start builds the node, starts it, and returns when it serves the tree. The caller stops it.
func Start() (*Cluster, error) {
	at, err := loopback.Own(4)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "holdfast-")
	if err != nil {
		return nil, err
	}
	program := filepath.Join(dir, "node")
	//nolint:noctx // building ends by itself
	out, err := exec.Command("go", "build", "-o", program, "holdfast/cmd/node").CombinedOutput()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("build the node: %w: %s", err, out), os.RemoveAll(dir))
	}
	//nolint:noctx // Stop ends it
	c := &Cluster{Endpoints: at[:1], shell: exec.Command("sh", "-c", run, program, "run", "--node", "1",
		"--data-dir", filepath.Join(dir, "data"), "--peers", peer(at), "--client-listen", at[0], "--raft-listen", at[1],
		"--peer-listen", at[2], "--http-listen", at[3], "--disk-limit", "0")} // this machine's disk is not the example's
	c.shell.Env = append(os.Environ(), "DIR="+dir)
	if c.stdin, err = c.shell.StdinPipe(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.shell.Start(); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.serves(); err != nil {
		log, _ := os.ReadFile(filepath.Join(dir, "log"))
		return nil, errors.Join(fmt.Errorf("the node does not serve: %w: %s", err, log), c.Stop())
	}
	return c, nil
}

// peer names the node to itself: its number, the ports of Raft and peers, and its client port.
func peer(at []string) string {
	_, peers, _ := strings.Cut(at[2], ":")
	return "1=" + at[1] + ":" + peers + "@" + at[0]
}

// serves waits until the node answers a read.
func (c *Cluster) serves() error {
	//nolint:forbidigo // the cluster belongs to the test's process, and to no call
	ctx, cancel := context.WithTimeout(context.Background(), startWait)
	defer cancel()
	cl, err := client.New(client.Config{Endpoints: c.Endpoints})
	if err != nil {
		return err
	}
	defer cl.Close() //nolint:errcheck // it was only asked
	for again := time.NewTicker(10 * time.Millisecond); ; {
		_, err := cl.Tree().Get(ctx, "/")
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

// Stop ends the node and removes its data.
func (c *Cluster) Stop() error {
	return errors.Join(c.stdin.Close(), c.shell.Wait())
}
