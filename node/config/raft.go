package config

import "github.com/hashicorp/raft"

// Raft is the part of Raft's configuration that settings say; the rest has Raft's defaults.
func (c Config) Raft() *raft.Config {
	r := raft.DefaultConfig()
	r.HeartbeatTimeout = c.RaftHeartbeatTimeout
	r.ElectionTimeout = c.RaftElectionTimeout
	r.LeaderLeaseTimeout = c.RaftLeaseTimeout
	r.CommitTimeout = CommitTimeout
	r.SnapshotInterval = c.SnapshotInterval
	r.SnapshotThreshold = c.SnapshotThreshold
	r.TrailingLogs = c.TrailingLogs
	return r
}
