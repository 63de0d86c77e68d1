package node

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	reflectionv1 "google.golang.org/grpc/reflection/grpc_reflection_v1"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/loopback"
	"holdfast/transport/authz"
	"holdfast/transport/dial"
)

// alone is the configuration of a cluster of one node on loopback, that elects itself quickly.
func alone(tb testing.TB) config.Config {
	tb.Helper()
	at := loopback.Free(tb, 4)
	c := config.Default()
	c.Auth.Mode = authz.None
	c.Node, c.DataDir = 1, filepath.Join(tb.TempDir(), "data")
	c.Peers = []config.Peer{{Node: 1, Client: at[0], Raft: at[1], Peer: at[2]}}
	c.Listen.Client, c.Listen.Raft, c.Listen.Peer, c.Listen.HTTP = at[0], at[1], at[2], at[3]
	c.Sessions.HeartbeatInterval = 20 * time.Millisecond
	c.Raft.HeartbeatTimeout = 50 * time.Millisecond
	return c
}

func quiet() Options { return Options{Logger: hclog.NewNullLogger(), Version: "test"} }

// running is a node that runs.
type running struct {
	*Node
	stop func() error
}

// start runs a node until the test ends or stop is called, and waits for it to serve.
func start(tb testing.TB, c config.Config) running {
	tb.Helper()
	n, err := New(c, quiet())
	if err != nil {
		tb.Fatal(err)
	}
	ctx, cancel := context.WithCancel(tb.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	stopped := false
	stop := func() error {
		if stopped {
			return nil
		}
		stopped = true
		cancel()
		return <-done
	}
	tb.Cleanup(func() { _ = stop() })
	select {
	case <-n.Ready():
	case err := <-done:
		stopped = true
		tb.Fatalf("node ended: %v", err)
	case <-time.After(30 * time.Second):
		tb.Fatal("node does not serve")
	}
	return running{n, stop}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	r, err := http.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, string(body)
}

func TestServesAndKeepsItsState(t *testing.T) {
	c := alone(t)
	n := start(t, c)
	if code, body := get(t, "http://"+c.Listen.HTTP+"/healthz"); code != http.StatusOK || body != "ok\n" {
		t.Errorf("healthz: %d %q, want 200 ok", code, body)
	}
	conn, err := n.server.Connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := conn.Open(t.Context(), session.OpenRequest{
		RequestID: session.RequestID{1}, Spec: session.Spec{Timeout: 10 * time.Second}, MS: session.MS(time.Now()),
	})
	if err != nil {
		t.Fatal(err)
	}
	code, body := get(t, "http://"+c.Listen.HTTP+"/metrics")
	for _, want := range []string{
		"\nholdfast_is_leader 1\n", "\nholdfast_sessions 1\n", "\nholdfast_sessions_attached 1\n",
		"\nholdfast_ready 1\n",
	} {
		if code != http.StatusOK || !strings.Contains(body, want) {
			t.Errorf("metrics: %d without %q", code, want)
		}
	}
	status, err := n.Status(t.Context())
	if err != nil || !status.Ready || status.Leader != 1 || status.SessionsGlobal != 1 ||
		status.LeaderAddress != c.Listen.Client {
		t.Errorf("status: %+v, %v", status, err)
	}
	first := n.dir.Incarnation()
	if err = n.stop(); err != nil {
		t.Fatalf("stop: %v", err)
	}

	n = start(t, c)
	if n.dir.Incarnation() <= first {
		t.Errorf("incarnation is %d after %d (T6)", n.dir.Incarnation(), first)
	}
	if conn, err = n.server.Connect(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.TouchToken(t.Context(), granted.Token); err != nil {
		t.Errorf("touch of a session of before the restart: %v", err)
	}
	if err := conn.Close(t.Context(), granted.Token); err != nil {
		t.Errorf("close: %v", err)
	}
	if _, err := n.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); !errors.Is(err,
		session.ErrExpired) {
		t.Errorf("find after the close: %v, want ErrExpired", err)
	}
}

func TestR5TheTrackerBeginsAfterACommandOfItsOwn(t *testing.T) {
	c := alone(t)
	var n *Node
	var before bool
	var first sync.Once
	term := make(chan uint64, 1)
	o := quiet()
	o.Observers.Applied = func(_, applied uint64, _ []session.Change) {
		first.Do(func() {
			before = n.roles.Tracker() != nil
			term <- applied
		})
	}
	n, err := New(c, o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- n.Run(ctx) }()
	<-n.Ready()
	tracker := n.roles.Tracker()
	if want := <-term; before || tracker == nil || tracker.Stats().Term != want {
		t.Errorf("tracker before the first command: %v; tracker %v, want one of term %d", before, tracker, want)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestSnapshotsCarryTheStateOverARestart(t *testing.T) {
	c := alone(t)
	n := start(t, c)
	conn, err := n.server.Connect(nil)
	if err != nil {
		t.Fatal(err)
	}
	granted, err := conn.Open(t.Context(), session.OpenRequest{
		RequestID: session.RequestID{1}, Spec: session.Spec{Timeout: 10 * time.Second}, MS: session.MS(time.Now()),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err = n.consensus.Raft.Snapshot().Error(); err != nil {
		t.Fatal(err)
	}
	if err = n.stop(); err != nil {
		t.Fatal(err)
	}
	n = start(t, c)
	found, err := n.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{})
	if err != nil || found.Session.Attachment != granted.Session.Attachment {
		t.Errorf("after a restart from a snapshot: %+v, %v", found, err)
	}
}

func TestGarbageOnEveryPort(t *testing.T) {
	c := alone(t)
	n := start(t, c)
	for _, address := range []string{c.Listen.Client, c.Listen.Raft, c.Listen.Peer, c.Listen.HTTP} {
		conn, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = conn.Write([]byte(strings.Repeat("\x00\xffgarbage\r\n", 1000)))
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s keeps a connection that sends garbage", address)
		}
		conn.Close()
	}
	if err := n.server.Ready(); err != nil {
		t.Errorf("node does not serve after garbage on its ports: %v", err)
	}
}

func TestIdentityIsReadable(t *testing.T) {
	c := alone(t)
	if err := start(t, c).stop(); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(filepath.Join(c.DataDir, "identity"))
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	if err := json.Unmarshal(b, &got); err != nil || got["cluster_id"] != "holdfast" || got["node"] != float64(1) {
		t.Errorf("identity is %s (%v)", b, err)
	}
}

// A client that does not let go of a stream costs an ordered stop half of its time, and not Raft its end.
func TestStopDespiteAClientThatStays(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 1, nil)
		defer c.stop()
		n := c.leader(within)
		conn, err := dial.Client(n.name+":7400", dial.Options{Dial: c.Host("client").Dial})
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		stream, err := reflectionv1.NewServerReflectionClient(conn).ServerReflectionInfo(t.Context())
		if err != nil {
			t.Error(err)
			return
		}
		list := &reflectionv1.ServerReflectionRequest_ListServices{}
		if err = stream.Send(&reflectionv1.ServerReflectionRequest{MessageRequest: list}); err == nil {
			_, err = stream.Recv() // it is served, and stays
		}
		begun := time.Now()
		if err = errors.Join(err, c.end(n)); err != nil {
			t.Errorf("stop: %v", err)
		}
		if took := time.Since(begun); took != n.cfg.Tuning.ShutdownTimeout/2 {
			t.Errorf("stopped after %v, want %v", took, n.cfg.Tuning.ShutdownTimeout/2)
		}
		if got := n.consensus.Raft.State(); got != raft.Shutdown {
			t.Errorf("Raft is %v, want that it was shut down", got)
		}
	})
}
