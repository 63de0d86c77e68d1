//go:build e2e

package zk

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/test/loopback"
	"holdfast/test/proc"
	"holdfast/test/skip"
	"holdfast/test/timeout"
	"holdfast/zk/jute"
)

const (
	// startWait bounds the start of servers, answerWait one answer of a server.
	startWait  = time.Minute
	answerWait = 30 * time.Second
	// superDigest is super:test, whom kazoo's suite knows.
	superDigest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
	// jar is that of Debian's libzookeeper-java. Its manifest finds the others, but for what a server with TLS needs.
	jar      = "/usr/share/java/zookeeper.jar"
	nettyJar = "/usr/share/java/netty-codec.jar"
)

// program is the node's program, built once.
var program = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "holdfast-zk-")
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "node")
	out, err := exec.Command("go", "build", "-o", file, "holdfast/cmd/node").CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("building the node: %w: %s", err, out)
	}
	return file, nil
})

func TestMain(m *testing.M) {
	proc.RaiseLimits()
	code := m.Run()
	if file, err := program(); err == nil {
		_ = os.RemoveAll(filepath.Dir(file))
	}
	os.Exit(code)
}

// servers are those of one system.
type servers struct {
	process   *proc.Process
	addresses []string
}

// superEnv has nodes know super:test.
func superEnv() []string { return []string{"HOLDFAST_SUPER_DIGEST=" + superDigest} }

// holdfast starts three nodes in a process, with flags besides its own.
func holdfast(t *testing.T, flags ...string) servers {
	t.Helper()
	file, err := program()
	timeout.Check(t, err)
	base := freeBase(t)
	var s servers
	for n := range 3 {
		s.addresses = append(s.addresses, fmt.Sprintf("127.0.0.1:%d", base+10*n+4))
	}
	s.start(t, append([]string{file, "dev", "--port-base", fmt.Sprint(base)}, flags...))
	return s
}

// zookeeper starts one server of ZooKeeper with the settings of its sample configuration, but for those that let it
// serve what the nodes serve, and at once.
func zookeeper(t *testing.T) servers {
	t.Helper()
	return zookeeperWith(t, "")
}

// zookeeperWith is zookeeper with more settings.
func zookeeperWith(t *testing.T, settings string) servers {
	t.Helper()
	need(t, "java", "default-jre-headless")
	need(t, jar, "libzookeeper-java")
	dir := t.TempDir()
	at, err := loopback.Own(1)
	timeout.Check(t, err)
	_, port, _ := net.SplitHostPort(at[0])
	config := fmt.Sprintf("tickTime=2000\ndataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxClientCnxns=0\n"+
		"admin.enableServer=false\n4lw.commands.whitelist=*\n", filepath.Join(dir, "data"), port) + settings
	timeout.Check(t, os.WriteFile(filepath.Join(dir, "zoo.cfg"), []byte(config), 0o600))
	s := servers{addresses: at}
	s.start(t, []string{
		"java", "-Xmx256m", "-Dzookeeper.forceSync=no", "-Dzookeeper.extendedTypesEnabled=true",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest=" + superDigest, "-cp", jar + ":" + nettyJar,
		"org.apache.zookeeper.server.ZooKeeperServerMain", filepath.Join(dir, "zoo.cfg"),
	})
	return s
}

// need skips the test unless there is a program or a file, and fails it under CI.
func need(t *testing.T, file, debian string) {
	t.Helper()
	_, err := exec.LookPath(file)
	if strings.HasPrefix(file, "/") {
		_, err = os.Stat(file)
	}
	if err != nil {
		missing(t, err.Error(), debian)
	}
}

// missing skips the test for want of a package, and fails it under CI.
func missing(t *testing.T, what, debian string) {
	t.Helper()
	skip.Test(t, what, " (Debian: ", debian, ")")
}

// start starts the process of servers, and waits until they serve.
func (s *servers) start(t *testing.T, args []string) {
	t.Helper()
	dir := t.TempDir()
	var err error
	if s.process, err = proc.Start(proc.Spec{Name: "server", Dir: dir, Args: args, Env: superEnv()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.process.Stop()
		if timeout.Ended(t) {
			log, _ := os.ReadFile(s.process.Log())
			t.Logf("%s said:\n%s", args[0], last(string(log), 4000))
		}
	})
	s.serve(t)
}

// serve waits until each address serves.
func (s *servers) serve(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startWait)
	defer cancel()
	for _, address := range s.addresses {
		if err := proc.Until(ctx, 50*time.Millisecond, func(context.Context) error {
			select {
			case <-s.process.Ended():
				t.Fatal("the servers have ended")
			default:
			}
			p := &peer{address: address}
			err := p.connect()
			if err == nil {
				var root jute.Encoder
				root.String("/")
				root.Bool(false)
				_, err = p.ask(jute.Exists, root.Bytes())
			}
			if err == nil {
				_, err = p.ask(jute.CloseSession, nil)
			}
			p.drop()
			return err
		}); err != nil {
			timeout.Check(t, fmt.Errorf("%s: %w", address, err))
		}
	}
}

// freeBase returns a port from which on all that three nodes take are the test's.
func freeBase(t *testing.T) int {
	t.Helper()
	var distances []int
	for n := range 3 {
		for port := range 5 {
			distances = append(distances, 10*n+port)
		}
	}
	return loopback.Base(t, distances...)
}

// last returns the last bytes of a text.
func last(text string, n int) string { return text[max(0, len(text)-n):] }
