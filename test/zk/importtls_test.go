//go:build e2e

package zk

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"holdfast/test/certs"
	"holdfast/test/loopback"
	"holdfast/test/timeout"
	"holdfast/transport/secure"
)

// secured returns the settings of a ZooKeeper that serves TLS as well, and asks for certificates.
func secured(t *testing.T, ca *certs.CA) (settings, port string) {
	t.Helper()
	at, err := loopback.Own(1)
	timeout.Check(t, err)
	_, port, _ = net.SplitHostPort(at[0])
	server := ca.Node("zoo", 1)
	both := filepath.Join(ca.Dir, "server.pem") // the key, and the certificate
	var all [][]byte
	for _, file := range []string{server.Key, server.Cert} {
		text, err := os.ReadFile(file)
		timeout.Check(t, err)
		all = append(all, text)
	}
	certs.Write(t, both, all...)
	return fmt.Sprintf("secureClientPort=%s\nserverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory\n"+
		"ssl.keyStore.location=%s\nssl.keyStore.type=PEM\nssl.trustStore.location=%s\nssl.trustStore.type=PEM\n",
		port, both, ca.File), port
}

// TestImportOverTLS copies from a ZooKeeper that serves TLS and asks for certificates.
func TestImportOverTLS(t *testing.T) {
	ca, other := certs.New(t), certs.New(t)
	settings, port := secured(t, ca)
	m := newMoveWith(t, settings)
	m.application("/app")
	me, stranger := ca.Client("zoo", "import"), other.Client("zoo", "import")
	by := func(host, cacert string, pair secure.Files, more ...string) []string {
		args := []string{"import", "zookeeper", host + ":" + port, "--source-cacert", cacert}
		if pair.Cert != "" {
			args = append(args, "--source-cert", pair.Cert, "--source-key", pair.Key)
		}
		return append(args, more...)
	}
	for _, one := range []struct {
		what string
		args []string
		says string
	}{
		{"a CA that did not sign the server's", by("localhost", other.File, me), "failed to verify certificate"},
		{"another name", by("localhost", ca.File, me, "--source-server-name", "elsewhere"), "not elsewhere"},
		{"no certificate of its own", by("localhost", ca.File, secure.Files{}), "remote error: tls:"},
		{"a stranger's", by("localhost", ca.File, stranger), "remote error: tls:"},
	} {
		cmd, _, complaints := m.start(one.args...)
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 1 || !strings.Contains(complaints.String(), one.says) {
			t.Errorf("%s: exit code %d, want 1 and %q: %s", one.what, code, one.says, complaints)
		}
	}
	if there, _, _ := m.to.Exists("/app"); there {
		t.Fatal("something was copied without TLS")
	}
	if got := m.run(0, by("localhost", ca.File, me)[2:]...); !got.Equal || got.Copied.Created != 14 {
		t.Errorf("over TLS: %+v", got)
	}
	m.same("/app", "/app")
	if got := m.run(0, by("127.0.0.1", ca.File, me, "--verify-only")[2:]...); !got.Equal || got.Verified.Equal != 15 {
		t.Errorf("by the address: %+v", got)
	}
}
