package system

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"holdfast/test/loopback"
	"holdfast/test/proc"
)

// Etcd is a build of etcd's server with its default settings.
type Etcd struct {
	// Program is the path of the server.
	Program string
}

// Name is that of the column.
func (Etcd) Name() string { return "etcd" }

// Start starts the servers.
func (e Etcd) Start(ctx context.Context, dir string, size int) (Cluster, error) {
	program, err := filepath.Abs(e.Program)
	if err != nil {
		return nil, err
	}
	at, err := loopback.Own(2 * size)
	if err != nil {
		return nil, err
	}
	var members []string
	for i := range size {
		members = append(members, fmt.Sprintf("n%d=http://%s", i+1, at[2*i+1]))
	}
	c := &etcdCluster{program: program, conns: map[int]*grpc.ClientConn{}}
	if c.servers, err = start(dir, size, func(i int, own string) (proc.Spec, error) {
		url, peer := "http://"+at[2*i], "http://"+at[2*i+1]
		c.addresses = append(c.addresses, at[2*i])
		return proc.Spec{Name: "etcd", Dir: own, Args: []string{
			program, "--name", fmt.Sprintf("n%d", i+1), "--data-dir", filepath.Join(own, "data"),
			"--listen-client-urls", url, "--advertise-client-urls", url,
			"--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--log-level", "warn",
		}}, nil
	}); err != nil {
		return nil, err
	}
	c.healthy = c.serves
	return c, c.serve(ctx)
}

// etcdCluster is a cluster of etcd.
type etcdCluster struct {
	servers
	program   string
	addresses []string
	mu        sync.Mutex
	// conns are for questions to the servers, not for load; guarded by mu.
	conns map[int]*grpc.ClientConn
}

func (c *etcdCluster) serves(ctx context.Context) error {
	for _, a := range c.addresses {
		if _, err := get(ctx, "http://"+a+"/health"); err != nil {
			return err
		}
	}
	return nil
}

func (c *etcdCluster) conn(i int) (*grpc.ClientConn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if conn := c.conns[i]; conn != nil {
		return conn, nil
	}
	conn, err := etcdDial(c.addresses[i])
	if err == nil {
		c.conns[i] = conn
	}
	return conn, err
}

// Leader asks the servers.
func (c *etcdCluster) Leader(ctx context.Context) (int, error) {
	for i := range c.addresses {
		conn, err := c.conn(i)
		if err != nil {
			return 0, err
		}
		bound, cancel := context.WithTimeout(ctx, time.Second)
		self, leader, err := etcdStatus(bound, conn)
		cancel()
		if err == nil && self == leader {
			return i, nil
		}
	}
	return 0, errors.New("no server leads")
}

// Connect makes a client of one server.
func (c *etcdCluster) Connect(ctx context.Context, server int) (Conn, error) {
	return newEtcdConn(ctx, c.addresses[server])
}

// Contest starts a process with clients of etcd's own module and its recipe, package concurrency.
func (c *etcdCluster) Contest(ctx context.Context, servers []int) (Contest, error) {
	return runProgram(ctx, []string{c.program, "contend"}, places(c.addresses, servers))
}

// Entries asks the leader.
func (c *etcdCluster) Entries(ctx context.Context) (uint64, error) {
	leader, err := c.Leader(ctx)
	if err != nil {
		return 0, err
	}
	conn, err := c.conn(leader)
	if err != nil {
		return 0, err
	}
	return etcdIndex(ctx, conn)
}

// Live reads the servers' metrics.
func (c *etcdCluster) Live(ctx context.Context) (int64, error) {
	var urls []string
	for _, a := range c.addresses {
		urls = append(urls, "http://"+a+"/metrics")
	}
	return liveHeaps(ctx, urls)
}

// Stop ends the servers.
func (c *etcdCluster) Stop() {
	c.mu.Lock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.mu.Unlock()
	c.servers.Stop()
}

func etcdDial(address string) (*grpc.ClientConn, error) {
	return grpc.NewClient("passthrough:///"+address, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithNoProxy(), grpc.WithDefaultCallOptions(grpc.ForceCodecV2(rawCodec{})))
}
