package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Wires are what connects a cluster; cuts of one direction and pauses of one node add up. A simnet.Network is one.
type Wires interface {
	Cut(from, to string)
	Heal(from, to string)
	Pause(node string)
	Resume(node string)
}

// Cluster is what faults are injected into. Its methods are called from several goroutines.
type Cluster interface {
	Wires
	// Nodes and Clients are the names of hosts; a client's is never in Nodes.
	Nodes() []string
	Clients() []string
	// Leader returns the node that leads now, "" when none is known.
	Leader() string
	// Kill reports whether the node lived; Start starts it again.
	Kill(node string) bool
	Start(node string)
}

// Log hears of faults. The text of an end is that of its begin.
type Log interface {
	Began(k Kind, text string)
	Ended(k Kind, text string)
}

// Run injects plan into c and returns when every fault has ended; when ctx ends, it ends them at once.
func Run(ctx context.Context, plan []Fault, c Cluster, log Log) {
	var running sync.WaitGroup
	defer running.Wait()
	for i, f := range plan {
		if !f.Overlaps {
			running.Wait()
		}
		if !sleep(ctx, f.After) {
			return
		}
		running.Go(func() {
			text, undo := inject(f, c)
			if undo == nil {
				return
			}
			text = fmt.Sprintf("%d: %s", i+1, text)
			log.Began(f.Kind, text)
			sleep(ctx, f.Lasts)
			undo()
			log.Ended(f.Kind, text)
		})
	}
}

// inject begins f, and returns it in words and how to end it; nil when there is nothing to break now.
func inject(f Fault, c Cluster) (text string, undo func()) {
	nodes := pick(c.Nodes(), f.Nodes)
	others, minority := nodes[1:], nodes[:(len(nodes)-1)/2]
	switch f.Kind {
	case Isolate:
		rest := append(slices.Clone(others), c.Clients()...)
		return "isolate " + nodes[0], cut(c, both(nodes[:1], rest))
	case Split:
		return "split off " + strings.Join(minority, " "), cut(c, both(minority, nodes[len(minority):]))
	case LeaderOff:
		leader := c.Leader()
		if leader == "" {
			return "", nil
		}
		return "cut leader " + leader + " off its peers", cut(c, both([]string{leader}, without(nodes, leader)))
	case Deaf:
		return "make " + nodes[0] + " deaf to its peers", cut(c, oneWay(others, nodes[:1]))
	case Mute:
		return "make " + nodes[0] + " mute to its peers", cut(c, oneWay(nodes[:1], others))
	case OneWay:
		return "cut " + nodes[0] + " to " + nodes[1], cut(c, oneWay(nodes[:1], nodes[1:2]))
	case Kill:
		return kill(c, nodes[:1])
	case KillLeader:
		leader := c.Leader()
		if leader == "" {
			return "", nil
		}
		return kill(c, []string{leader})
	case KillAll:
		return kill(c, nodes)
	case Pause:
		c.Pause(nodes[0])
		return "pause " + nodes[0], func() { c.Resume(nodes[0]) }
	}
	return "", nil
}

// pick returns names in the order of indexes.
func pick(names []string, indexes []int) []string {
	picked := make([]string, len(indexes))
	for i, at := range indexes {
		picked[i] = names[at]
	}
	return picked
}

func without(names []string, name string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == name })
}

// way is one direction between two hosts.
type way struct{ from, to string }

func oneWay(from, to []string) []way {
	ways := make([]way, 0, len(from)*len(to))
	for _, f := range from {
		for _, t := range to {
			ways = append(ways, way{f, t})
		}
	}
	return ways
}

func both(some, others []string) []way { return append(oneWay(some, others), oneWay(others, some)...) }

func cut(c Cluster, ways []way) (undo func()) {
	for _, w := range ways {
		c.Cut(w.from, w.to)
	}
	return func() {
		for _, w := range ways {
			c.Heal(w.from, w.to)
		}
	}
}

// kill kills those of nodes that live.
func kill(c Cluster, nodes []string) (text string, undo func()) {
	var killed []string
	for _, n := range nodes {
		if c.Kill(n) {
			killed = append(killed, n)
		}
	}
	if len(killed) == 0 {
		return "", nil
	}
	return "kill " + strings.Join(killed, " "), func() {
		for _, n := range killed {
			c.Start(n)
		}
	}
}

// sleep waits for d, and reports whether ctx lasted as long.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
