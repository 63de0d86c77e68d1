package config

import (
	"time"

	"github.com/hashicorp/raft"
)

const (
	// commitPart is the part of the heartbeat timeout, and of lagging_wait, that Raft's commit timeout is at most.
	commitPart = 5
	// minCommitTimeout and maxCommitTimeout bound Raft's commit timeout.
	minCommitTimeout = 10 * time.Millisecond
	maxCommitTimeout = 200 * time.Millisecond
)

// CommitTimeout is Raft's commit timeout. A leader tells its followers of a commit at once (R7). When that is lost,
// they hear of it one to two commit timeouts later. That is below the time that a node waits to catch up with a token
// (M5). Each commit timeout wakes the leader for each follower, also in an idle cluster.
func (c Config) CommitTimeout() time.Duration {
	return max(minCommitTimeout, min(c.Raft.HeartbeatTimeout/commitPart, c.Clients.LaggingWait/commitPart,
		maxCommitTimeout))
}

// Raft are the settings of Raft and of its log.
type Raft struct {
	// HeartbeatTimeout, ElectionTimeout and LeaseTimeout are Raft's own times. In [Default] LeaseTimeout is 0, which means
	// HeartbeatTimeout: a shorter one deposes leaders whose followers are only slow.
	HeartbeatTimeout, ElectionTimeout, LeaseTimeout time.Duration
	// QuickElection lets voters elect as soon as they find the leader gone (F1).
	QuickElection bool
	// Join says that this node founds no cluster, and waits until an operator adds it to one (J2).
	Join bool
	// ApplyTimeout bounds the wait for one log entry.
	ApplyTimeout time.Duration
	// StallLimit is how long a write to the log, or the applying of an entry, may take before the node steps out.
	StallLimit time.Duration
	// SnapshotInterval is the time between two checks whether a snapshot is due.
	SnapshotInterval time.Duration
	// SnapshotThreshold and TrailingLogs are numbers of log entries.
	SnapshotThreshold, TrailingLogs uint64
}

// derive fills in the setting that depends on another.
func (r Raft) derive() Raft {
	if r.LeaseTimeout == 0 {
		r.LeaseTimeout = r.HeartbeatTimeout
	}
	return r
}

// Config returns Raft's configuration as far as settings and this package decide it. The rest has Raft's defaults.
func (r Raft) Config() *raft.Config {
	c := raft.DefaultConfig()
	c.HeartbeatTimeout = r.HeartbeatTimeout
	c.ElectionTimeout = r.ElectionTimeout
	c.LeaderLeaseTimeout = r.LeaseTimeout
	c.SnapshotInterval = r.SnapshotInterval
	c.SnapshotThreshold = r.SnapshotThreshold
	c.TrailingLogs = r.TrailingLogs
	return c
}

func raftSettings() []setting {
	own := span[time.Duration]{5 * time.Millisecond, time.Minute}
	return []setting{
		duration("raft_heartbeat_timeout", "1s", own,
			func(c *Config) *time.Duration { return &c.Raft.HeartbeatTimeout }).
			helps("silence of a leader after which a follower stands for election"),
		duration("raft_election_timeout", "1s", own,
			func(c *Config) *time.Duration { return &c.Raft.ElectionTimeout }).
			helps("time from the start of an election to the next election; at least raft_heartbeat_timeout"),
		duration("raft_lease_timeout", "", own,
			func(c *Config) *time.Duration { return &c.Raft.LeaseTimeout }).
			from("raft_heartbeat_timeout").
			helps("time without a quorum after which a leader steps down; at most raft_heartbeat_timeout"),
		toggle("raft_quick_election", on, func(c *Config) *bool { return &c.Raft.QuickElection }).
			helps("whether voters elect at once when a majority of them finds that the leader's process has ended, or " +
				"that nothing was heard of the leader for one and a half raft_heartbeat_timeout; off: Raft's timeouts " +
				"decide alone"),
		duration("raft_apply_timeout", "5s", span[time.Duration]{10 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.Raft.ApplyTimeout }).
			helps("time that a log entry has to commit, before its outcome counts as unknown"),
		duration("stall_limit", "3s", span[time.Duration]{100 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.Raft.StallLimit }).
			helps("how long a write to the log, or the applying of an entry, may take before the node steps out and " +
				"the others elect; at least raft_heartbeat_timeout"),
		duration("snapshot_interval", "2m", span[time.Duration]{5 * time.Millisecond, 24 * time.Hour},
			func(c *Config) *time.Duration { return &c.Raft.SnapshotInterval }).
			helps("time between two checks whether a snapshot is due"),
		number("snapshot_threshold", "8192", span[uint64]{1, 1 << 40},
			func(c *Config) *uint64 { return &c.Raft.SnapshotThreshold }).
			helps("log entries after which a snapshot is due; one is also due after 256 MiB of log"),
		number("trailing_logs", "10240", span[uint64]{1, 1 << 40},
			func(c *Config) *uint64 { return &c.Raft.TrailingLogs }).
			helps("log entries kept after a snapshot, for followers that are behind: the newest 256 MiB of them"),
	}
}

// raft checks Raft's own rules for its times, so that they are reported together with all other problems.
func (k *checker) raft() {
	const heartbeat = "raft_heartbeat_timeout"
	if r := k.c.Raft; r.LeaseTimeout > r.HeartbeatTimeout {
		k.clash("must be at most "+k.other(heartbeat), "raft_lease_timeout", heartbeat)
	}
	if r := k.c.Raft; r.ElectionTimeout < r.HeartbeatTimeout {
		k.clash("must be at least "+k.other(heartbeat), "raft_election_timeout", heartbeat)
	}
	// A delay that Raft itself does not take for silence is no stall.
	if r := k.c.Raft; r.StallLimit < r.HeartbeatTimeout {
		k.clash("must be at least "+k.other(heartbeat), "stall_limit", heartbeat)
	}
}
