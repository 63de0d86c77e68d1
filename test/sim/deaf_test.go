package sim

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"holdfast/client"
	"holdfast/node"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
)

// TestADeafLeaderLosesNoSession: the leader receives no messages any more, neither from clients nor from nodes, while
// its own messages arrive. As on a busy machine, messages are slow too. The clients of all nodes keep their sessions,
// because each client reaches a node of the majority in time.
func TestADeafLeaderLosesNoSession(t *testing.T) {
	for name, busy := range map[string]time.Duration{
		"idle machine": 0, "busy machine": 200 * time.Millisecond,
	} {
		t.Run(name, func(t *testing.T) {
			dir := scratch(t)
			bubble.Test(t, func(t *testing.T) { deafLeader(t, dir, busy) })
		})
	}
}

func deafLeader(t *testing.T, dir string, busy time.Duration) {
	t.Helper()
	const clients, timeout = 60, 4 * time.Second
	time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
	network := simnet.New(func(string, string) time.Duration { return time.Millisecond })
	network.Seed(seedOfDeaf)
	ctx, cancel := context.WithCancel(context.Background())
	var nodes sync.WaitGroup
	defer nodes.Wait()
	defer cancel()
	names := []string{"n1", "n2", "n3"}
	var peers []config.Peer
	for i, name := range names {
		peers = append(peers, config.Peer{
			Node: session.Node(i + 1), Raft: name + ":7401", Peer: name + ":7402", Client: name + ":7400",
		})
	}
	for i, name := range names {
		cfg := config.Default()
		cfg.Auth.Mode = "none"
		cfg.Resources.DiskLimit = 100 // this machine's disk is not the test's
		cfg.Node, cfg.DataDir, cfg.Peers = peers[i].Node, filepath.Join(dir, strconv.Itoa(i)), peers
		n, err := node.New(cfg, node.Options{
			Logger: hclog.NewNullLogger(), Version: "sim", Platform: node.Platform{Network: network.Host(name)},
		})
		if err != nil {
			t.Fatal(err)
		}
		nodes.Go(func() { _ = n.Run(ctx) })
	}
	endpoints := []string{"n1:7400", "n2:7400", "n3:7400"}
	host, sessions := network.Host("c"), make([]*client.Session, clients)
	var opening sync.WaitGroup
	for i := range sessions {
		cl, err := client.New(client.Config{
			Endpoints: endpoints, Dial: host.Dial, Rand: rand.NewPCG(seedOfDeaf, uint64(i)),
		})
		if err != nil {
			t.Fatal(err)
		}
		defer cl.Close()
		opening.Go(func() {
			if sessions[i], err = cl.Open(t.Context(), client.SessionOptions{Timeout: timeout}); err != nil {
				t.Error(err)
			}
		})
	}
	opening.Wait()
	if t.Failed() {
		return
	}
	time.Sleep(5 * time.Second)
	operator := network.Host("operator")
	leader := slices.IndexFunc(names, func(n string) bool { return counter(t, operator, n, "holdfast_is_leader") == 1 })
	if leader < 0 {
		t.Fatal("no node leads")
	}
	deaf := session.Node(leader + 1)
	if servedBy(sessions, deaf) == 0 {
		t.Fatalf("no client is at node %d, which leads", deaf)
	}
	all := append([]string{"c"}, names...)
	for _, from := range all {
		for _, to := range all {
			if from != to {
				network.Slow(from, to, 0, busy)
			}
		}
		if from != names[leader] {
			network.Cut(from, names[leader])
		}
	}
	begun, away := time.Now(), make([]time.Duration, clients)
	for time.Since(begun) < 30*time.Second {
		for i, s := range sessions {
			if s.State() != client.StateConnected {
				away[i] = time.Since(begun)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	expired := 0
	for _, s := range sessions {
		if s.Err() != nil {
			expired++
		}
	}
	slices.Sort(away)
	t.Logf("messages take up to %v longer: half of the clients are safe again after %v, the last one after %v", busy,
		away[clients/2], away[clients-1])
	if expired > 0 {
		t.Errorf("%d of %d sessions of living clients have ended", expired, clients)
	}
	if n := back(sessions); n != clients {
		t.Errorf("%d of %d clients are connected", n, clients)
	}
	if n := servedBy(sessions, deaf); n != 0 {
		t.Errorf("%d clients are still at node %d, which receives nothing", n, deaf)
	}
	if !slices.ContainsFunc(names, func(n string) bool {
		return n != names[leader] && counter(t, operator, n, "holdfast_is_leader") == 1
	}) {
		t.Errorf("no node but %d leads", deaf)
	}
}

// servedBy returns how many of the sessions a node serves.
func servedBy(sessions []*client.Session, owner session.Node) (n int) {
	for _, s := range sessions {
		if s.Owner() == owner {
			n++
		}
	}
	return n
}

// seedOfDeaf seeds the clients and the network.
const seedOfDeaf = 7
