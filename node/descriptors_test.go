package node

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"

	"holdfast/transport/dial"
)

// fewDescriptors is set in the process of a node that may open few files: how many.
const fewDescriptors = "HOLDFAST_TEST_DESCRIPTORS"

// TestFewDescriptors: strangers on every port leave a node the files that it needs for health, its disk, and clients.
// With 200 descriptors health hung, and snapshots failed.
func TestFewDescriptors(t *testing.T) {
	if limit := os.Getenv(fewDescriptors); limit != "" {
		nodeOfFewDescriptors(t, limit)
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestFewDescriptors$", "-test.v")
	child.Env = append(os.Environ(), fewDescriptors+"=200")
	child.Stderr = os.Stderr
	commands, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err = child.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() {
		cancel()
		_ = child.Wait() // it was killed
	}()
	lines := bufio.NewScanner(out)
	said := func(prefix string) string {
		t.Helper()
		for lines.Scan() {
			if rest, ok := strings.CutPrefix(lines.Text(), prefix); ok {
				return rest
			}
		}
		t.Fatalf("the node's process ended before it said %q", prefix)
		return ""
	}
	var client, raftPort, peer, web string
	if _, err = fmt.Sscan(said("serves "), &client, &raftPort, &peer, &web); err != nil {
		t.Fatal(err)
	}
	for address, n := range map[string]int{client: 400, raftPort: 200, peer: 200, web: 200} {
		tries := 1
		for ; tries < 5 && !makesRoom(t, address, n); tries++ { // a busy machine can hold up all of a try
		}
		if tries == 5 {
			t.Errorf("%s: an early stranger did not make room for later ones", address)
		}
	}
	getter := http.Client{Timeout: time.Minute}
	answer, err := getter.Get("http://" + web + "/healthz")
	if err != nil {
		t.Fatalf("health: %v", err)
	}
	body, _ := io.ReadAll(answer.Body)
	answer.Body.Close()
	if got := string(body); got != "ok\n" {
		t.Errorf("health says %q", got)
	}
	cc, err := dial.Client(client, dial.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer cc.Close()
	if _, err := healthpb.NewHealthClient(cc).Check(ctx, &healthpb.HealthCheckRequest{},
		grpc.WaitForReady(true)); err != nil {
		t.Errorf("a client: %v", err)
	}
	if _, err := io.WriteString(commands, "snapshot\n"); err != nil {
		t.Fatal(err)
	}
	if got := said("snapshot "); got != "<nil>" {
		t.Errorf("a snapshot: %s", got)
	}
}

// makesRoom connects so many strangers to a port, and reports whether an early one makes room for later ones. A port
// that does not know its share of the descriptors keeps them all, and ends them together after 5 s.
func makesRoom(t *testing.T, address string, n int) bool {
	t.Helper()
	strangers := make([]net.Conn, n)
	for i := range strangers {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		strangers[i] = conn
	}
	return endsWithin(t, strangers[n*4/5], time.Minute) && !endsWithin(t, strangers[n-1], time.Second/2)
}

// endsWithin reports whether the other side ends a connection within so long.
func endsWithin(t *testing.T, conn net.Conn, wait time.Duration) bool {
	t.Helper()
	if err := conn.SetReadDeadline(time.Now().Add(wait)); err != nil {
		t.Fatal(err)
	}
	_, err := io.Copy(io.Discard, conn)
	return !errors.Is(err, os.ErrDeadlineExceeded)
}

// nodeOfFewDescriptors runs a node until its process is killed.
func nodeOfFewDescriptors(t *testing.T, limit string) {
	t.Helper()
	var l syscall.Rlimit
	if _, err := fmt.Sscan(limit, &l.Max); err != nil {
		t.Fatal(err)
	}
	l.Cur = l.Max / 2 // the node raises it
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &l); err != nil {
		t.Fatal(err)
	}
	c := alone(t)
	n := start(t, c)
	fmt.Println("serves", c.Listen.Client, c.Listen.Raft, c.Listen.Peer, c.Listen.HTTP)
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		fmt.Println("snapshot", n.consensus.Raft.Snapshot().Error())
	}
}
