package system

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/test/loopback"
	"holdfast/test/proc"
	"holdfast/transport/dial"
)

// ports of a node: clients, Raft, peers, HTTP, ZooKeeper's clients.
const (
	clients = iota
	raft
	peers
	operators
	zoo
	perNode
)

// Holdfast is a build of Holdfast, spoken to over bare Connect streams.
type Holdfast struct {
	// Column is the name in the results.
	Column string
	// Node is the path of bin/node.
	Node string
}

// Name is that of the column.
func (h Holdfast) Name() string { return h.Column }

// Start starts the nodes.
func (h Holdfast) Start(ctx context.Context, dir string, size int) (Cluster, error) {
	return h.start(ctx, dir, size, nil)
}

// start starts the nodes. more returns the arguments that the i-th has besides its own, if it is not nil.
func (h Holdfast) start(ctx context.Context, dir string, size int, more func(n *nodes, i int) []string) (*nodes, error) {
	program, err := filepath.Abs(h.Node)
	if err != nil {
		return nil, err
	}
	at, err := loopback.Own(size * perNode)
	if err != nil {
		return nil, err
	}
	n := &nodes{ports: at, conns: map[int]*grpc.ClientConn{}}
	if n.servers, err = start(dir, size, func(i int, own string) (proc.Spec, error) {
		args := []string{
			program, "run", "--node", fmt.Sprint(i + 1), "--data-dir", filepath.Join(own, "data"),
			"--peers", n.peers(), "--log-level", "warn", "--client-listen", n.address(i, clients),
			"--raft-listen", n.address(i, raft), "--peer-listen", n.address(i, peers),
			"--http-listen", n.address(i, operators),
		}
		if more != nil {
			args = append(args, more(n, i)...)
		}
		return proc.Spec{Name: "node", Dir: own, Args: args}, nil
	}); err != nil {
		return nil, err
	}
	n.healthy = n.serves
	if err := n.serve(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

// nodes are a cluster of Holdfast.
type nodes struct {
	servers
	ports []string
	mu    sync.Mutex
	// conns are for questions to the nodes, not for load; guarded by mu.
	conns map[int]*grpc.ClientConn
}

func (n *nodes) size() int { return len(n.ports) / perNode }

func (n *nodes) address(i, port int) string { return n.ports[i*perNode+port] }

// endpoints are the client ports of all nodes.
func (n *nodes) endpoints() []string {
	var all []string
	for i := range n.size() {
		all = append(all, n.address(i, clients))
	}
	return all
}

// peers is the setting of that name.
func (n *nodes) peers() string {
	var all []string
	for i := range n.size() {
		port := func(p int) string { return n.address(i, p)[strings.LastIndexByte(n.address(i, p), ':'):] }
		all = append(all, fmt.Sprintf("%d=127.0.0.1%s%s@%s", i+1, port(raft), port(peers), n.address(i, clients)))
	}
	return strings.Join(all, ",")
}

// serves returns nil once all nodes are ready.
func (n *nodes) serves(ctx context.Context) error {
	for i := range n.size() {
		if _, err := get(ctx, "http://"+n.address(i, operators)+"/healthz"); err != nil {
			return err
		}
	}
	return nil
}

// Leader asks the nodes.
func (n *nodes) Leader(ctx context.Context) (int, error) {
	var failed error
	for i := range n.size() {
		status, err := n.status(ctx, i)
		if err == nil && status.GetRole() == holdfastv1.Role_ROLE_LEADER {
			return i, nil
		}
		failed = errors.Join(failed, err)
	}
	return 0, errors.Join(errors.New("no node leads"), failed)
}

// Term asks the nodes. A stopped node does not answer.
func (n *nodes) Term(ctx context.Context) (newest uint64, err error) {
	answered := false
	var failed error
	for i := range n.size() {
		status, err := n.status(ctx, i)
		answered = answered || err == nil
		newest, failed = max(newest, status.GetTerm()), errors.Join(failed, err)
	}
	if !answered {
		return 0, fmt.Errorf("ask for the term: %w", failed)
	}
	return newest, nil
}

func (n *nodes) status(ctx context.Context, i int) (*holdfastv1.GetStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	n.mu.Lock()
	conn := n.conns[i]
	if conn == nil {
		var err error
		if conn, err = dial.Client(n.address(i, clients), dial.Options{}); err != nil {
			n.mu.Unlock()
			return nil, err
		}
		n.conns[i] = conn
	}
	n.mu.Unlock()
	return holdfastv1.NewClusterServiceClient(conn).GetStatus(ctx, &holdfastv1.GetStatusRequest{})
}

// Connect opens a Connect stream on a connection of its own.
func (n *nodes) Connect(ctx context.Context, server int) (Conn, error) {
	return Dial(ctx, n.address(server, clients))
}

// Live reads the nodes' metrics.
func (n *nodes) Live(ctx context.Context) (int64, error) {
	var urls []string
	for i := range n.size() {
		urls = append(urls, "http://"+n.address(i, operators)+"/metrics")
	}
	return liveHeaps(ctx, urls)
}

// Stop ends the nodes.
func (n *nodes) Stop() {
	n.mu.Lock()
	for _, conn := range n.conns {
		_ = conn.Close()
	}
	n.mu.Unlock()
	n.servers.Stop()
}

// get returns the body of a page.
func get(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return "", err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = answer.Body.Close() }()
	var body strings.Builder
	if _, err := copyTo(&body, answer.Body); err != nil {
		return "", err
	}
	if answer.StatusCode != http.StatusOK {
		return "", fmt.Errorf("%s: %s: %s", url, answer.Status, strings.TrimSpace(body.String()))
	}
	return body.String(), nil
}
