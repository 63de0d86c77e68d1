//go:build e2e

package zk

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"syscall"
	"testing"
	"time"

	"holdfast/test/timeout"
)

const (
	// debianPython is the interpreter that Debian's packages are for.
	debianPython = "/usr/bin/python3"
	// kazooTests is there if kazoo's tests are.
	kazooTests = "/usr/lib/python3/dist-packages/kazoo/tests/test_client.py"
	kazooWait  = 10 * time.Minute
	// kazooPassed is fewer than the tests of kazoo 2.8 without eventlet and gevent.
	kazooPassed = 300
)

// notOfKazoo are the tests of kazoo's suite that cannot pass, with the reason for each.
var notOfKazoo = map[string]string{
	"test_client.py::TestReconfig::test_no_super_auth":                         noReconfig,
	"test_client.py::TestReconfig::test_add_remove_observer":                   noReconfig,
	"test_client.py::TestReconfig::test_bad_input":                             noReconfig,
	"test_connection.py::TestReadOnlyMode::test_read_only":                     noQuorum,
	"test_sasl.py::TestLegacySASLDigestAuthentication::test_connect_sasl_auth": noSASL,
	"test_sasl.py::TestSASLDigestAuthentication::test_connect_sasl_auth":       noSASL,
	"test_sasl.py::TestLegacySASLDigestAuthentication::test_invalid_sasl_auth": noSASL + racing,
	"test_sasl.py::TestSASLDigestAuthentication::test_invalid_sasl_auth":       noSASL + racing,
}

const (
	noReconfig = "reconfig is refused with -123"
	noQuorum   = "it wants a session of the cluster to be served without a quorum (Z9)"
	noSASL     = "SASL is refused with -115"
	racing     = ", which kazoo sees, but its start raises that, or a timeout, or nothing, as its threads race"
)

// TestKazoo runs the tests of kazoo itself, which stop and start nodes.
func TestKazoo(t *testing.T) {
	need(t, debianPython, "python3")
	need(t, kazooTests, "python3-kazoo")
	if out, err := exec.Command(debianPython, "-c", "import pytest, mock, objgraph").CombinedOutput(); err != nil {
		missing(t, fmt.Sprintf("%s: %s", err, out), "python3-pytest, python3-mock and python3-objgraph")
	}
	type spec struct {
		Address string   `json:"address"`
		Dir     string   `json:"dir"`
		Args    []string `json:"args"`
	}
	var nodes []spec
	for _, n := range nodesOf(t, "--read-only", "on") {
		nodes = append(nodes, spec{n.address, n.spec.Dir, n.spec.Args})
	}
	described, err := json.Marshal(nodes)
	timeout.Check(t, err)
	args := []string{
		"-m", "pytest", "-p", "holdfast_plugin", "-p", "no:cacheprovider", "-q", "--tb=short",
		"--disable-warnings", "--show-capture=no", "-rsfE", "--pyargs", "kazoo.tests",
	}
	for name, reason := range notOfKazoo {
		t.Logf("%s is left out: %s", name, reason)
		args = append(args, "--deselect", name)
	}
	plugin, err := filepath.Abs("kazoo")
	timeout.Check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), kazooWait)
	defer cancel()
	cmd := exec.CommandContext(ctx, debianPython, args...)
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "NODES="+string(described), "PYTHONPATH="+plugin, "PYTHONDONTWRITEBYTECODE=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) } // its nodes too
	// What clients that were left behind write goes to the other output.
	out, err := cmd.Output()
	if err != nil {
		for _, n := range nodes {
			log, _ := os.ReadFile(filepath.Join(n.Dir, "node.log"))
			t.Logf("%s said:\n%s", n.Address, last(string(log), 2000))
		}
		t.Fatalf("%s\n%s", last(string(out), 20000), err) // last, where the names of the failed tests are looked for
	}
	t.Logf("%s", last(string(out), 20000))
	var passed int
	if found := regexp.MustCompile(`(\d+) passed`).FindStringSubmatch(string(out)); found != nil {
		_, _ = fmt.Sscan(found[1], &passed)
	}
	if passed < kazooPassed {
		t.Errorf("%d tests passed, want at least %d", passed, kazooPassed)
	}
}
