package members

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/hashicorp/go-hclog"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Differences says how Raft's newest configuration and this node's peers differ, and what to do; nothing while there is
// no configuration. The log decides (J1 membership in the log): without these texts an operator would take the peers
// for the members.
func (m *Membership) Differences() []string {
	members := map[session.Node]string{}
	for _, s := range m.Servers() {
		if node, _, err := raftnet.ParseServerID(s.ID); err == nil {
			members[node] = RaftAddress(s)
		}
	}
	if len(members) == 0 {
		return nil
	}
	return differences(m.peers, members, m.WasRemoved)
}

// differences compares the peers with the addresses at which members were added: one text for each node that differs.
func differences(peers []config.Peer, members map[session.Node]string, removed func(session.Node) bool) []string {
	var found []string
	unnamed := maps.Clone(members)
	for _, p := range peers {
		switch address, member := members[p.Node]; {
		case !member && removed(p.Node):
			found = append(found, fmt.Sprintf("node %d is among this node's peers, and was removed from the cluster for "+
				"good: take it out of peers", p.Node))
		case !member:
			found = append(found, fmt.Sprintf("node %d is among this node's peers, at %s, but is not a member: start "+
				"it on an empty data directory if it does not run yet", p.Node, p.Raft))
		case address != p.Raft:
			found = append(found, fmt.Sprintf("node %d was added at %s, but is among this node's peers at %s: "+
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

// differencesLog logs a list of differences when the list has changed. It belongs to one goroutine.
type differencesLog struct {
	// differ is logged with the differences, same once there are none any more.
	differ, same string
	// logged are the differences in the newest line.
	logged string
}

func (d *differencesLog) write(logger hclog.Logger, found []string) {
	now := strings.Join(found, "; ")
	switch now {
	case d.logged:
	case "":
		logger.Info(d.same)
	default:
		logger.Warn(d.differ, "reason", now)
	}
	d.logged = now
}
