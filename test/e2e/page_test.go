//go:build e2e

package e2e

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"holdfast/test/timeout"
)

// hasPrograms gives the person a directory bin with the programs, which "make build" has made.
func (d *drill) hasPrograms() {
	d.t.Helper()
	root, err := filepath.Abs("../..")
	timeout.Check(d.t, err)
	err = errors.Join(os.MkdirAll(filepath.Join(d.dir, "bin", "data"), 0o700),
		os.Symlink(filepath.Join(root, "deploy"), filepath.Join(d.dir, "deploy")))
	for _, program := range []string{"node", "holdfast"} {
		err = errors.Join(err, os.Symlink(filepath.Join(root, "bin", program), filepath.Join(d.dir, "bin", program)))
	}
	timeout.Check(d.t, err)
}

// network breaks the network of containers. The session that began at node 1 is served by another node then.
func (d *drill) network() {
	d.t.Helper()
	block := d.page.Block("a broken network")
	if command := composeCommand(d.t); len(command) == 2 { // the page says so too
		block = strings.ReplaceAll(block, "holdfast3_n1_1", "holdfast3-n1-1")
	}
	out := d.runs(block, "")
	// The event of the holder, and the list after the cut: the number of the owner is a word of its row.
	if !regexp.MustCompile(`(?m)^0x\S+ .*\b[23]\b`).MatchString(out) {
		d.t.Errorf("no session is owned by node 2 or 3:\n%s", out)
	}
	d.runs("make down DATA=remove", "")
}

// secured starts a cluster with TLS and roles. An administrator may list sessions, a client may not. A node whose
// certificate was removed gets another one.
func (d *drill) secured() {
	d.t.Helper()
	d.env = append(d.env, "CERTIFICATES="+filepath.Join(d.dir, "bin", "certificates"))
	d.types("a secured cluster", "")
	d.env = append(d.env, "HOLDFAST_CACERT=bin/certificates/ca.pem")
	if out, err := d.tries(d.page.Block("a client that lists"), ""); err == nil ||
		!strings.Contains(out, "the call needs the role reader") {
		d.t.Errorf("a client lists sessions: %v\n%s", err, out)
	}
	before := d.runs("cat bin/certificates/n1/cert.pem && rm bin/certificates/node-1.pem bin/certificates/node-1.key", "")
	d.says("deploy/certificates bin/holdfast bin/certificates 3 holdfast", "")
	if after := d.runs("cat bin/certificates/n1/cert.pem", ""); after == before {
		d.t.Error("node 1 has its former certificate")
	}
	d.env = d.env[:len(d.env)-1]
	d.says("make down", "DATA=remove")
}

// claimed fails unless ports of 127.0.0.1 are free, which the page names.
func claimed(t *testing.T, ports ...int) {
	t.Helper()
	for _, port := range ports {
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatalf("%v: docs/operations uses the port, and so does another program", err)
		}
		l.Close()
	}
}

// TestPageOnOneMachine types what docs/operations says about one machine: a cluster of processes on fixed ports, the
// clusters of "node dev", and files of certificates and tokens.
func TestPageOnOneMachine(t *testing.T) {
	t.Parallel()
	claimed(t, 7400, 7410, 7420, 7430)
	d := newDrill(t, &cluster{t: t, nodes: 1, ports: freePorts(t)})
	d.hasPrograms()
	d.env = append(d.env, "HOLDFAST_ENDPOINTS=")
	out := d.runs(strings.Join([]string{
		d.page.Block("one machine"),
		d.page.Inline("holdfast session keep-alive --timeout 10s") + " --label by=page &",
		"held=$!",
		d.page.Block("each node in turn"),
		"holdfast session ls --label by=page | grep -c ^0x",
		"kill -INT $held", "wait $held",
		d.page.Inline("kill -TERM ${process[@]}"), "wait ${process[@]}",
		d.page.Inline("rm -r bin/data/n*"), "ls bin/data | wc -l",
	}, "\n"), "")
	if strings.Count(out, " ended with 0\n") != 3 || !strings.HasSuffix(out, "\n0\n") {
		t.Errorf("three nodes were to restart, end, and leave nothing:\n%s", out)
	}

	d.dev("node dev", "")
	d.dev("node dev --tls", " --cacert \"$(sed -n 's/.*HOLDFAST_CACERT=//p' dev.log | head -1)\"")
	d.certificates()
	d.tokens()
}

// dev runs the cluster of one process until its first node serves.
func (d *drill) dev(command, health string) {
	d.t.Helper()
	d.runs(fmt.Sprintf(`%s >dev.log 2>&1 &
until node health --address 127.0.0.1:7403%s 2>health.log; do
	kill -0 $! || { cat dev.log; exit 1; }
	sleep 0.2
done
kill -TERM $!
wait $!`, d.page.Inline(command), health), "")
}

// certificates makes those of the page, and shows one.
func (d *drill) certificates() {
	d.t.Helper()
	d.types("certificates", "")
	out := d.says("holdfast cert show FILE", "", "FILE", "certs/client-web.pem")
	if !strings.Contains(out, `client web of cluster "holdfast"`) {
		d.t.Errorf("cert show:\n%s", out)
	}
}

// tokens makes those of the page, and calls a node that takes them alone.
func (d *drill) tokens() {
	d.t.Helper()
	out := d.types("tokens", "")
	lines := regexp.MustCompile(`(?m)^line +(.*)$`).FindAllStringSubmatch(out, -1)
	secrets := regexp.MustCompile(`(?m)^token +(.*)$`).FindAllStringSubmatch(out, -1)
	if len(lines) != 2 || len(secrets) != 2 {
		d.t.Fatalf("tokens:\n%s", out)
	}
	file := filepath.Join(d.dir, "auth.yaml")
	err := errors.Join(
		os.WriteFile(file, []byte("tokens:\n"+lines[0][1]+"\n"+lines[1][1]+"\n"), 0o600),
		os.WriteFile(filepath.Join(d.dir, "token"), []byte(secrets[1][1]), 0o600))
	timeout.Check(d.t, err)
	if out = d.says("holdfast auth token show FILE", "", "FILE", "auth.yaml"); !strings.Contains(out, "operator") {
		d.t.Errorf("auth token show:\n%s", out)
	}
	p := newProcesses(d.t, 1)
	p.start(1, "--auth", "tokens", "--auth-file", file)
	p.c.await(healWithin, "the node serves", func() (bool, string) { return p.healthy(1), p.log(1) })
	more := "--token-without-tls session ls --endpoints " + p.c.address(1)
	d.says("holdfast --auth-token-file FILE", more, "FILE", "token")
	if out, err := d.tries("holdfast "+more, ""); err == nil {
		d.t.Errorf("a caller without a token lists sessions:\n%s", out)
	}
}
