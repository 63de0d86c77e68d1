package faults

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// beginSuccession begins a fault of Successions. Without a leader there is nothing to break, except for a Blink.
func beginSuccession(lasting context.Context, f Fault, c Cluster, nodes []string) *broken {
	leader := c.Leader()
	if f.Kind == Blink {
		return blink(context.WithoutCancel(lasting), f, c, f.one(c, nodes))
	}
	if leader == "" {
		return nil
	}
	others := without(nodes, leader)
	switch f.Kind { //nolint:exhaustive // begin handles the other kinds
	case ResetLeader:
		hosts := slices.Concat(others, c.Clients())
		if f.Caller < 0.5 {
			hosts = others[:1+int(f.Size*float64(len(others)))]
		}
		return resetLeader(lasting, f, c, leader, hosts)
	case RefuseDials:
		minority := (len(nodes) - 1) / 2
		return refuse(f, c, leader, others[:1+int(f.Size*float64(minority))])
	default:
		return rivals(f, c, leader, others)
	}
}

// resetLeader resets the leader's connections to all of hosts at the same moment, repeatedly.
func resetLeader(lasting context.Context, f Fault, c Cluster, leader string, hosts []string) *broken {
	every := 100*time.Millisecond + time.Duration(f.Size*float64(2*time.Second)).Truncate(time.Millisecond)
	text := fmt.Sprintf("reset connections of leader %s to %s every %v", leader, strings.Join(hosts, " "), every)
	return meanwhile(text, func() int {
		reset := 0
		for lasting.Err() == nil {
			for _, host := range hosts {
				reset += c.Reset(leader, host)
			}
			sleep(lasting, every)
		}
		return reset
	})
}

// refuse makes dials between the leader and some nodes fail: those to the leader, those from the leader, or both.
func refuse(f Fault, c Cluster, leader string, some []string) *broken {
	ways, how := both([]string{leader}, some), "each other's dials"
	switch {
	case f.Caller < 1.0/3:
		ways, how = oneWay(some, []string{leader}), "dials to the leader"
	case f.Caller < 2.0/3:
		ways, how = oneWay([]string{leader}, some), "dials of the leader"
	}
	before := held(c, ways)
	for _, w := range ways {
		c.Refuse(w.from, w.to)
	}
	for _, n := range some {
		c.Reset(leader, n)
	}
	text := fmt.Sprintf("between leader %s and %s: refuse %s", leader, strings.Join(some, " "), how)
	return &broken{"", text, func() bool {
		for _, w := range ways {
			c.Admit(w.from, w.to)
		}
		return held(c, ways) > before
	}}
}

// blink ends a process and restarts it after 1 to 10 ms.
func blink(ctx context.Context, f Fault, c Cluster, one string) *broken {
	b := kill(c, one)
	if b == nil {
		return nil
	}
	away := time.Millisecond + time.Duration(f.Size*float64(9*time.Millisecond)).Truncate(time.Microsecond)
	var back sync.WaitGroup
	back.Go(func() {
		sleep(ctx, away)
		c.Start(one)
	})
	text := fmt.Sprintf("kill %s and start it %v later", one, away)
	return &broken{one, text, func() bool { back.Wait(); return true }}
}

// rivals slows the links between the followers, and kills the leader. The second candidate's turn comes 20 ms after the
// first candidate's. A question arrives after five trips, so the second asks before it knows of the first. Its answer
// comes after six, and must come within 250 ms to count (F4 immediate election).
func rivals(f Fault, c Cluster, leader string, others []string) *broken {
	more := 5*time.Millisecond + time.Duration(f.Size*float64(30*time.Millisecond)).Truncate(time.Millisecond)
	slowed := slow(c, "", "", slowness{more: more}, oneWay(others, others))
	killed := kill(c, leader)
	if killed == nil {
		slowed.end()
		return nil
	}
	text := fmt.Sprintf("kill %s while messages of the others to each other take %v longer", leader, more)
	return &broken{"", text, func() bool {
		crossed := slowed.end()
		return killed.end() && crossed
	}}
}
