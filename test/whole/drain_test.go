package whole_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/client"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/test/sim/simnet"
	"holdfast/test/whole"
)

// drained waits until a node has no client left to wait for.
func (f *fleet) drained(cl *client.Client, i int) client.Drain {
	f.t.Helper()
	for range 200 {
		st, err := cl.Status(f.t.Context(), f.peers[i].Client)
		if err != nil || st.Drain == nil {
			f.t.Fatalf("status of node %d: %+v, %v", i+1, st.Drain, err)
		}
		if st.Drain.Done {
			return *st.Drain
		}
		time.Sleep(100 * time.Millisecond)
	}
	f.t.Fatalf("node %d is not drained", i+1)
	return client.Drain{}
}

func (f *fleet) client(host string, endpoints ...string) *client.Client {
	f.t.Helper()
	cl, err := client.New(client.Config{Endpoints: endpoints, Dial: f.net.Host(host).Dial})
	if err != nil {
		f.t.Fatal(err)
	}
	return cl
}

// The leader is drained: another node leads, the sessions move to the others without losing a promise, and none comes
// back until the node is undrained. Remaining sessions can still be touched, and health reports that the node accepts
// no clients.
func TestDrain(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		i := f.leader()
		node, at := f.peers[i].Node, f.peers[i].Client
		admin := f.client("admin", f.endpoints()...)
		defer func() { _ = admin.Close() }()
		var sessions []*client.Session
		for j := range 8 {
			cl := f.client("c"+string(rune('0'+j)), at) // the clients learn the other addresses
			defer func() { _ = cl.Close() }()
			one, err := cl.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
			if err != nil {
				t.Fatal(err)
			}
			sessions = append(sessions, one)
		}
		time.Sleep(2 * time.Second)
		if d, err := admin.DrainNode(t.Context(), at, node, false); err != nil || d.Since.IsZero() {
			t.Fatalf("drain: %+v, %v", d, err)
		}
		d := f.drained(admin, i)
		if d.Leads || d.Sessions > 0 || time.Since(d.Since) > 2*time.Second {
			t.Errorf("drained after %v: %+v", time.Since(d.Since), d)
		}
		owners := map[session.Node]int{}
		for j, s := range sessions {
			owners[s.Owner()]++
			if s.SafeUntil().IsZero() || s.Context().Err() != nil {
				t.Errorf("session %d has lost its promise", j)
			}
		}
		if owners[node] > 0 {
			t.Errorf("sessions by node: %v, want none on the drained one", owners)
		}
		// A client that only knows this node is sent to the others.
		lost := f.client("lost", at)
		defer func() { _ = lost.Close() }()
		s, err := lost.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil || s.Owner() == node {
			t.Errorf("open through the drained node: %v on node %d", err, s.Owner())
		}
		if status, reported := f.healthz(i), f.draining(i); status != http.StatusServiceUnavailable || reported != 1 {
			t.Errorf("healthz answers %d, and draining is %d", status, reported)
		}
		was, err := admin.UndrainNode(t.Context(), at, node)
		if !was || err != nil {
			t.Errorf("undrain: %v, %v", was, err)
		}
		time.Sleep(time.Second)
		if status, reported := f.healthz(i), f.draining(i); status != http.StatusOK || reported != 0 {
			t.Errorf("healthz answers %d after undrain, and draining is %d", status, reported)
		}
		comer := f.client("back", at)
		defer func() { _ = comer.Close() }()
		back, err := comer.Open(t.Context(), client.SessionOptions{Timeout: 10 * time.Second})
		if err != nil || back.Owner() != node {
			t.Errorf("open after undrain: %v", err)
		}
	})
}

