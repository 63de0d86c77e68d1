package main

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"holdfast/node/health"
	"holdfast/test/loopback"
	"holdfast/transport/secure"
)

// freePortBase returns a base from which the ports of a dev cluster of n nodes are the test's.
func freePortBase(t *testing.T, n int) int {
	t.Helper()
	var distances []int
	for i := range n {
		for port := range 5 {
			distances = append(distances, i*portStep+port)
		}
	}
	return loopback.Base(t, distances...)
}

// startDev runs a dev cluster and returns what it printed until it serves, and a stop that returns its exit code.
func startDev(t *testing.T, args ...string) (welcome string, stop func() int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	read, write := io.Pipe()
	var stderr strings.Builder
	code := make(chan int, 1)
	go func() {
		code <- run(ctx, append([]string{"dev", "--log-level=error"}, args...), nil, write, &stderr)
		write.Close()
	}()
	var printed strings.Builder
	for lines := bufio.NewScanner(read); lines.Scan(); {
		fmt.Fprintln(&printed, lines.Text())
		if strings.HasPrefix(lines.Text(), "Ctrl-C") {
			return printed.String(), func() int {
				cancel()
				return <-code
			}
		}
	}
	t.Fatalf("exit %d: %s%s", <-code, printed.String(), stderr.String())
	return "", nil
}

// A real cluster of three comes up, every node serves, and the temporary directory goes with it.
func TestDev(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	base := freePortBase(t, 3)
	welcome, stop := startDev(t, "--port-base", fmt.Sprint(base))
	want := fmt.Sprintf("export HOLDFAST_ENDPOINTS=127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d\n", base, base+10, base+20)
	if !strings.Contains(welcome, want) || !strings.HasPrefix(welcome, "3 nodes serve. Their data is in ") {
		t.Errorf("got %s\nwant in it %s", welcome, want)
	}
	for i := range 3 {
		if code, _, stderr := try(t, nil, "health", "--address", dev{portBase: base}.address(i, 3)); code != exitDone {
			t.Errorf("node %d: health: %s", i+1, stderr)
		}
	}
	code, _, stderr := try(t, nil, "dev", "--log-level=off", "--port-base", fmt.Sprint(base))
	if code != exitFailed || !strings.Contains(stderr, "--port-base") {
		t.Errorf("a second cluster on the same ports: got %d, %q, want %d and what to do", code, stderr, exitFailed)
	}
	if code := stop(); code != exitDone {
		t.Errorf("got exit code %d, want 0", code)
	}
	left, err := os.ReadDir(os.TempDir())
	if err != nil || len(left) > 0 {
		t.Errorf("got %v, %v left behind, want nothing", left, err)
	}
}

// With a digest the cluster has a client that no access list holds back, and refuses what is none.
func TestDevHasASuperDigest(t *testing.T) {
	const digest = "root:lK75jTNcA+U9vtVEw5vB51mj/w4="
	for _, c := range (dev{nodes: 2, portBase: 1000, super: digest}).configs() {
		if c.Tree.Super != digest {
			t.Errorf("node %d: super digest %q", c.Node, c.Tree.Super)
		}
	}
	code, _, stderr := try(t, []string{"HOLDFAST_SUPER_DIGEST=root"}, "dev", "--log-level=off", "--nodes=1")
	if code != exitFailed || !strings.Contains(stderr, "super_digest") {
		t.Errorf("a digest without a hash: exit code %d, %s", code, stderr)
	}
}

// With --dir the cluster comes back on what it wrote.
func TestDevKeepsItsDirectory(t *testing.T) {
	dir, base := t.TempDir(), fmt.Sprint(freePortBase(t, 1))
	for range 2 {
		welcome, stop := startDev(t, "--dir", dir, "--nodes=1", "--port-base", base)
		if !strings.Contains(welcome, "1 node serves. Its data is in "+dir+", which is kept") {
			t.Errorf("got %s", welcome)
		}
		if code := stop(); code != exitDone {
			t.Errorf("got exit code %d, want 0", code)
		}
	}
}

