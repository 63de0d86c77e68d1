// Package faults injects faults into a simulated cluster: what, where and when follows a seed.
package faults

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Kind is what breaks.
type Kind uint8

// Kinds of fault.
const (
	// Isolate cuts a node off everybody, peers and clients, both ways.
	Isolate Kind = iota + 1
	// Split cuts a minority of the nodes off the others, both ways; clients reach all.
	Split
	// LeaderOff cuts the node that leads off its peers, both ways; clients reach it.
	LeaderOff
	// Deaf cuts what the peers send to a node, Mute what it sends to them.
	Deaf
	Mute
	// OneWay cuts one direction between two nodes.
	OneWay
	// Kill ends a node's process, which later starts on the same directory.
	Kill
	// KillLeader is a Kill of the node that leads.
	KillLeader
	// KillAll kills every node at once.
	KillAll
	// Pause holds all traffic of a node back and delivers it later.
	Pause
)

// Kinds returns all kinds.
func Kinds() []Kind {
	return []Kind{Isolate, Split, LeaderOff, Deaf, Mute, OneWay, Kill, KillLeader, KillAll, Pause}
}

// String returns the kind in words.
func (k Kind) String() string {
	names := [...]string{
		"?", "isolate", "split", "cut leader off peers", "deaf", "mute", "one-way cut", "kill", "kill leader", "kill all", "pause",
	}
	if int(k) >= len(names) {
		k = 0
	}
	return names[k]
}

// Fault is one entry of a plan.
type Fault struct {
	// After is how long after the former fault ended, or began if this one overlaps it, this one begins.
	After time.Duration
	// Overlaps says that the former fault still lasts.
	Overlaps bool
	Lasts    time.Duration
	Kind     Kind
	// Nodes are drawn indexes into the cluster's nodes, all different; a kind takes as many as it needs from the front.
	Nodes []int
}

// String returns the fault as one line.
func (f Fault) String() string {
	from := "after"
	if f.Overlaps {
		from = "overlapping, after"
	}
	return fmt.Sprintf("%s %v: %s %v for %v", from, f.After, f.Kind, f.Nodes, f.Lasts)
}

// Plan draws count faults for a cluster of nodes nodes. The same random source gives the same plan. Calm is how long a calm spell
// between faults is; there is one after every few faults, so that what needs a calm cluster is checked as well.
func Plan(r *rand.Rand, nodes, count int, calm time.Duration) []Fault {
	plan := make([]Fault, 0, count)
	kinds := Kinds()
	for i := range count {
		f := Fault{
			Kind:  kinds[r.IntN(len(kinds))],
			Nodes: r.Perm(nodes),
			After: between(r, 200*time.Millisecond, 5*time.Second),
			Lasts: between(r, 500*time.Millisecond, 15*time.Second),
		}
		switch draw := r.IntN(4); {
		case i == 0 || draw == 0:
			f.After += calm
		case draw == 1:
			f.Overlaps = true
		}
		plan = append(plan, f)
	}
	return plan
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low))).Truncate(time.Millisecond)
}
