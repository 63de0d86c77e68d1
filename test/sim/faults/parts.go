package faults

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
)

// way is one direction between two hosts.
type way struct{ from, to string }

// oneWay returns the ways from each of from to each of to that is another.
func oneWay(from, to []string) []way {
	ways := make([]way, 0, len(from)*len(to))
	for _, f := range from {
		for _, t := range to {
			if f != t {
				ways = append(ways, way{f, t})
			}
		}
	}
	return ways
}

func both(some, others []string) []way { return append(oneWay(some, others), oneWay(others, some)...) }

// held is what was held back on ways so far.
func held(c Wires, ways []way) int {
	sum := 0
	for _, w := range ways {
		sum += c.Held(w.from, w.to)
	}
	return sum
}

func cut(c Cluster, who, text string, ways []way) *broken {
	before := held(c, ways)
	for _, w := range ways {
		c.Cut(w.from, w.to)
	}
	return &broken{who, text, func() bool {
		for _, w := range ways {
			c.Heal(w.from, w.to)
		}
		return held(c, ways) > before
	}}
}

// peerPort is that of all nodes.
const peerPort = ":7402"

// choke cuts what goes over the peer ports of some nodes to the others.
func choke(c Cluster, who, text string, some, nodes []string) *broken {
	links := both(some, nodes)
	before := held(c, links)
	for _, n := range some {
		c.Choke(n + peerPort)
	}
	return &broken{who, text, func() bool {
		for _, n := range some {
			c.Unchoke(n + peerPort)
		}
		return held(c, links) > before
	}}
}

// slowness is what ways take longer: by more, and by up to scatter besides.
type slowness struct{ more, scatter time.Duration }

// scatter returns that of the kinds that reorder.
func (f Fault) scatter() slowness {
	return slowness{scatter: 5*time.Millisecond + time.Duration(f.Size*float64(700*time.Millisecond))}
}

func slow(c Cluster, who, text string, by slowness, ways []way) *broken {
	before := held(c, ways)
	for _, w := range ways {
		c.Slow(w.from, w.to, by.more, by.scatter)
	}
	return &broken{who, text, func() bool {
		for _, w := range ways {
			c.Slow(w.from, w.to, -by.more, -by.scatter)
		}
		return held(c, ways) > before
	}}
}

// drop resets the connections of one to some of others, again and again.
func drop(lasting context.Context, f Fault, c Cluster, one string, others []string) *broken {
	every := 50*time.Millisecond + time.Duration(f.Size*float64(2*time.Second))
	return meanwhile("reset connections of "+one+" every "+every.String(), func() int {
		reset := 0
		for i := 0; lasting.Err() == nil; i++ {
			reset += c.Reset(one, others[i%len(others)])
			sleep(lasting, every)
		}
		return reset
	})
}

func pause(c Cluster, hosts []string) *broken {
	all := both(hosts, append(append([]string(nil), c.Nodes()...), c.Clients()...))
	before := held(c, all)
	for _, h := range hosts {
		c.Pause(h)
	}
	who := ""
	if len(hosts) == 1 {
		who = hosts[0]
	}
	return &broken{who, "pause " + strings.Join(hosts, " "), func() bool {
		for _, h := range hosts {
			c.Resume(h)
		}
		return held(c, all) > before
	}}
}

// hiccups has a process stand again and again, each time for a little more than an interval to twice that, more often
// than any session's timeout comes round.
func hiccups(lasting context.Context, f Fault, c Cluster, one string) *broken {
	const interval = 500 * time.Millisecond
	stands := interval + time.Duration((0.02+0.98*f.Size)*float64(interval)).Truncate(time.Millisecond)
	every := stands + time.Second + time.Duration(f.Caller*float64(2*time.Second)).Truncate(time.Millisecond)
	return meanwhileAt(one, fmt.Sprintf("have the process of %s stand for %v every %v", one, stands, every),
		func() int {
			stood := 0
			for sleep(lasting, every-stands) {
				run := c.Stand(one)
				sleep(context.WithoutCancel(lasting), stands)
				if run() {
					stood++
				}
			}
			return stood
		})
}

// kill kills those of nodes that live, at once.
func kill(c Cluster, nodes ...string) *broken {
	lived := make([]bool, len(nodes))
	var killing sync.WaitGroup
	for i, n := range nodes {
		killing.Go(func() { lived[i] = c.Kill(n) })
	}
	killing.Wait()
	var killed []string
	for i, n := range nodes {
		if lived[i] {
			killed = append(killed, n)
		}
	}
	if len(killed) == 0 {
		return nil
	}
	who := ""
	if len(killed) == 1 {
		who = killed[0]
	}
	return &broken{who, "kill " + strings.Join(killed, " "), func() bool {
		for _, n := range killed {
			c.Start(n)
		}
		return true
	}}
}

// crashLoop kills one of nodes after the other, and starts it again within moments: while an election goes on a node
// may have voted, died and come back.
func crashLoop(lasting context.Context, f Fault, c Cluster, nodes []string) *broken {
	every := 50*time.Millisecond + time.Duration(f.Size*float64(time.Second))
	b := meanwhile("kill "+strings.Join(nodes, " ")+" again and again, every "+every.String(), func() int {
		kills := 0
		for i := 0; lasting.Err() == nil; i++ {
			if n := nodes[i%len(nodes)]; c.Kill(n) {
				kills++
				sleep(lasting, every/5)
				c.Start(n)
			}
			sleep(lasting, every)
		}
		return kills
	})
	if len(nodes) == 1 {
		b.who = nodes[0]
	}
	return b
}

// tear kills a node at its next write, or at the fault's end.
func tear(c Cluster, node string) *broken {
	torn := c.Tear(node)
	if torn == nil {
		return nil
	}
	return &broken{node, "kill " + node + " in the middle of its next write", func() bool {
		hit := torn()
		if !hit {
			c.Kill(node)
		}
		c.Start(node)
		return hit
	}}
}

func age(c Cluster, node string) *broken {
	b := kill(c, node)
	if b == nil {
		return nil
	}
	aged := c.Age(node)
	if aged {
		b.text = "kill " + node + " and take its newest snapshot away"
	}
	start := b.end
	b.end = func() bool { return start() && aged }
	return b
}

func empty(c Cluster, node string) *broken {
	b := kill(c, node)
	if b == nil {
		return nil
	}
	emptied := c.Empty(node)
	if emptied {
		b.text = "kill " + node + " and empty its disk"
	}
	start := b.end
	b.end = func() bool { return start() && emptied }
	return b
}
