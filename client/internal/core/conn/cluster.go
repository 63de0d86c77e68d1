package conn

import (
	"github.com/hashicorp/go-hclog"

	"holdfast/session"
)

// A cluster that starts anew, or is restored from a backup, is another cluster: its log has other indexes, and its tree
// other stamps. With indexes of the former cluster, nodes of the present cluster would refuse the client's reads for
// ever, and start its watches at a wrong position. So the client stores its index and stamp with the identity of the
// cluster, and discards both as soon as the current node belongs to another cluster. A candidate changes nothing: it
// may be a wrongly configured server, which refuses the sessions.

// isAnother reports whether cluster differs from the cluster that the client knows.
func (m *Manager) isAnother(cluster uint64) bool {
	known := m.Effects.Known.Cluster
	return cluster != 0 && known != 0 && cluster != known
}

// recordCluster records the cluster of the current node.
func (m *Manager) recordCluster(now *session.NodeState) {
	known := &m.Effects.Known
	if m.isAnother(now.Cluster) {
		m.Log(hclog.Warn, "another cluster than before: it was recreated or restored, or an address belongs "+
			"to another cluster now; watches report lost events", "node", now.Node)
		known.Seen, known.Stamp, m.distrusted = now.Index, 0, 0
		m.handler.ClusterChanged()
	}
	if now.Cluster != 0 {
		known.Cluster = now.Cluster
	}
}

// RecordKnown merges reports that nodes made to other clients of the process. The other clients may have reached
// another cluster earlier, or may still be at the former cluster.
func (m *Manager) RecordKnown(others Known) {
	known := &m.Effects.Known
	if known.Cluster == 0 {
		known.Cluster = others.Cluster
	}
	if others.Cluster == known.Cluster {
		known.Seen, known.Stamp = max(known.Seen, others.Seen), max(known.Stamp, others.Stamp)
	}
}

// MinIndex returns the index that a node must have applied to serve a resume (N4 seen index); 0 for none.
func (m *Manager) MinIndex() uint64 {
	if index := m.Effects.Known.Seen; index != m.distrusted {
		return index
	}
	return 0
}
