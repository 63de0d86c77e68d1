package node

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// raftAddress returns the address at which Raft dials a server.
func raftAddress(s raft.Server) string {
	address, _, _ := raftnet.Split(s.Address) // an address without a directory is shown as it is
	return address
}

// drift says how Raft's newest configuration and this node's peers differ, and what to do; nothing while there is no
// configuration. The log counts (J1): without a report the operator would take the peers for the members.
func (r *roster) drift() []string {
	members := map[session.Node]string{}
	for _, s := range r.servers() {
		if node, _, err := nodeOfServer(s.ID); err == nil {
			members[node] = raftAddress(s)
		}
	}
	if len(members) == 0 {
		return nil
	}
	return differences(r.peers, members, r.was)
}

// differences compares peers with the addresses at which members were taken in: one text for each node that differs.
// was reports whether a node was removed.
func differences(peers []config.Peer, members map[session.Node]string, was func(session.Node) bool) []string {
	var found []string
	unnamed := maps.Clone(members)
	for _, p := range peers {
		switch address, member := members[p.Node]; {
		case !member && was(p.Node):
			found = append(found, fmt.Sprintf("node %d is among this node's peers, and was removed from the cluster for "+
				"good: take it out of peers", p.Node))
		case !member:
			found = append(found, fmt.Sprintf("node %d is among this node's peers, at %s, but is not a member: start "+
				"it on an empty data directory if it does not run yet", p.Node, p.Raft))
		case address != p.Raft:
			found = append(found, fmt.Sprintf("node %d was taken in at %s, but is among this node's peers at %s: "+
				"nodes dial the address in peers first; make peers the same on every node", p.Node, address, p.Raft))
		}
		delete(unnamed, p.Node)
	}
	for _, node := range slices.Sorted(maps.Keys(unnamed)) {
		found = append(found, fmt.Sprintf("node %d is a member at %s, but not among this node's peers: "+
			"the log counts, so add it there; if it is gone for good, holdfast cluster remove %d: a voter counts for the "+
			"quorum whether it runs or not", node, unnamed[node], node))
	}
	return found
}

// report logs a list of differences when it has changed. It belongs to one goroutine.
type report struct {
	// differ is logged with the differences, same once there are none any more.
	differ, same string
	// told are the differences in the log.
	told string
}

func (r *report) tell(logger hclog.Logger, found []string) {
	now := strings.Join(found, "; ")
	switch now {
	case r.told:
	case "":
		logger.Info(r.same)
	default:
		logger.Warn(r.differ, "reason", now)
	}
	r.told = now
}
