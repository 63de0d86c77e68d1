package auth

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/clitest"
	"holdfast/transport/secure"
)

// The commands make files that nodes and clients accept, show the results, keep keys private, and replace nothing.
func TestCertificatesAreMade(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "certs")
	call := func(args ...string) (code int, out string) {
		var stdout, stderr bytes.Buffer
		code = clitest.Run(context.Background(), append([]string{"cert"}, args...), strings.NewReader(""), &stdout, &stderr)
		return code, stdout.String() + stderr.String()
	}
	if code, out := call("node", "3", "--dir", dir); code != cli.ExitFailed || !strings.Contains(out, "holdfast cert ca") {
		t.Errorf("a node's certificate without a CA: %d, %s", code, out)
	}
	for _, tt := range []struct {
		args []string
		says string
	}{
		{[]string{"ca"}, "a CA"},
		{[]string{"node", "3", "--host", "n3,10.0.0.3", "--cluster-id", "prod"}, `node 3 of cluster "prod"`},
		{[]string{"client", "web", "--cluster-id", "prod"}, `client web of cluster "prod"`},
		{[]string{"admin", "root", "--cluster-id", "prod"}, `admin root of cluster "prod"`},
	} {
		args := append(tt.args, "--dir", dir)
		if code, out := call(args...); code != cli.ExitDone || !strings.Contains(out, tt.says) {
			t.Errorf("%v: %d, %s", args, code, out)
		}
		if code, out := call(args...); code != cli.ExitFailed || !strings.Contains(out, "is not replaced") {
			t.Errorf("again %v: %d, %s", args, code, out)
		}
	}
	for _, bad := range [][]string{
		{"node", "0"}, {"node", "255"}, {"client", "a b"}, {"node", "1", "--cluster-id", "a..b"},
	} {
		if code, out := call(append(bad, "--dir", dir)...); code != cli.ExitUsage {
			t.Errorf("%v: %d, %s", bad, code, out)
		}
	}
	for _, host := range []string{"n1:7400", "http://n4", "a,", "10.0.0.1,10.0.0.256"} {
		code, out := call("node", "9", "--host", host, "--dir", dir)
		if code != cli.ExitUsage || !strings.Contains(out, "--host ") || !strings.Contains(out, "DNS name") {
			t.Errorf("--host %s: %d, %s", host, code, out)
		}
	}
	for name, want := range map[string]int{"ca": 3650, "node-3": 365, "client-web": 365, "admin-root": 365} {
		b, err := os.ReadFile(filepath.Join(dir, name+".pem"))
		if err != nil {
			t.Fatal(err)
		}
		made, err := secure.Certificates(b)
		if err != nil {
			t.Fatal(err)
		}
		lasts := made[0].NotAfter.Sub(made[0].NotBefore) - time.Hour // it starts an hour early
		if days := time.Duration(want) * 24 * time.Hour; lasts != days {
			t.Errorf("%s is valid for %v, want %v", name, lasts, days)
		}
	}
	keys, err := filepath.Glob(filepath.Join(dir, "*.key"))
	if err != nil || len(keys) != 4 {
		t.Fatalf("keys %v, %v", keys, err)
	}
	for _, key := range keys {
		if info, failed := os.Stat(key); failed != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v, %v", key, info, failed)
		}
	}
	code, out := call("show", filepath.Join(dir, "node-3.pem"))
	if code != cli.ExitDone ||
		!strings.Contains(out, "hosts       n") && !strings.Contains(out, "localhost, n3, 127.0.0.1") ||
		!strings.Contains(out, "servers") {
		t.Errorf("show: %d, %s", code, out)
	}
	store, err := secure.Open(secure.StoreConfig{Files: secure.Files{
		Cert: filepath.Join(dir, "node-3.pem"), Key: filepath.Join(dir, "node-3.key"), CA: filepath.Join(dir, "ca.pem"),
	}})
	if err != nil {
		t.Fatal(err)
	}
	node, err := secure.NodeOf(store.Current().Pair.Leaf, "prod")
	if err != nil || node != 3 || store.Current().Trusted(time.Now()) != nil {
		t.Errorf("the node's certificate is of node %d, %v; %v", node, err, store.Current().Trusted(time.Now()))
	}
}
