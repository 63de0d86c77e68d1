package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// raftAddress is where Raft dials a server.
func raftAddress(s raft.Server) string {
	address, _, _ := raftnet.Split(s.Address) // one that names no directory is shown as it is
	return address
}

// drift says of which nodes Raft's newest configuration and this node's peers do not say the same, and what to do;
// nothing while there is no configuration. Peers are what an operator changes, and Raft does not read them: without a
// word he would believe them.
func (n *Node) drift() []string {
	members := map[session.Node]string{}
	for _, s := range n.servers() {
		if node, _, err := nodeOfServer(s.ID); err == nil {
			members[node] = raftAddress(s)
		}
	}
	if len(members) == 0 {
		return nil
	}
	var found []string
	for _, p := range n.cfg.Peers {
		switch address, member := members[p.Node]; {
		case !member:
			found = append(
				found, fmt.Sprintf(
					"node %d is among this node's peers, at %s, and no member: start it on an empty data directory "+
						"if it does not run yet", p.Node, p.Raft,
				),
			)
		case address != p.Raft:
			found = append(found, fmt.Sprintf("node %d was taken in at %s, and is among this node's peers at %s: "+
				"it is dialled there first; make peers the same on every node", p.Node, address, p.Raft))
		}
		delete(members, p.Node)
	}
	for _, node := range slices.Sorted(maps.Keys(members)) {
		found = append(found, fmt.Sprintf("node %d is a member at %s, and not among this node's peers: "+
			"add it there; who votes counts for the quorum whether it runs or not, and none can be removed", node,
			members[node]))
	}
	return found
}

// tellDrift logs the differences unless they are those that were told last, and returns what has been told now.
func (n *Node) tellDrift(told string) string {
	now := strings.Join(n.drift(), "; ")
	switch now {
	case told:
	case "":
		n.logger.Info("Raft's configuration and this node's peers say the same again")
	default:
		n.logger.Warn("Raft's configuration and this node's peers differ", "reason", now)
	}
	return now
}

// explained adds the differences to why this node does not serve, when it hears of no leader: they may be the cause.
func (n *Node) explained(err error) error {
	if !errors.Is(err, session.ErrNoLeader) {
		return err
	}
	if found := n.drift(); len(found) > 0 {
		return fmt.Errorf("%w; %s", err, strings.Join(found, "; "))
	}
	return err
}
