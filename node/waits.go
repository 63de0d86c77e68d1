package node

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// hope begins anew with why a node does not let this one in, and notes what no leader will change. Called with mu held.
func (a *admission) hope(from session.Node, m *meeting) {
	delete(a.waits, from)
	delete(a.hopeless, from)
	switch {
	case m.Gone:
		a.hopeless[from] = fmt.Sprintf("node %d was removed from the cluster for good, as node %d says: stop this node, and "+
			"start a new one with a number that no node has had", a.self, from)
	case m.Kept:
		a.hopeless[from] = fmt.Sprintf("node %d is a member on another data directory, as node %d says, and was added at "+
			"run time or is an observer: no leader takes it in on this one; stop this node, and put that directory back "+
			"unless it is an older copy, or run holdfast cluster remove %d and start a new node with a number that no node "+
			"has had", a.self, from, a.self)
	}
}

// waitsError says that the node waits for its admission.
type waitsError struct {
	// nodes have not agreed with this one on the founders of the cluster. why are the known reasons.
	nodes []session.Node
	why   []string
	// mine is the node's directory. former is the directory that the cluster knows for the node, 0 when it knows none.
	mine, former raftnet.Directory
	// hopeless says why no leader takes the node in; empty: one may.
	hopeless string
	// lost are the nodes on new directories, this one among them, if they are so many that no majority is left on former
	// ones.
	lost []session.Node
	// joins is the node's number if it founds no cluster, else 0.
	joins session.Node
}

func (e *waitsError) Error() string {
	if e.hopeless != "" {
		return e.hopeless
	}
	text := "waiting for " + e.awaited() +
		": this node's data directory is new, and the node takes part once all nodes have met"
	if e.joins != 0 {
		text = fmt.Sprintf("join is on, so that this node founds no cluster: it takes part once an operator of the cluster "+
			"has run holdfast cluster add %d HOST", e.joins)
	}
	if e.former != 0 {
		text = fmt.Sprintf("this node's data directory was emptied, lost or replaced: it is a new one (%v), and the "+
			"cluster knows the node on %v; ", e.mine, e.former)
		if len(e.lost) > 0 {
			text += noMajority(e.lost)
		} else {
			text += "the node comes back by itself, as a new one, while a majority of the other nodes runs and has a " +
				"leader; to go on with the former directory instead, stop the node and put that directory back, unless it is " +
				"an older copy"
		}
	}
	if len(e.why) > 0 {
		text += ": " + strings.Join(e.why, "; ")
	}
	return text
}

// awaited names the nodes that this one waits for, as in "nodes 2, 3".
func (e *waitsError) awaited() string {
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

// noMajority says what to do when so many nodes are on new directories that no majority is left on former ones.
func noMajority(lost []session.Node) string {
	return namedNodes(lost) + " are on new data directories, so that no majority is left on the former ones, and no leader " +
		"can take a node in: stop them, and put their former directories back, unless those are older copies; when these " +
		"are lost for good, " + lostMajority
}
