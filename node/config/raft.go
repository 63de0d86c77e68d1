package config

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// commitPart is the part of the heartbeat timeout, and of the wait of a lagging node, that Raft's commit timeout is at
	// most.
	commitPart = 5
	// minCommitTimeout and maxCommitTimeout bound Raft's commit timeout.
	minCommitTimeout = 10 * time.Millisecond
	maxCommitTimeout = 200 * time.Millisecond
)

// CommitTimeout is Raft's commit timeout. A leader tells its followers of a commit at once (R7 commit notices). When
// the notice is lost, they learn of the commit one to two commit timeouts later. That is below the time that a node waits to catch up
// with a token (M5 lagging, not expired). Each commit timeout wakes the leader for each follower, also in an idle
// cluster.
func (c Config) CommitTimeout() time.Duration {
	return max(minCommitTimeout, min(c.Raft.HeartbeatTimeout/commitPart, c.Sessions.CatchUpWait()/commitPart,
		maxCommitTimeout))
}

// Raft are the settings of Raft and of its log.
type Raft struct {
	// HeartbeatTimeout is all three of Raft's own times of elections: see [Config.RaftConfig].
	HeartbeatTimeout time.Duration
	// Join says that this node founds no cluster, and waits until an operator adds it to one (J2 add, promote, demote).
	Join bool
	// StallTimeout is how long a write to the log, or the applying of an entry, may take before the node steps out.
	StallTimeout time.Duration
}

// RaftConfig returns Raft's configuration as far as settings and this package decide it. The rest has Raft's defaults.
//
// A split vote is repeated after the time that followers take to notice a loss. A leader without a quorum steps down
// after that time too, the longest that Raft allows: a shorter lease deposes leaders whose followers are only slow.
func (c Config) RaftConfig() *raft.Config {
	r := raft.DefaultConfig()
	r.HeartbeatTimeout = c.Raft.HeartbeatTimeout
	r.ElectionTimeout = c.Raft.HeartbeatTimeout
	r.LeaderLeaseTimeout = c.Raft.HeartbeatTimeout
	r.CommitTimeout = c.CommitTimeout()
	r.SnapshotInterval = c.Tuning.SnapshotInterval
	r.SnapshotThreshold = c.Tuning.SnapshotThreshold
	r.TrailingLogs = c.Tuning.TrailingLogs
	return r
}

func raftSettings() []setting {
	return []setting{
		duration("raft_heartbeat_timeout", "1s", span[time.Duration]{5 * time.Millisecond, time.Minute},
			func(c *Config) *time.Duration { return &c.Raft.HeartbeatTimeout }).
			helps("silence after which a follower starts an election, or a leader without a quorum steps down; well " +
				"above the round trip between nodes"),
		duration("stall_timeout", "3s", span[time.Duration]{100 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.Raft.StallTimeout }).
			helps("time that a log write, or applying an entry, may take before the node steps out and the others " +
				"elect; at least raft_heartbeat_timeout"),
	}
}

// raft refuses a limit of stalls below the delay that Raft itself takes for silence.
func (k *checker) raft() {
	if r := k.c.Raft; r.StallTimeout < r.HeartbeatTimeout {
		k.clash("must be at least "+k.other("raft_heartbeat_timeout"), "stall_timeout", "raft_heartbeat_timeout")
	}
}
