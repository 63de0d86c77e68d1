package check

import (
	"cmp"
	"slices"
	"time"

	"holdfast/session"
	"holdfast/test/sim/history"
)

// nodes is everything known about the nodes' processes and connections.
type nodes struct {
	// interval is the time between two heartbeats.
	interval time.Duration
	names    map[session.Node]string
	// started and stopped are when the processes of a node started and ended, by its name.
	started, stopped map[string][]time.Duration
	// stalls are when the processes of a node were stalled, in the order of time.
	stalls map[string][]span
	// resets are when the connections between two hosts were reset, under both orders of the two.
	resets map[pair][]time.Duration
	// refusals are when the dials of one host to another were refused.
	refusals map[pair][]span
	// mayRead are the nodes whose setting read_only is on.
	mayRead map[string]bool
}

// pair names two hosts.
type pair struct{ one, other string }

// note records events of processes and connections.
func (n *nodes) note(e history.Event) {
	switch e.Kind { //nolint:exhaustive // the other kinds are not about nodes
	case history.NodeStopped:
		n.stop(e)
	case history.NodeStarted:
		n.start(e)
	case history.Stalled:
		n.stall(e)
	case history.Reset:
		n.reset(e)
	case history.Refuses:
		n.refuse(e)
	case history.Admits:
		n.admit(e)
	}
}

func (n *nodes) start(e history.Event) {
	n.names[e.Node] = e.Who
	n.started[e.Who] = append(n.started[e.Who], e.At)
	n.mayRead[e.Who] = e.State.Mode == session.ModeReadOnly
}

func (n *nodes) stop(e history.Event) { n.stopped[e.Who] = append(n.stopped[e.Who], e.At) }

func (n *nodes) stall(e history.Event) {
	n.stalls[e.Who] = append(n.stalls[e.Who], span{from: e.Sent, till: e.At})
}

func (n *nodes) reset(e history.Event) {
	for _, p := range []pair{{e.Who, e.Text}, {e.Text, e.Who}} {
		n.resets[p] = append(n.resets[p], e.At)
	}
}

// startedWithin reports whether a process of a node began between two moments.
func (n *nodes) startedWithin(who string, from, till time.Duration) bool {
	return slices.ContainsFunc(n.started[who], func(s time.Duration) bool { return s >= from && s <= till })
}

// process names one process of a node.
type process struct {
	who   string
	began time.Duration
}

// process returns the process of a node that gave an answer. It reports false when another process of the node started
// between request and answer.
func (n *nodes) process(e history.Event) (process, bool) {
	who := n.names[cmp.Or(e.State.Node, e.Node)]
	p := process{who, -1}
	for _, s := range n.started[who] {
		switch {
		case s < e.Sent:
			p.began = s
		case s <= e.At:
			return process{}, false
		}
	}
	return p, p.began >= 0
}

// credit returns the credit for the stalls of a node's process between two moments (E1 full timeout after a change of
// leader): the time that the stalls and two intervals after each of them cover. A stall begins at the process's last
// reading of its clocks, a quarter of an interval earlier at most. A stall shorter than an interval counts for nothing.
func (n *nodes) credit(owner session.Node, from, till time.Duration) (sum time.Duration) {
	covered := time.Duration(0)
	for _, s := range n.stalls[n.names[owner]] {
		if s.till <= from || s.from >= till || s.till-s.from <= n.interval {
			continue
		}
		end := s.till + 2*n.interval
		sum += max(end-max(s.from-n.interval/4, covered), 0)
		covered = end
	}
	return sum
}

// spared returns the latest moment at which the silence of a session may begin to count: its owner got its last touch
// at a moment, or before, and stalls of the owner after that are no silence. If the touch came just before the end of a
// stall, the whole stall is credited; a later touch gets no credit for it. So silence that began earlier may count
// later.
func (n *nodes) spared(owner session.Node, received, till time.Duration) time.Duration {
	latest := received + n.credit(owner, received, till)
	for _, s := range n.stalls[n.names[owner]] {
		if s.till <= received {
			just := s.till - 1
			latest = max(latest, just+n.credit(owner, just, till))
		}
	}
	return latest
}
