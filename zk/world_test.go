package zk_test

import (
	"context"
	"net"
	"sync"
	"testing"
	"time"

	zookeeper "github.com/go-zookeeper/zk"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/test/whole"
	"holdfast/zk"
)

// world is a cluster and its clients.
type world struct {
	*whole.Cluster
	// ends end the clients.
	ends []func()
}

// run runs f in a bubble with three whole nodes that serve ZooKeeper's clients.
func run(t *testing.T, f func(c *world)) {
	t.Helper()
	runWith(t, func(*config.Config) {}, f)
}

// runWith is run with other settings.
func runWith(t *testing.T, change func(cfg *config.Config), f func(c *world)) {
	t.Helper()
	runSetup(t, whole.Setup{Change: change}, f)
}

// runSetup is run with nodes of a setup.
func runSetup(t *testing.T, setup whole.Setup, f func(c *world)) {
	t.Helper()
	change := setup.Change
	setup.Change = func(cfg *config.Config) {
		cfg.Listen.ZooKeeper = ":7404"
		cfg.Tree.Super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=" // super:test
		cfg.ZooKeeper.FourLetterCommands = "srvr,ruok,mntr,stat,cons,conf,dump,envi,isro,wchs"
		if change != nil {
			change(cfg)
		}
	}
	whole.RunSetup(t, setup, func(c *whole.Cluster) {
		w := &world{Cluster: c}
		defer func() { // while the nodes serve
			for _, end := range w.ends {
				end()
			}
		}()
		f(w)
	})
}

// hosts gives out the servers in turn: in the order in which a test names them, and in no order if it names none.
type hosts struct {
	mu      sync.Mutex
	servers []string
	// at is the next server; tried counts those since the last connection.
	at, tried int
}

func (h *hosts) Init(servers []string) error {
	if h.servers == nil {
		h.servers = servers
	}
	return nil
}

func (h *hosts) Len() int { return len(h.servers) }

func (h *hosts) Next() (server string, retryStart bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	server = h.servers[h.at%len(h.servers)]
	h.at++
	h.tried++
	return server, h.tried > len(h.servers)
}

func (h *hosts) Connected() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.tried = 0
}

// silent keeps the client from printing.
type silent struct{}

func (silent) Printf(string, ...any) {}

// dial returns an unmodified client of the Go library, on a host of its own, and its session's events.
func dial(t *testing.T, c *world, host string, timeout time.Duration, servers ...string) (
	*zookeeper.Conn, <-chan zookeeper.Event,
) {
	t.Helper()
	named := &hosts{servers: servers}
	if len(servers) == 0 {
		servers = []string{"n1:7404", "n2:7404", "n3:7404"}
	}
	conn, events, err := zookeeper.Connect(servers, timeout,
		zookeeper.WithHostProvider(named), zookeeper.WithLogger(silent{}), zookeeper.WithLogInfo(false),
		zookeeper.WithDialer(func(_, address string, within time.Duration) (net.Conn, error) {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			return c.Host(host).Dial(ctx, address)
		}))
	if err != nil {
		t.Fatal(err)
	}
	c.ends = append(c.ends, conn.Close)
	return conn, events
}

// await returns the first event of a state.
func await(t *testing.T, events <-chan zookeeper.Event, state zookeeper.State) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		select {
		case e := <-events:
			if e.State == state {
				return
			}
		case <-late:
			t.Fatalf("no event of the state %v", state)
		}
	}
}

// served returns a client that has a session on a cluster with a tree.
func served(t *testing.T, c *world, host string, timeout time.Duration, servers ...string) (
	*zookeeper.Conn, <-chan zookeeper.Event,
) {
	t.Helper()
	c.Session(sdk(t, c, host+"-sdk"), 10*time.Second)
	conn, events := dial(t, c, host, timeout, servers...)
	await(t, events, zookeeper.StateHasSession)
	return conn, events
}

// words is used by the test of the words.
var words = zk.Words

// sdk returns a client of the SDK, which ends with the test.
func sdk(t *testing.T, c *world, host string) *client.Client {
	t.Helper()
	cl := c.Client(host)
	c.ends = append(c.ends, func() { _ = cl.Close() })
	return cl
}

// apart cuts two hosts off from each other, together connects them again.
func apart(c *world, a, b string) {
	c.Cut(a, b)
	c.Cut(b, a)
}

func together(c *world, a, b string) {
	c.Heal(a, b)
	c.Heal(b, a)
}
