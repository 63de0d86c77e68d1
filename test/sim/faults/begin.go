package faults

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"
)

// broken is a fault that has started. end ends it, and reports whether it hit anything.
type broken struct {
	// who is the only node concerned, "" for several nodes.
	who, text string
	end       func() bool
}

// begin begins f. It returns nil when there is nothing to break now. A fault that continues on its own ends with
// lasting.
func begin(lasting context.Context, f Fault, c Cluster) *broken {
	nodes := pick(c.Nodes(), f.Nodes)
	switch f.Kind {
	case Isolate, Split, Partial, LeaderOff, Deaf, Mute, OneWay, NoRounds:
		return beginCut(f, c, nodes)
	case Lag, Reorder, Drop:
		return beginWeather(lasting, f, c, nodes)
	case Kill, KillLeader, KillAll, LongKill, CrashLoop, Torn, OldSnapshot, EmptyDisk:
		return beginKill(lasting, f, c, nodes)
	case Restart, HandOver:
		return beginOrder(f, c, nodes)
	case Pause:
		return pause(c, nodes[:1])
	case PauseSome:
		return pause(c, nodes[:2+int(f.Size*float64(len(nodes)-2))])
	case PauseAll:
		return pause(c, nodes)
	case SlowDisk, FullDisk, FailDisk, HungDisk, ClockJump:
		return beginInside(f, c, f.one(c, nodes))
	case Flood, Duplicate, PauseClient, StickClient:
		return beginClients(lasting, f, c)
	case LagFromClient, LagToClient, ReorderFromClient, ReorderToClient, MuteClient, DeafClient:
		return beginLinks(f, c, nodes)
	case Hiccups:
		return hiccups(lasting, f, c, nodes[0])
	case SlowApply:
		return dawdle(f, c, f.one(c, nodes))
	case Cross:
		return cross(f, c, f.one(c, nodes))
	case Drain, Freeze, EndSessions, Extend:
		return beginWork(lasting, f, c, f.one(c, nodes))
	case Add, Demote, Remove, Transfer:
		return change(f, c, f.one(c, nodes))
	case ResetLeader, RefuseDials, Blink, Rivals:
		return beginSuccession(lasting, f, c, nodes)
	}
	return nil
}

// beginWork starts the operator's acts other than changes of members.
func beginWork(lasting context.Context, f Fault, c Cluster, one string) *broken {
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case Drain:
		return &broken{one, "drain " + one, c.Drain(one)}
	case Freeze:
		return freeze(f, c)
	case EndSessions:
		return meanwhile("have an operator end sessions", func() int { return c.EndSessions(lasting, f.Size) })
	default:
		return meanwhile("have an operator extend sessions", func() int { return c.Extend(lasting, f.Size) })
	}
}

// one returns the node that a fault of one node affects.
func (f Fault) one(c Cluster, nodes []string) string {
	if leader := c.Leader(); f.Leads && leader != "" {
		return leader
	}
	return nodes[0]
}

func beginCut(f Fault, c Cluster, nodes []string) *broken {
	others, minority := nodes[1:], nodes[:(len(nodes)-1)/2]
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case Isolate:
		rest := append(slices.Clone(others), c.Clients()...)
		return cut(c, nodes[0], "isolate "+nodes[0], both(nodes[:1], rest))
	case Split:
		return cut(c, "", "split off "+strings.Join(minority, " "), both(minority, nodes[len(minority):]))
	case Partial:
		return cut(c, "", "cut "+nodes[0]+" and "+nodes[1]+" off each other", both(nodes[:1], nodes[1:2]))
	case LeaderOff:
		leader := c.Leader()
		if leader == "" {
			return nil
		}
		return cut(c, leader, "cut leader "+leader+" off its peers", both([]string{leader}, without(nodes, leader)))
	case NoRounds:
		leader := c.Leader()
		switch {
		case f.Size < 0.5:
			return choke(c, "", "cut the peer ports of all nodes", nodes, nodes)
		case leader == "":
			return nil
		}
		return choke(c, leader, "cut the peer port of leader "+leader, []string{leader}, nodes)
	case Deaf:
		return cut(c, nodes[0], "make "+nodes[0]+" deaf to its peers", oneWay(others, nodes[:1]))
	case Mute:
		return cut(c, nodes[0], "make "+nodes[0]+" mute to its peers", oneWay(nodes[:1], others))
	default:
		return cut(c, "", "cut "+nodes[0]+" to "+nodes[1], oneWay(nodes[:1], nodes[1:2]))
	}
}

