package watch_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"holdfast/tree"
	"holdfast/watch"
)

// TestHistories plays the actions of dispatchers, clients and logs in thousands of orders: slow readers, broken
// connections that resume from their stamps, overtaken rings, restored and restarted nodes. A list of watches and a
// list of changes say what each client must have received (I11 no event missing), and told stamps never go back (I13 no
// step back).
func TestHistories(t *testing.T) {
	heard, losts := 0, 0
	for seed := range uint64(4000) {
		random := rand.New(rand.NewPCG(seed, 3))
		rough := seed%3 > 0 // otherwise nothing may be lost
		n := newNode(random, watch.DefaultRingLimits(), watch.DefaultFeedLimits())
		if rough {
			n.limits = watch.RingLimits{Items: one(random, []int{4, 20, 1000}), Bytes: 1 << 20}
			n.feeds = watch.FeedLimits{Events: one(random, []int{1, 3, 8}), Bytes: one(random, []int{25, 1000})}
			n.start()
		}
		for i := range 3 {
			c := &client{t: t, node: n, name: fmt.Sprintf("seed %d: client %d", seed, i)}
			c.principals = one(random, [][]tree.Principal{nil, joe})
			n.clients = append(n.clients, c)
			c.connect()
		}
		for range 150 {
			step(n, one(random, n.clients), rough)
		}
		n.pass()
		for _, c := range n.clients {
			c.read(1 << 20)
			c.connect()
			c.read(1 << 20)
			if c.verify(n.servedStamp()); c.resuming || c.s != n.servedStamp() {
				c.fatalf("told %v of %v at the end", c.s, n.servedStamp())
			}
			heard, losts = heard+c.heard, losts+c.losts
		}
	}
	if heard < 30_000 || losts < 5000 {
		t.Errorf("heard %d events and %d LOSTs: the histories do too little", heard, losts)
	}
	t.Logf("heard %d events, %d LOSTs", heard, losts)
}

// step does one thing.
func step(n *node, c *client, rough bool) {
	switch n.random.IntN(22) {
	case 0, 1, 2, 3, 4:
		n.apply()
	case 5, 6, 7, 8:
		n.pass()
	case 9, 10, 11, 20, 21:
		c.add()
	case 12:
		c.remove()
	case 13, 14, 15:
		c.read(n.random.IntN(6))
	case 16:
		c.read(1 << 20)
	case 17, 18:
		c.connect()
	case 19:
		switch {
		case !rough || n.random.IntN(3) > 0:
		case n.random.IntN(2) == 0: // a snapshot is installed, while the dispatcher is somewhere before it
			for range n.random.IntN(4) {
				n.apply()
			}
			n.ring.Reset(n.index)
		default: // the process starts anew
			n.start()
			for _, c := range n.clients {
				c.connection = nil
				c.connect()
			}
		}
	}
}
