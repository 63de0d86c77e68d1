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

// oneWay returns the ways from each of from to each other host of to.
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

// held returns how many writes and dials were held back on ways so far.
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

// peerPort is the peer port of all nodes.
const peerPort = ":7402"

// choke cuts the connections to the peer ports of some nodes from the others.
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

// slowness is the additional time on ways: more, and up to scatter besides.
type slowness struct{ more, scatter time.Duration }

// scatter returns the slowness of the kinds that reorder.
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

// drop resets the connections between one host and some others, repeatedly.
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

// hiccups stops a process repeatedly, each time for a little more than one interval to twice as long. The stops come
// more often than any session's timeout lasts.
func hiccups(lasting context.Context, f Fault, c Cluster, one string) *broken {
	const interval = 500 * time.Millisecond
	stops := interval + time.Duration((0.02+0.98*f.Size)*float64(interval)).Truncate(time.Millisecond)
	every := stops + time.Second + time.Duration(f.Caller*float64(2*time.Second)).Truncate(time.Millisecond)
	return meanwhileAt(one, fmt.Sprintf("suspend the process of %s for %v every %v", one, stops, every),
		func() int {
			stopped := 0
			for sleep(lasting, every-stops) {
				run := c.Suspend(one)
				sleep(context.WithoutCancel(lasting), stops)
				if run() {
					stopped++
				}
			}
			return stopped
		})
}

// mostDawdle is below the delay at which a node, which watches the time of each entry, steps out.
const mostDawdle = 150 * time.Millisecond

// dawdle makes a node apply its log slowly.
func dawdle(f Fault, c Cluster, one string) *broken {
	each := time.Millisecond + time.Duration(f.Size*f.Size*float64(mostDawdle)).Truncate(time.Millisecond)
	return &broken{one, fmt.Sprintf("have %s take %v more to apply an entry", one, each), c.Dawdle(one, each)}
}

// mostCrossed is below the delay that makes rounds bad for long: a heartbeat and its answer are held for twice as long
// at most.
const mostCrossed = 600 * time.Millisecond

// cross lets the messages of a node's streams to the leader overtake each other.
func cross(f Fault, c Cluster, one string) *broken {
	most := 2*time.Millisecond + time.Duration(f.Size*f.Size*float64(mostCrossed)).Truncate(time.Millisecond)
	return &broken{
		one, fmt.Sprintf("hold each message between %s and the leader for up to %v", one, most),
		c.Cross(one, most),
	}
}

// kill kills the living nodes among nodes at once.
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

// crashLoop kills one node after the other, and restarts each within moments. So a node may vote, die and return within
// one election.
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

// freeze freezes the cluster, half of the times for less than the fault lasts: the freeze comes to its bound then.
func freeze(f Fault, c Cluster) *broken {
	lasts := 2 * f.Lasts
	if f.Size < 0.5 {
		lasts = time.Second + time.Duration(f.Size*float64(f.Lasts)).Truncate(time.Millisecond)
	}
	return &broken{"", fmt.Sprintf("freeze the cluster for %v", lasts), c.Freeze(lasts)}
}