// On a disk without room a dev cluster warns, and serves: its settings have no limit of the disk.
func TestDevOnAFullDisk(t *testing.T) {
	for _, of := range []struct {
		disk  health.Disk
		warns bool
	}{
		{health.Disk{Size: 500 << 30, Free: 40 << 30}, false}, // 92 % are used
		{health.Disk{Size: 500 << 30, Free: 3 << 30}, true},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		d := dev{
			dir: t.TempDir(), nodes: 1, portBase: freePortBase(t, 1), logLevel: "error",
			disk: func(string) (health.Disk, error) { return of.disk, nil },
		}
		var stdout, stderr strings.Builder
		printed := writes(func(p []byte) (int, error) {
			cancel() // it serves
			return stdout.Write(p)
		})
		if err := d.run(ctx, printed, &stderr); err != nil || !strings.Contains(stdout.String(), "1 node serves") {
			t.Errorf("%+v: %v, %s", of.disk, err, stdout.String())
		}
		if warns := strings.Contains(stderr.String(), "only 3072 MiB are free"); warns != of.warns {
			t.Errorf("%+v: it prints %q, want a warning: %t", of.disk, stderr.String(), of.warns)
		}
		if limit := d.configs()[0].Resources.DiskLimit; limit != 100 {
			t.Errorf("disk_limit is %d, want none", limit)
		}
	}
}

// writes is a writer.
type writes func(p []byte) (int, error)

func (w writes) Write(p []byte) (int, error) { return w(p) }

// With --tls every port speaks TLS with a certificate of the CA that the command names, and the settings require it.
func TestDevTLS(t *testing.T) {
	dir := t.TempDir()
	base := freePortBase(t, 3)
	for range 2 { // the second start makes new certificates
		welcome, stop := startDev(t, "--tls", "--dir", dir, "--port-base", fmt.Sprint(base))
		_, ca, _ := strings.Cut(welcome, "export HOLDFAST_CACERT=")
		ca, _, _ = strings.Cut(ca, "\n")
		for i := range 3 {
			at := dev{portBase: base}.address(i, 3)
			if !strings.Contains(welcome, "https://"+at+"/ui/") {
				t.Errorf("node %d: %s does not name its address", i+1, welcome)
			}
			if code, _, stderr := try(t, nil, "health", "--address", at, "--cacert", ca); code != exitDone {
				t.Errorf("node %d: health with %s: %s", i+1, ca, stderr)
			}
			if code, _, stderr := try(t, nil, "health", "--address", at); code == exitDone {
				t.Errorf("node %d answers without TLS: %s", i+1, stderr)
			}
			for port := range 5 {
				handshake(t, ca, dev{portBase: base}.address(i, port))
			}
		}
		if code := stop(); code != exitDone {
			t.Errorf("exit %d", code)
		}
	}
	configs := dev{dir: dir, nodes: 3, portBase: base}.configs()
	if err := (devCertificates{t.TempDir()}).secure(configs); err != nil {
		t.Fatal(err)
	}
	for _, c := range configs {
		if c.TLS.Nodes != secure.Require || c.TLS.Clients != secure.Require || c.TLS.HTTP != secure.Require {
			t.Errorf("node %d has TLS %+v, want it required everywhere", c.Node, c.TLS)
		}
	}
}

// handshake checks that a port shows a certificate that a CA has signed for its address.
func handshake(t *testing.T, ca, address string) {
	t.Helper()
	pem, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(pem) {
		t.Fatalf("%s holds no certificate", ca)
	}
	conn, err := tls.Dial("tcp", address, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13})
	if err != nil {
		t.Errorf("TLS with %s: %v", address, err)
		return
	}
	if err := conn.Close(); err != nil {
		t.Logf("closing the connection to %s: %v", address, err)
	}
}
