// Package faults injects faults into a simulated cluster. A seed determines the kinds, places and times.
package faults

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"
)

// Fault is one entry of a plan.
type Fault struct {
	// After is the time from the end of the former fault to the start of this fault; from the former fault's start, if
	// this fault overlaps it.
	After time.Duration
	// Overlaps: this fault starts while the former fault lasts.
	Overlaps bool
	Lasts    time.Duration
	Kind     Kind
	// Nodes are random indexes into the cluster's nodes, all different. A kind uses as many as it needs from the front.
	Nodes []int
	// Size is random in [0, 1): the size of the fault. Its meaning depends on the kind.
	Size float64
	// Leads: a kind of one node affects the leading node, if there is one.
	Leads bool
	// Caller is random in [0, 1). A fault of links affects the links of this caller, to all of Nodes. For hiccups
	// Caller is their frequency, for refused dials their direction, for resets the number of hosts.
	Caller float64
}

// String returns the fault as one line.
func (f Fault) String() string {
	from, who := "after", fmt.Sprint(f.Nodes)
	if f.Overlaps {
		from = "overlapping, after"
	}
	if f.Leads {
		who += " or who leads"
	}
	if slices.Contains(links(), f.Kind) {
		who += fmt.Sprintf(" and caller %.2f", f.Caller)
	}
	return fmt.Sprintf("%s %v: %s %s size %.2f for %v", from, f.After, f.Kind, who, f.Size, f.Lasts)
}

// Shape is the number of faults in a plan, and their arrangement.
type Shape struct {
	Nodes, Count int
	// Calm is the length of the calm spells between some faults, for behaviour that only a calm cluster shows; 0 for
	// none.
	Calm time.Duration
	// Deal is a number that differs from plan to plan. Plans with following numbers have every kind in turn, however
	// few faults each plan has.
	Deal uint64
}

// Bounds of a fault's duration, and of the time before it.
const (
	shortest, longest = 500 * time.Millisecond, 10 * time.Second
	soonest, latest   = 200 * time.Millisecond, 4 * time.Second
	// away is the least length of a LongKill.
	away = 15 * time.Second
	// longestLink leaves time for the sessions of an unheard caller to expire.
	longestLink = 14 * time.Second
	// Hiccups last longer than the life of a session that expires among them.
	shortestHiccups, longestHiccups = 20 * time.Second, 40 * time.Second
	// A node that applies slowly does so until it is far behind, and a freeze lasts longer than any timeout.
	shortestLag, longestLag = 8 * time.Second, 20 * time.Second
	// The time before a fault of Successions.
	leastPeace, mostPeace = 8 * time.Second, 12 * time.Second
)

// Plan draws the faults of a shape. The same random source gives the same plan.
func Plan(r *rand.Rand, s Shape) []Fault {
	plan := make([]Fault, 0, s.Count)
	kinds := deal(planned(), s)
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for i, half := 0, len(kinds)/2; i < half; i++ {
		if kinds[i] == OldSnapshot { // later: first there must be snapshots
			kinds[i], kinds[i+half] = kinds[i+half], kinds[i]
		}
	}
	for i, k := range kinds {
		f := Fault{
			Kind:  k,
			Nodes: r.Perm(s.Nodes),
			After: between(r, soonest, latest),
			Lasts: between(r, shortest, longest),
			Size:  r.Float64(),
			Leads: r.IntN(3) == 0,
		}
		if k == LongKill {
			f.Lasts += away
		}
		switch draw := r.IntN(3); {
		case i > 0 && draw == 0:
			f.Overlaps = true
		case s.Calm > 0 && (i == 0 || r.IntN(4) == 0):
			f.After += s.Calm
		}
		plan = append(plan, f)
	}
	return plan
}

// Links draws faults of the links between callers and nodes, one of each kind. They form a separate plan, to be run
// beside another plan, so that Plan's draws stay the same with and without them. The faults come in pairs on the links
// of one caller. The second starts while the first lasts, if the first is long enough: a link that is slow in one
// direction and cut in the other shows what neither fault shows alone.
func Links(r *rand.Rand, nodes int) []Fault {
	kinds := links()
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	plan := make([]Fault, 0, len(kinds))
	for i, k := range kinds {
		f := Fault{
			Kind:   k,
			Nodes:  r.Perm(nodes),
			After:  between(r, soonest, latest),
			Lasts:  between(r, shortest, longestLink),
			Size:   r.Float64(),
			Caller: r.Float64(),
		}
		if r.IntN(3) == 0 { // else all nodes: the caller cannot avoid the fault
			f.Nodes = f.Nodes[:1+r.IntN(nodes-1)]
		}
		if i%2 == 1 {
			f.Overlaps, f.Caller = true, plan[i-1].Caller
		}
		plan = append(plan, f)
	}
	return plan
}