// A drain is refused, with the reason, when the others could not do without the node. With force it starts.
func TestDrainIsRefused(t *testing.T) {
	refused := func(t *testing.T, cl *client.Client, f *fleet, i int, want string) {
		t.Helper()
		_, err := cl.DrainNode(t.Context(), f.peers[i].Client, f.peers[i].Node, false)
		if !errors.Is(err, session.ErrDrainRefused) || !strings.Contains(err.Error(), want) {
			t.Errorf("drain of node %d: %v, want %q", i+1, err, want)
		}
	}
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 3)
		defer f.end()
		admin := f.client("admin", f.endpoints()...)
		defer func() { _ = admin.Close() }()
		if _, err := admin.DrainNode(t.Context(), f.peers[0].Client, 2, false); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("drain of node 2 through node 1: %v", err)
		}
		time.Sleep(2 * time.Second)
		if _, err := admin.DrainNode(t.Context(), f.peers[0].Client, 1, false); err != nil {
			t.Fatal(err)
		}
		refused(t, admin, f, 1, "node 1 is being drained") // it does not know that yet
		f.drained(admin, 0)
		if _, err := admin.UndrainNode(t.Context(), f.peers[0].Client, 1); err != nil {
			t.Fatal(err)
		}
		// Node 2 does not know that yet.
		if _, err := admin.DrainNode(t.Context(), f.peers[1].Client, 2, false); err != nil {
			t.Errorf("right after another node was undrained: %v", err)
		}
		if _, err := admin.UndrainNode(t.Context(), f.peers[1].Client, 2); err != nil {
			t.Fatal(err)
		}
		f.stop(2)
		time.Sleep(5 * time.Second)
		refused(t, admin, f, 0, "node 3 is not responding")
		if _, err := admin.DrainNode(t.Context(), f.peers[0].Client, 1, true); err != nil {
			t.Errorf("with force: %v", err)
		}
		f.nodes[2] = f.start(2)
	})
	bubble.Test(t, func(t *testing.T) {
		f := simulated(t, 1)
		defer f.end()
		admin := f.client("admin", f.endpoints()...)
		defer func() { _ = admin.Close() }()
		refused(t, admin, f, 0, "without it 0 remain")
	})
}

// healthz returns the status of a node's page.
func (f *fleet) healthz(i int) int {
	f.t.Helper()
	web, url := f.page(i, "healthz")
	answer, err := web.Get(url) //nolint:noctx // nothing waits
	if err != nil {
		f.t.Fatal(err)
	}
	_ = answer.Body.Close()
	return answer.StatusCode
}

// draining returns the metric of node i that says whether it is being drained.
func (f *fleet) draining(i int) int {
	f.t.Helper()
	web, url := f.page(i, "metrics")
	value, err := whole.Metric(web, url, "holdfast_draining")
	if err != nil {
		f.t.Fatal(err)
	}
	return value
}

// page returns where a page of node i's HTTP port is, and a client that reaches it.
func (f *fleet) page(i int, name string) (web *http.Client, url string) {
	host := strings.TrimSuffix(f.peers[i].Client, ":7400")
	return whole.Browser(f.net.Host("probe")), "http://" + host + ":7403/" + name
}

// A drain begins within seconds, however rare heartbeats are.
func TestADrainDoesNotWaitForRareHeartbeats(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(session.Epoch().AddDate(0, 6, 0))) // a bubble's clock starts in 2000
		f := &fleet{
			t: t, dir: t.TempDir(), net: simnet.New(func(string, string) time.Duration { return time.Millisecond }),
			configure: func(_ int, cfg *config.Config) {
				cfg.Sessions.HeartbeatInterval, cfg.Sessions.MinTimeout = 10*time.Second, 40*time.Second
			},
		}
		for i := range 3 {
			f.peers = append(f.peers, whole.PeerOf(i))
		}
		f.begin()
		defer f.end()
		admin := f.client("admin", f.endpoints()...)
		defer func() { _ = admin.Close() }()
		time.Sleep(time.Minute)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		if _, err := admin.DrainNode(ctx, f.peers[0].Client, 1, false); err != nil {
			t.Errorf("draining: %v", err)
		}
	})
}
