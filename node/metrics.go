package node

import (
	"github.com/prometheus/client_golang/prometheus"

	"holdfast/node/health"
	"holdfast/node/metrics"
	"holdfast/transport/secure"
)

// newRegistry returns what /metrics of n exposes.
func newRegistry(n *Node) *prometheus.Registry {
	return metrics.NewRegistry(n.timings, n.measure)
}

// measure reads everything that /metrics exposes.
func (n *Node) measure() *metrics.Snapshot {
	s := &metrics.Snapshot{
		Raft: metrics.Raft{
			Term: n.view.Term(), CommitIndex: n.consensus.raft.CommitIndex(), AppliedIndex: n.view.AppliedIndex(),
		},
		Applied:   n.view.turnover.counts(),
		Tree:      n.treeStatus(),
		Replica:   n.replica.stats(),
		Learner:   n.server.Stats(),
		Local:     n.server.LocalUsage(),
		Mode:      n.server.State().Mode,
		Proposer:  n.consensus.proposer.Stats(),
		LogWrites: n.consensus.store.Writes(),
		Notices:   n.consensus.notice.notices.Stats(),
		Elections: metrics.Elections(n.voter.Stats()),
		Health: metrics.Health{
			Ready: n.health.Check() == nil, Draining: n.drain.On(),
			SettingsDiffer: len(n.admission.SettingsDifferences()),
		},
		Stalls:    n.watchdog.Stats(),
		Resources: resourceMetrics(n.resources.Stats()),
		Client:    n.ports.client.Stats(),
		TLS:       n.ports.security.measure(),
		Auth:      metrics.Auth{FileFailing: n.ports.access.failing(), Forbidden: n.ports.access.Stats()},
		Audit:     n.ports.access.audit,
		Traces:    n.traces.stats(),
		Led:       n.roles.Totals(),
	}
	s.State = metrics.State{
		Usage: n.view.Usage(), Sessions: n.view.Sessions(), RequestIDs: n.view.Requests(), RetiredNumbers: n.view.CountUsedUp(),
		Extended: n.view.Tree().Extended(),
	}
	_, s.State.Frozen = n.view.freezes.Present()
	s.Replica.OlderCopy = n.dir.OlderCopy() != ""
	if n.ports.front != nil {
		s.ZooKeeper = n.ports.front.Stats()
	}
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

// measure describes the certificates, and the connections that were refused.
func (s *security) measure() metrics.TLS {
	m := metrics.TLS{Stats: s.stats()}
	for port, server := range [metrics.TLSPorts]*secure.Server{
		metrics.RaftPort: s.raft, metrics.PeerPort: s.peers, metrics.ClientPort: s.client, metrics.HTTPPort: s.http,
		metrics.ZooKeeperPort: s.zookeeper,
	} {
		m.Refused[port] = server.Refused()
	}
	return m
}
