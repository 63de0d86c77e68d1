//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"holdfast/test/timeout"
)

// nodeProgram and holdfastProgram are the programs that "make build" builds.
const (
	nodeProgram     = "../../bin/node"
	holdfastProgram = "../../bin/holdfast"
)

// processes runs a cluster without containers: each node is a process.
type processes struct {
	c     *cluster
	dir   string
	peers string
	// env are further variables of all nodes.
	env []string
	// newest is the newest process of each node.
	newest map[int]*process
}

// process is one process of a node.
type process struct {
	cmd *exec.Cmd
	// began is the size of the node's log when the process began.
	began int64
	// ended is closed when the process has ended. err is its result.
	ended chan struct{}
	err   error
	// mayEnd says that the test ends the process, or waits for its end. Any other end fails the test.
	mayEnd bool
}

func newProcesses(t *testing.T, nodes int) *processes {
	t.Helper()
	p := &processes{
		c: &cluster{t: t, nodes: nodes, ports: freePorts(t)}, dir: t.TempDir(), newest: make(map[int]*process),
	}
	var peers []string
	for _, n := range p.c.all() {
		peers = append(peers, fmt.Sprintf("%d=%s:%d@%s", n, p.at(n, 1), p.port(n, 2), p.c.address(n)))
	}
	p.peers = strings.Join(peers, ",")
	t.Cleanup(p.end)
	return p
}

// port returns a port of node n: 0 is for clients, 1 for Raft, 2 for nodes, 3 for operators.
func (p *processes) port(n, which int) int { return p.c.ports*100 + n*10 + which }

func (p *processes) at(n, which int) string { return fmt.Sprintf("127.0.0.1:%d", p.port(n, which)) }

// data returns node n's data directory.
func (p *processes) data(n int) string { return filepath.Join(p.dir, service(n)) }

// start starts node n.
func (p *processes) start(n int, flags ...string) {
	p.c.t.Helper()
	p.startProgram(n, nodeProgram, flags...)
}

// startProgram starts node n with a program that may differ from nodeProgram.
func (p *processes) startProgram(n int, program string, flags ...string) {
	p.c.t.Helper()
	log, err := os.OpenFile(p.data(n)+".log", os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	timeout.Check(p.c.t, err)
	defer log.Close()
	info, err := log.Stat()
	timeout.Check(p.c.t, err)
	one := &process{began: info.Size(), ended: make(chan struct{})}
	one.cmd = exec.Command(program, append([]string{
		"run", "--node", fmt.Sprint(n), "--peers", p.peers, "--data-dir", p.data(n), "--client-listen", p.at(n, 0),
		"--raft-listen", p.at(n, 1), "--peer-listen", p.at(n, 2), "--http-listen", p.at(n, 3),
	}, flags...)...)
	one.cmd.Stdout, one.cmd.Stderr = log, log
	one.cmd.Env = append(os.Environ(), p.env...)
	timeout.Check(p.c.t, one.cmd.Start())
	go func() { one.err = one.cmd.Wait(); close(one.ended) }()
	p.newest[n] = one
}

// stop ends node n as an operator does, with SIGTERM, and checks that it ends in order.
func (p *processes) stop(n int) {
	p.c.t.Helper()
	one := p.newest[n]
	if err := one.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		p.c.t.Fatalf("stop node %d: %v", n, err)
	}
	if err := p.exit(n); err != nil {
		p.c.t.Errorf("node %d ended with %v, want 0", n, err)
	}
}

// exit waits until the process of node n has ended, and returns its result.
func (p *processes) exit(n int) error {
	p.c.t.Helper()
	one, late := p.newest[n], time.NewTimer(healWithin)
	defer late.Stop()
	one.mayEnd = true
	select {
	case <-one.ended:
		return one.err
	case <-late.C:
		timeout.Fatalf(p.c.t, "node %d has not ended within %v", n, healWithin)
		return nil
	}
}

// log returns what the newest process of node n has logged.
func (p *processes) log(n int) string {
	text, err := os.ReadFile(p.data(n) + ".log")
	if err != nil {
		return err.Error()
	}
	return string(text[p.newest[n].began:])
}

// healthy reports whether node n says that it serves.
func (p *processes) healthy(n int) bool {
	request, err := http.NewRequestWithContext(p.c.t.Context(), http.MethodGet, "http://"+p.at(n, 3)+"/healthz",
		http.NoBody)
	timeout.Check(p.c.t, err)
	request.Close = true
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer response.Body.Close()
	return response.StatusCode == http.StatusOK
}

// end kills what still runs, and fails the test for a node that has ended by itself. A failed test shows and keeps the
// nodes' logs.
func (p *processes) end() {
	for n, one := range p.newest {
		select {
		case <-one.ended:
			if !one.mayEnd {
				p.c.t.Errorf("node %d has ended by itself: %v", n, one.err)
			}
		default:
		}
		if err := one.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			p.c.t.Error(err)
		}
		<-one.ended
	}
	if !timeout.Ended(p.c.t) {
		return
	}
	for _, n := range p.c.all() {
		text, err := os.ReadFile(p.data(n) + ".log")
		if err == nil {
			err = os.WriteFile(filepath.Join(p.c.t.ArtifactDir(), service(n)+".log"), text, 0o600)
		}
		p.c.t.Logf("node %d's log ends with (all of it: go test -artifacts; %v):\n%s", n, err, tail(string(text), 30))
	}
}
