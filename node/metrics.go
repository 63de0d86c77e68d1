package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node/health"
	"holdfast/node/metrics"
	"holdfast/node/ports"
)

// newRegistry returns what /metrics of n exposes.
func (n *Node) newRegistry() *prometheus.Registry {
	return metrics.NewRegistry(n.timings, n.measure)
}

// measure reads everything that /metrics exposes.
func (n *Node) measure() *metrics.Snapshot {
	served := n.ports.Stats()
	s := &metrics.Snapshot{
		Raft: metrics.Raft{
			Term: n.view.Term(), CommitIndex: n.consensus.Raft.CommitIndex(), AppliedIndex: n.view.AppliedIndex(),
		},
		Applied:   n.view.turnover.counts(),
		Tree:      n.treeStatus(),
		Replica:   n.replica.stats(),
		Learner:   n.server.Stats(),
		Local:     n.server.LocalUsage(),
		Mode:      n.server.State().Mode,
		Proposer:  n.consensus.Proposer.Stats(),
		LogWrites: n.consensus.Store.Writes(),
		Notices:   n.consensus.NoticeStats(),
		Elections: metrics.Elections(n.voter.Stats()),
		Health: metrics.Health{
			Ready: n.health.Check() == nil, Draining: n.drain.On(),
			SettingsDiffer: len(n.admission.SettingsDifferences()),
		},
		Stalls:    n.watchdog.Stats(),
		Resources: resourceMetrics(n.resources.Stats()),
		Client:    served.Client,
		ZooKeeper: served.ZooKeeper,
		TLS:       tlsMetrics(&served),
		Auth:      metrics.Auth{FileFailing: served.AuthFileFailing, Forbidden: served.Denied},
		Audit:     served.Audit,
		Traces:    n.traces.stats(),
		Led:       n.roles.Totals(),
	}
	s.State = metrics.State{
		Usage: n.view.Usage(), Sessions: n.view.Sessions(), RequestIDs: n.view.Requests(), RetiredNumbers: n.view.CountUsedUp(),
		Extended: n.view.Tree().Extended(),
	}
	_, s.State.Frozen = n.view.freezes.Present()
	s.Replica.OlderCopy = n.dir.OlderCopy() != ""
	if t := n.roles.Tracker(); t != nil {
		s.Term = t.Stats()
	}
	return s
}

func resourceMetrics(s health.ResourceStats) metrics.Resources {
	return metrics.Resources{
		DiskFree: s.Disk.Free, DiskReserve: s.Reserve, Heap: s.Heap, MemoryLimit: s.Memory.Limit,
		MemoryLimitBy: s.Memory.From.Label(), RefusingForDisk: s.RefusingForDisk, RefusingForMemory: s.RefusingForMemory,
	}
}

// tlsMetrics describes the certificates, and the connections that were refused.
func tlsMetrics(s *ports.Stats) metrics.TLS {
	return metrics.TLS{Stats: s.TLS, Refused: [metrics.TLSPorts]uint64{
		metrics.RaftPort: s.Refused.Raft, metrics.PeerPort: s.Refused.Peer, metrics.ClientPort: s.Refused.Client,
		metrics.HTTPPort: s.Refused.HTTP, metrics.ZooKeeperPort: s.Refused.ZooKeeper,
	}}
}