// Stutter draws hiccups of two nodes, one after the other. They form a separate plan, like the faults of Links.
func Stutter(r *rand.Rand, nodes int) []Fault {
	plan := make([]Fault, 0, 2)
	for _, one := range r.Perm(nodes)[:2] {
		plan = append(plan, Fault{
			Kind:   Hiccups,
			Nodes:  []int{one},
			After:  between(r, soonest, latest),
			Lasts:  between(r, shortestHiccups, longestHiccups),
			Size:   r.Float64(),
			Caller: r.Float64(),
		})
	}
	return plan
}

// Lags draws nodes that apply their log slowly, one after the other. They form a separate plan, like the faults of
// Links.
func Lags(r *rand.Rand, nodes int) []Fault {
	plan := make([]Fault, 0, 3)
	for range 3 {
		f := long(r, nodes, SlowApply)
		f.Leads = r.IntN(4) == 0
		plan = append(plan, f)
	}
	return plan
}

// long draws a fault of a kind whose effect needs a while.
func long(r *rand.Rand, nodes int, k Kind) Fault {
	return Fault{
		Kind:  k,
		Nodes: r.Perm(nodes),
		After: between(r, soonest, latest),
		Lasts: between(r, shortestLag, longestLag),
		Size:  r.Float64(),
	}
}

// Crossings draws nodes whose streams to the leader overtake each other, one after the other. They form a separate
// plan, like the faults of Links.
func Crossings(r *rand.Rand, nodes int) []Fault {
	plan := make([]Fault, 0, 3)
	for range 3 {
		plan = append(plan, long(r, nodes, Cross))
	}
	return plan
}

// Orders draws an operator's acts: drains of two nodes, and two freezes of the cluster. They form a separate plan, like
// the faults of Links.
func Orders(r *rand.Rand, nodes int) []Fault {
	kinds := []Kind{Drain, Freeze, Drain, Freeze}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	plan := make([]Fault, 0, len(kinds))
	for _, k := range kinds {
		f := long(r, nodes, k)
		f.Leads = r.IntN(2) == 0
		plan = append(plan, f)
	}
	return plan
}

// Acts draws an operator's acts on sessions: ends of some and extensions of others, and freezes of the cluster
// meanwhile. They form two separate plans, like the faults of Links.
func Acts(r *rand.Rand, nodes int) (ends, keeps []Fault) {
	for range 2 {
		ends = append(ends, long(r, nodes, EndSessions))
	}
	for _, k := range []Kind{Extend, Freeze, Extend} {
		f := long(r, nodes, k)
		f.Overlaps = k == Freeze
		keeps = append(keeps, f)
	}
	return ends, keeps
}

// Successions draws faults that tempt voters to depose a leader, or to campaign at the same time, one of each kind.
// They form a separate plan, like the faults of Links. The time between them is long enough for the checker to
// determine which fault cost a leader.
func Successions(r *rand.Rand, nodes int) []Fault {
	kinds := successions()
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	plan := make([]Fault, 0, len(kinds))
	for _, k := range kinds {
		plan = append(plan, Fault{
			Kind:   k,
			Nodes:  r.Perm(nodes),
			After:  between(r, leastPeace, mostPeace),
			Lasts:  between(r, shortest, longest),
			Size:   r.Float64(),
			Leads:  r.IntN(3) > 0,
			Caller: r.Float64(),
		})
	}
	return plan
}

// deal returns the kinds of a plan: its part of an endless deal, in which every kind comes once before any kind comes
// again.
func deal(deck []Kind, s Shape) []Kind {
	var dealt []Kind
	size := uint64(len(deck))
	for at := s.Deal * uint64(s.Count); len(dealt) < s.Count; at++ {
		shuffled := rand.New(rand.NewPCG(at/size, 0)).Perm(len(deck))
		dealt = append(dealt, deck[shuffled[at%size]])
	}
	return dealt
}

func between(r *rand.Rand, low, high time.Duration) time.Duration {
	return low + time.Duration(r.Int64N(int64(high-low))).Truncate(time.Millisecond)
}
