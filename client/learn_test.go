package client

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// A client with one configured endpoint moves to a learnt node, at once, when that endpoint's node dies. With
// OnlyEndpoints it has nowhere to go. Its reads continue in the same way, also if read-only nodes may answer them.
func TestAClientWithOneEndpointSurvivesItsNode(t *testing.T) {
	for _, how := range []Config{{}, {OnlyEndpoints: true}, {ReadOnly: true}} {
		bubble.Test(t, func(t *testing.T) {
			c, only := newFakeCluster(t, 3), how.OnlyEndpoints
			how.Endpoints, how.Dial = c.endpoints(1, 1), c.dial
			cl := newLearningClient(t, how)
			s := mustOpen(t, cl, 10*time.Second)
			synctest.Wait()
			c.node(1).down()
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if got := s.Owner(); got == 1 != only {
				t.Fatalf("OnlyEndpoints %v: the owner is %d, 10 ms after the death of node 1", only, got)
			}
			if !only {
				reading, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if _, err := cl.Get(reading, s.ID()); err != nil {
					t.Errorf("a read after the death of the only endpoint, ReadOnly %v: %v", how.ReadOnly, err)
				}
			} else {
				time.Sleep(time.Minute)
				if n := len(c.node(2).dialled()) + len(c.node(3).dialled()); n > 0 {
					t.Errorf("%d attempts to connect to nodes that are no endpoints", n)
				}
			}
		})
	}
}

// Calls continue at learnt addresses when all endpoints are cut off from the cluster: they answer, and decide nothing.
// They do so no sooner than an attempt may last, since learnt addresses may lead nowhere.
func TestCallsLeaveEndpointsThatAreCutOff(t *testing.T) {
	for _, readOnly := range []bool{false, true} {
		bubble.Test(t, func(t *testing.T) {
			c := newFakeCluster(t, 3)
			cl := newLearningClient(t, Config{Endpoints: c.endpoints(1, 1), Dial: c.dial, ReadOnly: readOnly})
			s := mustOpen(t, cl, 10*time.Second)
			synctest.Wait()
			c.node(1).refuse("get", session.ErrNoLeader)
			began := time.Now()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			if _, err := cl.Get(ctx, s.ID()); err != nil {
				t.Fatalf("ReadOnly %v: %v", readOnly, err)
			}
			if took := time.Since(began); took < DefaultConnectTimeout || took > 2*DefaultConnectTimeout {
				t.Errorf("ReadOnly %v: answered after %v, want about %v", readOnly, took, DefaultConnectTimeout)
			}
		})
	}
}

// A client asks once when it connects, some time after each later move, and rarely otherwise.
func TestLearningIsRare(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 2)
		cl := newLearningClient(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial})
		s := mustOpen(t, cl, 10*time.Second)
		asked := func() (n int) {
			for i := 1; i <= 2; i++ {
				for _, what := range c.node(i).record() {
					if what == "members" {
						n++
					}
				}
			}
			return n
		}
		synctest.Wait()
		if n := asked(); n != 1 {
			t.Errorf("asked %d times at first", n)
		}
		c.owner(s).cut()
		synctest.Wait()
		if n := asked(); n != 0 {
			t.Errorf("asked %d times at the moment of a move, as thousands of clients would", n)
		}
		time.Sleep(30 * time.Second)
		if n := asked(); n != 1 {
			t.Errorf("asked %d times in the half minute after a move", n)
		}
		time.Sleep(time.Hour)
		if n := asked(); n < 5 || n > 13 {
			t.Errorf("asked %d times in an hour", n)
		}
	})
}

// Learnt addresses that lead nowhere cost a client no noticeable time, as long as its endpoints answer.
func TestAddressesOfAnotherNetworkCostLittle(t *testing.T) {
	for name, lost := range map[string]bool{"a leader is missing": false, "a node is lost": true} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newFakeCluster(t, 3)
				inside := func(ctx context.Context, address string) error { // the cluster's own names here
					if address[0] == 'n' {
						<-ctx.Done()
						return ctx.Err()
					}
					return nil
				}
				cl := newLearningClient(t, Config{
					Endpoints: []string{"host1:7400", "host2:7400", "host3:7400"}, Dial: c.mapped(inside),
					MaxBackoff: 100 * time.Millisecond,
				})
				s := mustOpen(t, cl, 10*time.Second)
				synctest.Wait()
				if lost {
					c.owner(s).down()
					synctest.Wait()
					time.Sleep(10 * time.Millisecond)
				} else {
					c.everyNode(func(n *fakeNode) { n.refuseAll(session.ErrNoLeader) })
					c.owner(s).cut()
					time.Sleep(5 * time.Second)
					if n := len(c.node(2).dialled()); n < 20 {
						t.Errorf("%d rounds in 5 s, want 20 at least", n)
					}
					c.everyNode((*fakeNode).heal)
					time.Sleep(200 * time.Millisecond)
				}
				synctest.Wait()
				if s.State() != StateConnected {
					t.Errorf("the session is %v", s.State())
				}
			})
		})
	}
}

// Addresses that left the cluster's configuration are forgotten, and those that were removed from the servers are not
// learnt again.
func TestLearntAddressesAreForgotten(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newFakeCluster(t, 4)
		cl := newLearningClient(t, Config{Endpoints: c.endpoints(1, 2), Dial: c.dial})
		s := mustOpen(t, cl, 10*time.Second)
		synctest.Wait()
		if err := cl.UpdateServers(c.endpoints(int(s.Owner()), int(s.Owner()))); err != nil {
			t.Fatal(err)
		}
		c.set(func() { c.left = 3 })
		time.Sleep(time.Hour)
		synctest.Wait()
		c.set(func() {
			for _, n := range c.nodes {
				n.dials = nil
			}
		})
		former := s.Owner()
		c.owner(s).down()
		time.Sleep(5 * time.Second)
		synctest.Wait()
		var tried []session.Node
		for i := session.Node(1); i <= 4; i++ {
			if n := c.node(int(i)); i != former && len(n.dialled()) > 0 {
				tried = append(tried, i)
			}
		}
		if !slices.Equal(tried, []session.Node{4}) {
			t.Errorf("tried %v after the endpoint, want node 4", tried)
		}
	})
}
