package sim

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
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

// TestSettingsHoldAHerd runs whole nodes and clients, with production's wiring and gRPC between them. All connections
// break, one node is gone, and all sessions return at the rate that the settings allow. The herd in the client's own
// tests is a thousand times as large, and leaves gRPC out.
func TestSettingsHoldAHerd(t *testing.T) {
	const clients, perSecond = 60, 10
	dir := scratch(t)
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
		network := simnet.New(func(string, string) time.Duration { return time.Millisecond })
		ctx, cancel := context.WithCancel(context.Background())
		var nodes sync.WaitGroup
		defer nodes.Wait()
		defer cancel()
		endpoints := []string{"n1:7400", "n2:7400", "n3:7400"}
		for i := range endpoints {
			cfg := config.Default()
			cfg.Auth.Mode = "none"
			cfg.Resources.DiskLimit = 100 // the disk of this machine is not the test's
			cfg.Node, cfg.DataDir = session.Node(i+1), filepath.Join(dir, strconv.Itoa(i))
			cfg.RateLimits.MaxOpensPerSecond, cfg.RateLimits.MaxResumesPerSecond = perSecond, perSecond
			for j := range endpoints {
				name := fmt.Sprintf("n%d", j+1)
				cfg.Peers = append(cfg.Peers,
					config.Peer{Node: session.Node(j + 1), Raft: name + ":7401", Peer: name + ":7402", Client: name +
						":7400"})
			}
			n, err := node.New(
				cfg, node.Options{
					Logger: hclog.NewNullLogger(), Version: "sim",
					Platform: node.Platform{Network: network.Host(fmt.Sprintf("n%d", i+1))},
				},
			)
			if err != nil {
				t.Fatal(err)
			}
			nodes.Go(func() { _ = n.Run(ctx) })
		}

		host, sessions := network.Host("c"), make([]*client.Session, clients)
		var opening sync.WaitGroup
		for i := range sessions {
			cl, err := client.New(client.Config{Endpoints: endpoints, Dial: host.Dial, Rand: rand.NewPCG(7, uint64(i))})
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			opening.Go(func() {
				if sessions[i], err = cl.Open(t.Context(),
					client.SessionOptions{Timeout: 10 * time.Second}); err != nil {
					t.Error(err)
				}
			})
		}
		opening.Wait()
		if t.Failed() {
			return
		}
		time.Sleep(5 * time.Second)

		begun := time.Now()
		network.Kill("n3")
		for _, n := range []string{"n1", "n2"} {
			network.Reset("c", n)
		}
		time.Sleep(50 * time.Millisecond)
		if back(sessions) == clients {
			t.Fatal("no connection was broken")
		}
		for back(sessions) < clients && time.Since(begun) < 20*time.Second {
			time.Sleep(10 * time.Millisecond)
		}
		took := time.Since(begun)
		// less a burst of one, and the sessions that came back since
		least := time.Duration(clients-2*2) * time.Second / (2 * perSecond)
		// the missing node may have led; docs/guarantees.md allows 20 s after a fault
		const election = 12 * time.Second
		if took < least-500*time.Millisecond || took > least+election {
			t.Errorf("all sessions were back after %v, want at least %v and at most %v more", took, least, election)
		}
		for _, s := range sessions {
			if err := s.Err(); err != nil {
				t.Errorf("session %v: %v", s.ID(), err)
			}
		}
		refused := 0
		for _, n := range []string{"n1", "n2"} {
			refused += counter(t, host, n, `holdfast_client_resumes_refused_total{limit="max_resumes_per_second"}`)
		}
		if refused < clients/2 || refused > 10*clients {
			t.Errorf("the nodes' metrics count %d refused resumes of %d clients", refused, clients)
		}
	})
}

// back counts the sessions that a node serves.
func back(sessions []*client.Session) (n int) {
	for _, s := range sessions {
		if s.State() == client.StateConnected {
			n++
		}
	}
	return n
}

// counter reads a figure of a node's metrics.
func counter(t *testing.T, from *simnet.Host, host, name string) int {
	t.Helper()
	transport := &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, address string) (net.Conn, error) {
			return from.Dial(ctx, address)
		},
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+host+":7403/metrics", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + ` (\d+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no metric %s", host, name)
	}
	v, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return v
}
