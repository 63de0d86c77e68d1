//go:build e2e

package e2e

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/test/timeout"
)

// watcher returns a client of nodes for status requests. It holds no sessions.
func (c *cluster) watcher(nodes ...int) *client.Client {
	c.t.Helper()
	w, err := client.New(c.config(nodes...))
	timeout.Check(c.t, err)
	c.t.Cleanup(func() { w.Close() })
	return w
}

// config returns the configuration of a client of nodes.
func (c *cluster) config(nodes ...int) client.Config {
	return client.Config{Endpoints: c.endpoints(nodes...), TLS: c.speaks}
}

// endpoints returns the addresses of nodes.
func (c *cluster) endpoints(nodes ...int) []string {
	var all []string
	for _, n := range nodes {
		all = append(all, c.address(n))
	}
	return all
}

// status asks node n alone for its status.
func (c *cluster) status(n int) (client.Status, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	w, err := client.New(c.config(n))
	if err != nil {
		return client.Status{}, err
	}
	defer w.Close()
	return w.Status(ctx, c.address(n))
}

// awaitBusy waits until all of nodes serve and follow one leader. While clients write, nodes are asked at different
// indexes, so that their digests say nothing.
func (c *cluster) awaitBusy(d time.Duration, nodes ...int) (leads int) {
	c.t.Helper()
	var leader session.Node
	c.await(d, fmt.Sprintf("nodes %v serve", nodes), func() (bool, string) {
		leader = 0
		for _, n := range nodes {
			s, err := c.status(n)
			switch {
			case err != nil:
				return false, err.Error()
			case !s.Ready || s.Leader == 0 || leader != 0 && leader != s.Leader:
				return false, fmt.Sprintf("node %d: %+v", n, s)
			}
			leader = s.Leader
		}
		return true, ""
	})
	return int(leader)
}

// awaitServing waits until nodes serve, know the same leader and have applied the same state. It returns the leader.
func (c *cluster) awaitServing(d time.Duration, nodes ...int) (leader int) {
	c.t.Helper()
	c.await(d, fmt.Sprintf("nodes %v serve", nodes), func() (bool, string) {
		leader = 0
		digests := make(map[uint64]string)
		for _, n := range nodes {
			s, err := c.status(n)
			if err != nil {
				return false, err.Error()
			}
			if !s.Ready || s.Leader == 0 || leader != 0 && leader != int(s.Leader) {
				return false, fmt.Sprintf("node %d: %+v", n, s)
			}
			leader = int(s.Leader)
			if digest, ok := digests[s.AppliedIndex]; ok && digest != s.StateDigest {
				c.t.Errorf("I6: node %d has digest %s at index %d, another has %s", n, s.StateDigest, s.AppliedIndex,
					digest)
			}
			digests[s.AppliedIndex] = s.StateDigest
		}
		return slices.Contains(nodes, leader) && len(digests) == 1,
			fmt.Sprintf("leader %d, digests %v", leader, digests)
	})
	return leader
}

// awaitLeader waits until one of nodes leads in the view of all of them, whatever other nodes say.
func (c *cluster) awaitLeader(d time.Duration, nodes ...int) (leader int) {
	c.t.Helper()
	c.await(d, fmt.Sprintf("one of nodes %v leads", nodes), func() (bool, string) {
		var last string
		for _, n := range nodes {
			s, err := c.status(n)
			if err == nil && s.Role == "leader" && s.Ready {
				leader = n
				return true, ""
			}
			last = fmt.Sprintf("node %d: %+v %v", n, s, err)
		}
		return false, last
	})
	return leader
}

// awaitNoSessions waits until everything that a former test has left has expired.
func (c *cluster) awaitNoSessions() {
	c.t.Helper()
	c.await(time.Minute, "no session is left", func() (bool, string) {
		s, err := c.status(1)
		return err == nil && s.Global == 0, fmt.Sprintf("%d sessions, %v", s.Global, err)
	})
}

// metric returns a metric of node n.
func (c *cluster) metric(n int, name string) float64 {
	c.t.Helper()
	scheme, caller := "http", http.DefaultClient
	if c.speaks != nil {
		scheme, caller = "https", &http.Client{Transport: &http.Transport{TLSClientConfig: c.asCaller(c.speaks)}}
	}
	address := fmt.Sprintf("%s://127.0.0.1:%d%d3/metrics", scheme, c.ports, n)
	request, err := http.NewRequestWithContext(c.t.Context(), http.MethodGet, address, http.NoBody)
	timeout.Check(c.t, err)
	request.Close = true // a kept connection may lead to a node that was killed since
	response, err := caller.Do(request)
	timeout.Check(c.t, err)
	defer response.Body.Close()
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if text, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			value, err := strconv.ParseFloat(text, 64)
			timeout.Check(c.t, err)
			return value
		}
	}
	c.t.Fatalf("node %d has no metric %s", n, name)
	return 0
}

// find returns what any of nodes knows of a session.
func (c *cluster) find(id session.ID, nodes ...int) (client.Found, error) {
	ctx, cancel := context.WithTimeout(context.Background(), healWithin)
	defer cancel()
	return c.watcher(nodes...).Get(ctx, id)
}