func beginWeather(lasting context.Context, f Fault, c Cluster, nodes []string) *broken {
	one := f.one(c, nodes)
	others := without(nodes, one)
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case Lag:
		more := time.Duration(f.Size * f.Size * float64(2*time.Second))
		return slow(c, "", fmt.Sprintf("delay what %s and its peers send to each other by %v", one, more),
			slowness{more, more / 4}, both([]string{one}, others))
	case Reorder:
		by := f.scatter()
		return slow(c, "", fmt.Sprintf("scatter what nodes send by up to %v", by.scatter), by, oneWay(nodes, nodes))
	default:
		return drop(lasting, f, c, one, append(others, c.Clients()...))
	}
}

func beginKill(lasting context.Context, f Fault, c Cluster, nodes []string) *broken {
	one := f.one(c, nodes)
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case KillLeader:
		leader := c.Leader()
		if leader == "" {
			return nil
		}
		return kill(c, leader)
	case KillAll:
		return kill(c, nodes...)
	case CrashLoop:
		if f.Size < 0.5 {
			return crashLoop(lasting, f, c, []string{one})
		}
		return crashLoop(lasting, f, c, nodes)
	case Torn:
		return tear(c, one)
	case OldSnapshot:
		return age(c, one)
	case EmptyDisk:
		return empty(c, one)
	default:
		return kill(c, one)
	}
}

func beginOrder(f Fault, c Cluster, nodes []string) *broken {
	if f.Kind == HandOver {
		leader := c.Leader()
		if leader == "" {
			return nil
		}
		done := begun(func() bool { return c.HandOver(leader) })
		return &broken{leader, "have " + leader + " hand leadership on", func() bool { return <-done }}
	}
	one := f.one(c, nodes)
	stopped := begun(func() bool { return c.Stop(one) })
	return &broken{one, "stop " + one + " in order", func() bool {
		if !<-stopped {
			return false
		}
		c.Start(one)
		return true
	}}
}

// begun starts a slow part of a running fault. The channel gets its result.
func begun(do func() bool) <-chan bool {
	done := make(chan bool, 1)
	go func() { done <- do() }()
	return done
}

func beginInside(f Fault, c Cluster, one string) *broken {
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case SlowDisk:
		delay := time.Millisecond + time.Duration(f.Size*f.Size*float64(1500*time.Millisecond))
		return &broken{
			one, fmt.Sprintf("make the disk of %s take %v for a write", one, delay), c.Break(one, Slow, delay),
		}
	case FullDisk:
		return &broken{one, "fill the disk of " + one, c.Break(one, Full, 0)}
	case FailDisk:
		return &broken{one, "make the disk of " + one + " fail", c.Break(one, Failing, 0)}
	case HungDisk:
		return &broken{one, "make the disk of " + one + " hang", c.Break(one, Hung, 0)}
	default:
		forward := jump(f.Size)
		return &broken{one, fmt.Sprintf("set the clock of %s forward by %v", one, forward), c.SetClock(one, forward)}
	}
}

// jump returns how far to set a clock forward: 20 s to 20 years, or as far back.
func jump(size float64) time.Duration {
	const shortest, longest = 20 * time.Second, 20 * 365 * 24 * time.Hour
	sign, x := 1.0, 2*size
	if size >= 0.5 {
		sign, x = -1, 2*size-1
	}
	far := float64(shortest) * math.Pow(float64(longest)/float64(shortest), x)
	return time.Duration(sign * far).Truncate(time.Second)
}

func beginClients(lasting context.Context, f Fault, c Cluster) *broken {
	clients := c.Clients()
	one := clients[int(f.Size*float64(len(clients)))]
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case Flood:
		const least, more = 100, 200
		sessions := least + int(f.Size*more)
		return meanwhile(fmt.Sprintf("flood with %d opens", sessions), func() int { return c.Flood(lasting, sessions) })
	case Duplicate:
		return meanwhile("send requests twice", func() int { return c.Double(lasting) })
	case PauseClient:
		return pause(c, []string{one})
	default:
		links := oneWay(c.Nodes(), []string{one})
		before := held(c, links)
		c.Stick(one)
		return &broken{one, one + " reads nothing", func() bool { c.Unstick(one); return held(c, links) > before }}
	}
}

// meanwhile runs something until the fault ends.
func meanwhile(text string, do func() int) *broken { return meanwhileAt("", text, do) }

// meanwhileAt is meanwhile for a fault of one node.
func meanwhileAt(who, text string, do func() int) *broken {
	var done sync.WaitGroup
	count := 0
	done.Go(func() { count = do() })
	return &broken{who, text, func() bool { done.Wait(); return count > 0 }}
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
