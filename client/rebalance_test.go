package client

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// binomial fails if got is more than five standard deviations from the mean of n draws with probability p. That happens
// by chance in one of a million runs.
func binomial(t *testing.T, what string, got, n int, p float64) {
	t.Helper()
	mean, sigma := float64(n)*p, math.Sqrt(float64(n)*p*(1-p))
	if math.Abs(float64(got)-mean) > 5*sigma {
		t.Errorf("%s: got %d, want %.0f within %.0f", what, got, mean, 5*sigma)
	}
	t.Logf("%s: %d, expected %.0f, standard deviation %.1f", what, got, mean, sigma)
}

// Clients move as UpdateServers plans, and are served all the time.
func TestUpdateServersMovesLiveClients(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		const clients = 60
		c := newFakeCluster(t, 5)
		var held []*Session
		var all []*Client
		for i := range clients {
			cl := newClientWith(t, Config{Endpoints: c.endpoints(1, 3), Dial: c.dial, Rand: rand.NewPCG(uint64(i), 9)})
			all, held = append(all, cl), append(held, mustOpen(t, cl, 12*time.Second))
		}
		owners := func() []session.Node {
			var o []session.Node
			for _, s := range held {
				o = append(o, s.Owner())
			}
			return o
		}
		update := func(to int) {
			t.Helper()
			for _, cl := range all {
				if err := cl.UpdateServers(c.endpoints(1, to)); err != nil {
					t.Fatal(err)
				}
			}
			time.Sleep(time.Second)
			synctest.Wait()
		}
		before := owners()
		update(5)
		grown, moved := owners(), 0
		for i := range grown {
			if grown[i] != before[i] {
				moved++
				if grown[i] < 4 {
					t.Errorf("a client moved from node %d to node %d, want node 4 or 5", before[i], grown[i])
				}
			}
		}
		binomial(t, "moved", moved, clients, 0.4)
		time.Sleep(20 * time.Second) // a client moves once for an update
		update(3)
		for i, o := range owners() {
			if o > 3 || grown[i] <= 3 && o != grown[i] {
				t.Errorf("a client of node %d is at node %d", grown[i], o)
			}
		}
		for _, s := range held {
			if got := kinds(s); slices.Contains(got, "lapsed") || slices.Contains(got, "disconnected") {
				t.Errorf("events %q", got)
			}
		}
	})
}

// Added servers that do not serve harm no client. A client leaves a removed server once another serves.
func TestUpdateServersWithoutSuccess(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c, cl := newTrial(t, 4, 1)
		s := mustOpen(t, cl, 12*time.Second)
		for i := 2; i <= 4; i++ {
			c.node(i).down()
		}
		for range 20 { // repeated, because each update draws at random
			if err := cl.UpdateServers(c.endpoints(1, 4)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Second)
			if err := cl.UpdateServers(c.endpoints(1, 1)); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if len(c.node(2).dialled()) == 0 || s.Owner() != 1 || s.SafeUntil().IsZero() {
			t.Errorf("dialled %v, owner %d, safe until %v", c.node(2).dialled(), s.Owner(), s.SafeUntil())
		}
		if err := cl.UpdateServers(c.endpoints(2, 3)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Second)
		if s.Err() != nil || s.SafeUntil().IsZero() || s.Owner() != 1 {
			t.Error("the removed server does not serve any more, although no other one does")
		}
		c.node(3).up()
		time.Sleep(3 * time.Second)
		synctest.Wait()
		if s.Owner() != 3 {
			t.Errorf("owner %d, want 3", s.Owner())
		}
		c.node(3).down()
		time.Sleep(time.Second)
		if err := cl.UpdateServers(c.endpoints(1, 1)); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s.Owner() != 1 || s.Err() != nil {
			t.Errorf("owner %d, want 1: a client without a connection uses the new list at once", s.Owner())
		}
		if err := cl.UpdateServers(nil); !errors.Is(err, session.ErrInvalid) {
			t.Errorf("no servers: %v", err)
		}
		_ = cl.Close()
		if err := cl.UpdateServers(c.endpoints(1, 1)); !errors.Is(err, session.ErrClosed) {
			t.Errorf("after Close: %v", err)
		}
	})
}
