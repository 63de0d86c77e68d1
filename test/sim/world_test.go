package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/node"
	"holdfast/session"
	"holdfast/test/sim/history"
	"holdfast/test/sim/simnet"
)

// world is one simulated cluster with its network, its disks and its record.
type world struct {
	*simnet.Network
	t       *testing.T
	seed    uint64
	dir     string
	record  *history.Recorder
	names   []string
	clients []string

	logs *logBuffer

	mu    sync.Mutex
	lives map[string]*process        // guarded by mu; the present or last process of a node
	ended map[session.ID]struct{}    // guarded by mu; sessions whose end some node has applied
	wake  chan struct{}              // guarded by mu; closed and replaced when ended grows
	seen  map[string]map[uint64]bool // guarded by mu; indexes a node applied whose digest is not recorded yet
}

// process is one life of a node.
type process struct {
	node   *node.Node
	cancel context.CancelFunc
	done   chan struct{}
	killed bool
}

// newWorld makes a cluster of nodes nodes whose wiring is the production's, and does not start it.
func newWorld(t *testing.T, seed uint64, nodes int) *world {
	t.Helper()
	w := &world{
		Network: simnet.New(latencies(seed)),
		t:       t,
		seed:    seed,
		dir:     t.TempDir(),
		record:  history.NewRecorder(),
		logs:    &logBuffer{},
		lives:   make(map[string]*process),
		ended:   make(map[session.ID]struct{}),
		wake:    make(chan struct{}),
		seen:    make(map[string]map[uint64]bool),
	}
	for i := range nodes {
		w.names = append(w.names, fmt.Sprintf("n%d", i+1))
	}
	return w
}

// latencies gives each link a latency of its own, 0.1 to 3 ms.
func latencies(seed uint64) func(from, to string) time.Duration {
	return func(from, to string) time.Duration {
		h := seed
		for _, c := range from + ">" + to {
			h = (h ^ uint64(c)) * 1099511628211
		}
		return 100*time.Microsecond + time.Duration(h%2900)*time.Microsecond
	}
}

// stream returns a random source of its own for each user of the seed.
func (w *world) stream(name string) *rand.Rand {
	var h uint64 = 14695981039346656037
	for _, c := range name {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return rand.New(rand.NewPCG(w.seed, h))
}

func (w *world) config(name string) node.Config {
	cfg := node.DefaultConfig()
	cfg.ClusterID = "sim"
	cfg.DataDir = filepath.Join(w.dir, name)
	for i, n := range w.names {
		cfg.Peers = append(cfg.Peers, node.Peer{Node: session.Node(i + 1), Raft: n + ":7401", Peer: n + ":7402", Client: n + ":7400"})
		if n == name {
			cfg.Node = session.Node(i + 1)
		}
	}
	// A killed node's network is gone, so nothing of its orderly stop gets out. Raft ends when its last dial has.
	cfg.ShutdownTimeout = 5 * time.Second
	// Odd seeds take snapshots often enough that followers are restored from them.
	if w.seed%2 == 1 {
		cfg.SnapshotInterval, cfg.SnapshotThreshold, cfg.TrailingLogs = 5*time.Second, 20, 4
	}
	return cfg
}

// Start starts a node on its directory.
func (w *world) Start(name string) {
	w.mu.Lock()
	former := w.lives[name]
	w.mu.Unlock()
	if former != nil {
		<-former.done
	}
	ctx, cancel := context.WithCancel(context.Background())
	p := &process{cancel: cancel, done: make(chan struct{})}
	n, err := node.New(w.config(name), node.Options{
		Logger:  w.logs.logger(name),
		Network: w.Host(name),
		Version: "sim",
		Applied: func(index, term uint64, changes []session.Change) { w.applied(name, index, term, changes) },
	})
	if err != nil {
		cancel()
		close(p.done)
		w.t.Errorf("start %s: %v", name, err)
		return
	}
	p.node = n
	w.mu.Lock()
	w.lives[name] = p
	w.mu.Unlock()
	go func() {
		defer close(p.done)
		err := n.Run(ctx)
		w.mu.Lock()
		defer w.mu.Unlock()
		if err != nil && !p.killed {
			w.t.Errorf("%s ended at %v: %v", name, w.record.Now(), err)
		} else if errors.Is(err, context.DeadlineExceeded) {
			w.t.Errorf("%s did not come to an end within %v: %v", name, w.config(name).ShutdownTimeout, err)
		}
	}()
}

// Kill ends a node's process: first its network, so that nothing it does on its way out reaches anybody.
func (w *world) Kill(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	p := w.lives[name]
	if p == nil || p.killed {
		return false
	}
	p.killed = true
	w.Network.Kill(name)
	p.cancel()
	return true
}

// stop ends all nodes and waits for them.
func (w *world) stop() {
	w.mu.Lock()
	var all []*process
	for _, p := range w.lives {
		p.killed = true // what goes wrong on the way out of a test is no finding
		p.cancel()
		all = append(all, p)
	}
	w.mu.Unlock()
	for _, p := range all {
		<-p.done
	}
}

// Nodes, Clients and Leader implement faults.Cluster.
func (w *world) Nodes() []string { return w.names }

func (w *world) Clients() []string { return w.clients }

func (w *world) Leader() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.names {
		if p := w.lives[name]; p != nil && !p.killed && p.node.Leads() {
			return name
		}
	}
	return ""
}

