package tree

import (
	"slices"
	"strings"
	"testing"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
)

// TestConnectStrings reads ZooKeeper's connect strings.
func TestConnectStrings(t *testing.T) {
	for _, one := range []struct {
		text, chroot string
		servers      []string
	}{
		{"zk1", "", []string{"zk1:2181"}},
		{"zk1:2182,zk2 , [::1]", "", []string{"zk1:2182", "zk2:2181", "[::1]:2181"}},
		{"[::1]:9/app/here", "/app/here", []string{"[::1]:9"}},
		{"zk1:1,zk2:2/app", "/app", []string{"zk1:1", "zk2:2"}},
	} {
		got, err := parseZooKeeper(one.text)
		if err != nil || !slices.Equal(got.Servers, one.servers) || strings.TrimSuffix(got.Chroot, "/") != one.chroot {
			t.Errorf("%q: %+v %v", one.text, got, err)
		}
	}
}

// TestImportRefusesArguments: an invalid source is refused before any connection.
func TestImportRefusesArguments(t *testing.T) {
	for _, one := range []struct {
		args []string
		says string
	}{
		{nil, "CONNECT-STRING"},
		{[]string{""}, "host:port"},
		{[]string{"zk1:2181,,zk2:2181"}, "host:port"},
		{[]string{"zk1:port"}, "port"},
		{[]string{"zk1:2181//app"}, "chroot"},
		{[]string{"zk1:2181/a/../b"}, "chroot"},
		{[]string{"zk1:2181", "--to", "app"}, "app"},
		{[]string{"zk1:2181", "--source-auth", "digest"}, "--source-auth"},
		{[]string{"zk1:2181", "--source-cert", "me.pem"}, "--source-key"},
		{[]string{"zk1:2181", "--source-key", "me.key"}, "--source-cert"},
		{[]string{"zk1:2181", "--verify-only", "--delete"}, "verify-only"},
		{[]string{"zk1:2181", "--in-flight", "17"}, "in-flight"},
	} {
		code, stdout, stderr := clitest.Execute(t, "", append([]string{"import", "zookeeper"}, one.args...)...)
		if code != cli.ExitUsage || stdout != "" || !strings.Contains(stderr, one.says) {
			t.Errorf("%q: exit code %d, %q", one.args, code, stderr)
		}
	}
	code, _, stderr := clitest.Execute(t, "", "import", "zookeeper", "zk1:2181", "--source-cacert",
		t.TempDir()+"/none.pem")
	if code == 0 || !strings.Contains(stderr, "none.pem") {
		t.Errorf("a file that is not there: %d, %q", code, stderr)
	}
}
