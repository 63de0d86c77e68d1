package members

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// waitingError says why the node waits for its admission, and what to do.
type waitingError struct {
	// nodes have not agreed with this node on the founders of the cluster. reasons are the known reasons.
	nodes   []session.Node
	reasons []string
	// own is the node's directory. former is the directory that the cluster knows for the node, 0 when it knows none.
	own, former raftnet.Directory
	// hopeless says why no leader adds the node; empty: one may.
	hopeless string
	// noMajority says what to do when no majority is left on former directories; empty: a majority may be left.
	noMajority string
	// joins is the node's number if it founds no cluster, else 0.
	joins session.Node
}

func (e *waitingError) Error() string {
	if e.hopeless != "" {
		return e.hopeless
	}
	text := "waiting for " + e.awaited() +
		": this node's data directory is new, and the node joins once all nodes have met"
	if e.joins != 0 {
		text = fmt.Sprintf("join is on, so this node founds no cluster: it joins once an operator of the cluster "+
			"has run holdfast cluster add %d HOST", e.joins)
	}
	if e.former != 0 {
		text = fmt.Sprintf("this node's data directory was emptied, lost or replaced: it is a new one (%v), and the "+
			"cluster knows the node on %v; ", e.own, e.former)
		if e.noMajority != "" {
			text += e.noMajority
		} else {
			text += "the node comes back by itself, as a new one, while a majority of the other nodes runs and has a " +
				"leader; to continue with the former directory instead, stop the node and put that directory back, unless it is " +
				"an older copy"
		}
	}
	if len(e.reasons) > 0 {
		text += ": " + strings.Join(e.reasons, "; ")
	}
	return text
}

// awaited names the nodes that this node waits for, as in "nodes 2, 3".
func (e *waitingError) awaited() string {
	if len(e.nodes) == 0 {
		return "the leader"
	}
	return namedNodes(e.nodes)
}

// namedNodes names one or more nodes, as in "nodes 2, 3".
func namedNodes(nodes []session.Node) string {
	var names []string
	for _, node := range nodes {
		names = append(names, strconv.Itoa(int(node)))
	}
	if len(names) == 1 {
		return "node " + names[0]
	}
	return "nodes " + strings.Join(names, ", ")
}

// Check returns nil when the node has been admitted, or else says why it waits and what to do.
func (a *Admission) Check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders != nil {
		return nil
	}
	e := &waitingError{own: a.own, former: a.former[a.self], noMajority: a.noMajorityOf(a.former)}
	for _, node := range slices.Sorted(maps.Keys(a.hopeless)) {
		e.hopeless = a.hopeless[node] // one is enough
	}
	if a.joins { // the reasons of nodes that may not greet this node yet would send an operator to their peers
		e.joins = a.self
		return e
	}
	for _, node := range slices.Sorted(maps.Keys(a.reasons)) {
		e.reasons = append(e.reasons, a.reasons[node])
	}
	for _, node := range slices.Sorted(slices.Values(a.others)) {
		if !a.agreed[node] {
			e.nodes = append(e.nodes, node)
		}
	}
	return e
}

// updateReasons drops the former reason of a node to keep this node waiting, and notes a reason that no leader will
// change. Called with mu held.
func (a *Admission) updateReasons(from session.Node, answer *peerInfo) {
	delete(a.reasons, from)
	delete(a.hopeless, from)
	switch {
	case answer.Removed:
		a.hopeless[from] = fmt.Sprintf("node %d was removed from the cluster for good, as node %d says: stop this node, and "+
			"start a new one with a number that no node has had", a.self, from)
	case answer.Retained:
		a.hopeless[from] = fmt.Sprintf("node %d is a member on another data directory, as node %d says, and was added at "+
			"run time or is an observer: no leader adds it on this one; stop this node, and put that directory back "+
			"unless it is an older copy, or run holdfast cluster remove %d and start a new node with a number that no node "+
			"has had", a.self, from, a.self)
	}
}

// noMajorityOf returns what to do when so many nodes of a cluster are on new data directories that no majority is left
// on the former ones; "" while a majority is left. Called with mu held.
func (a *Admission) noMajorityOf(cluster raftnet.Directories) string {
	var lost []session.Node
	for _, node := range slices.Sorted(maps.Keys(cluster)) {
		if a.fresh[node] || node == a.self && a.founders == nil {
			lost = append(lost, node)
		}
	}
	if len(lost) == 0 || len(cluster)-len(lost) > len(cluster)/2 {
		return ""
	}
	return namedNodes(lost) + " are on new data directories, so that no majority is left on the former ones, and no leader " +
		"can add a node: stop them, and put their former directories back, unless those are older copies; when these " +
		"are lost for good, " + a.lostMajority
}

// NoMajority returns what to do on an admitted node when no majority of its cluster is left on its data directories; ""
// while a majority may be left.
func (a *Admission) NoMajority() string {
	members := raftnet.Directories{}
	for _, node := range append([]session.Node{a.self}, a.others...) {
		if d := a.directoryOf(node); d != 0 {
			members[node] = d
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders == nil {
		return ""
	}
	return a.noMajorityOf(members)
}