// endpoints are the client addresses of all nodes.
func (w *world) endpoints() []string {
	var addresses []string
	for _, n := range w.names {
		addresses = append(addresses, n+":7400")
	}
	return addresses
}

// applied records what a node applied.
func (w *world) applied(name string, index, term uint64, changes []session.Change) {
	w.mu.Lock()
	if w.seen[name] == nil {
		w.seen[name] = make(map[uint64]bool)
	}
	w.seen[name][index] = true
	w.mu.Unlock()
	for _, c := range changes {
		e := history.Event{
			Who: name, ID: c.Session.ID, Attachment: c.Session.Attachment, Timeout: c.Session.Timeout, Index: index, Term: term,
			Text: fmt.Sprintf("owner %d", c.Session.Owner),
		}
		switch c.Kind {
		case session.Opened:
			e.Kind = history.AppliedOpen
		case session.Moved:
			e.Kind = history.AppliedMove
		case session.Ended:
			certificate := c.Certificate
			e.Kind, e.Cause, e.Certificate = history.AppliedEnd, c.Certificate.Cause, &certificate
			w.end(c.Session.ID)
		}
		w.record.Add(e)
	}
}

func (w *world) end(id session.ID) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended[id] = struct{}{}
	close(w.wake)
	w.wake = make(chan struct{})
}

// awaitEnd waits until some node has applied the end of id; false when ctx ended first.
func (w *world) awaitEnd(ctx context.Context, id session.ID) bool {
	for {
		w.mu.Lock()
		_, ok := w.ended[id]
		wake := w.wake
		w.mu.Unlock()
		if ok {
			return true
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return false
		}
	}
}

// sample records the digests of what the nodes have applied since the last time.
func (w *world) sample() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range w.names {
		p := w.lives[name]
		if p == nil || p.killed {
			continue
		}
		for index := range w.seen[name] {
			if digest, ok := p.node.Digest(index); ok {
				w.record.Add(history.Event{Kind: history.Digest, Who: name, Index: index, Text: fmt.Sprintf("%x", digest)})
			}
		}
		clear(w.seen[name])
	}
}

// logBuffer keeps the logs of all nodes and clients for a run that fails.
type logBuffer struct {
	mu    sync.Mutex
	bytes bytes.Buffer // guarded by mu
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.bytes.String()
}

// logger returns the logger of a host. SIM_LOG sets the level; default info.
func (b *logBuffer) logger(name string) hclog.Logger {
	level := hclog.LevelFromString(os.Getenv("SIM_LOG"))
	if level == hclog.NoLevel {
		level = hclog.Info
	}
	return hclog.New(&hclog.LoggerOptions{Name: name, Level: level, Output: b, TimeFormat: "15:04:05.000"})
}

// tail returns the last lines of the logs.
func (b *logBuffer) tail(lines int) string {
	all := strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
	return strings.Join(all[max(len(all)-lines, 0):], "\n")
}
