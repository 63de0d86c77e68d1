// Package config holds the settings of a node: their table, where they come from, and what they must be.
package config

import (
	"time"

	"holdfast/session"
)

// Config is what a node is told at its start. The zero value of a setting that is derived from the tick means "derive
// it". Config is a value: nothing in this package changes one that it was given. Settings, defaults and ranges are in
// the table of [Reference].
type Config struct {
	// Node is this node's number, 1 to 254, one of Peers.
	Node session.Node
	// ClusterID keeps nodes of different clusters apart.
	ClusterID string
	// DataDir belongs to this node alone.
	DataDir string
	// Peers are all nodes of the cluster, this one included, and the same on every node.
	Peers []Peer

	// ClientListen, RaftListen, PeerListen and HTTPListen are HOST:PORT; an empty host is every interface.
	ClientListen, RaftListen, PeerListen, HTTPListen string

	// Tick is the unit that limits of timeouts are counted in.
	Tick time.Duration
	// HeartbeatInterval is the time between two rounds (R1).
	HeartbeatInterval time.Duration
	// MinTimeout and MaxTimeout clamp the timeouts of sessions.
	MinTimeout, MaxTimeout time.Duration
	// ExpiryInterval is the width of a bucket of the expiry queue.
	ExpiryInterval time.Duration

	// MaxSessions and MaxStateBytes bound what the cluster keeps (O4): the values of the node that leads. Sessions of
	// this node alone are bounded by its own.
	MaxSessions, MaxStateBytes uint64

	// LocalSessions and LocalSessionUpgrade are on or off, the same on every node: whether clients may open sessions
	// that one node alone knows, and whether those may be made global (L1, L7).
	LocalSessions, LocalSessionUpgrade string

	// ReadOnly is on or off, and each node's own: whether this one serves reads of the state it has applied while it
	// hears of no quorum (N1).
	ReadOnly string

	// RaftHeartbeatTimeout, RaftElectionTimeout and RaftLeaseTimeout are Raft's own.
	RaftHeartbeatTimeout, RaftElectionTimeout, RaftLeaseTimeout time.Duration
	// RaftApplyTimeout bounds the wait for one log entry.
	RaftApplyTimeout time.Duration
	// StallLimit is how long a write, or the applying of an entry, may take before the node steps out.
	StallLimit time.Duration
	// SnapshotInterval is how often the need for a snapshot is looked at.
	SnapshotInterval time.Duration
	// SnapshotThreshold and TrailingLogs are numbers of log entries.
	SnapshotThreshold, TrailingLogs uint64

	// MaxMessageBytes bounds one message of a client.
	MaxMessageBytes int
	// MaxStreamsPerConnection, MaxConnections, MaxSessionsPerConnection and MaxRequestsPerConnection bound what clients
	// can hold of this node.
	MaxStreamsPerConnection, MaxConnections, MaxSessionsPerConnection, MaxRequestsPerConnection int
	// MaxStreams bounds the calls under way on all connections.
	MaxStreams int
	// MaxWaitingBytes bounds what waits for clients on this node, in all.
	MaxWaitingBytes int
	// MaxOpensPerSecond, MaxResumesPerSecond and MaxTouchesPerSecond are budgets of this node,
	// MaxArrivalsPerSecondPerAddress and MaxArrivalsPerSecondPerPrincipal those of opens and resumes together of one
	// address or client, and MaxConnectionsPerAddress is how many connections one address may have. 0 is no limit.
	MaxOpensPerSecond, MaxResumesPerSecond, MaxTouchesPerSecond      int
	MaxArrivalsPerSecondPerAddress, MaxArrivalsPerSecondPerPrincipal int
	MaxConnectionsPerAddress                                         int
	// LaggingWait is how long a request waits for this node to catch up with its token (M5).
	LaggingWait time.Duration
	// ShutdownTimeout bounds an orderly stop.
	ShutdownTimeout time.Duration

	// LogLevel is trace, debug, info, warn, error or off; LogFormat is text or json.
	LogLevel, LogFormat string
}

// Default returns the defaults. Node, DataDir and Peers have none.
func Default() Config {
	var c Config
	for _, s := range settings() {
		if s.def == "" {
			continue
		}
		if err := s.value(&c).Set(s.def); err != nil {
			panic("node: default of " + s.name + ": " + err.Error())
		}
	}
	return c
}

// Complete returns c with the settings filled in that are derived from the tick, or all that is wrong with it at once:
// the error joins one [SettingError] for each problem.
func (c Config) Complete() (Config, error) { return c.complete(provenance{}) }

func (c Config) complete(from provenance) (Config, error) {
	c = c.derive()
	if err := check(c, from); err != nil {
		return Config{}, err
	}
	return c, nil
}

func (c Config) derive() Config {
	if c.HeartbeatInterval == 0 {
		c.HeartbeatInterval = c.Tick / 4
	}
	limits := session.DefaultLimits(c.Tick)
	if c.MinTimeout == 0 {
		c.MinTimeout = limits.Min
	}
	if c.MaxTimeout == 0 {
		c.MaxTimeout = limits.Max
	}
	return c
}

// Self returns this node's own entry of Peers, false when there is none: a complete Config has one.
func (c Config) Self() (Peer, bool) {
	for _, p := range c.Peers {
		if p.Node == c.Node {
			return p, true
		}
	}
	return Peer{}, false
}

// Local reports whether local sessions are on.
func (c Config) Local() bool { return c.LocalSessions == On }

// leastForAnElection is what nodes that have noticed the loss of their leader have for electing another, at least (N1).
const leastForAnElection = 2 * time.Second

// ReadOnlyAfter is for how long no good round is learnt of before a node may be read-only (N1): longer than an election
// of nodes that reach each other takes, as a rule. The newest good round may be an interval old when the leader ends,
// the first follower notices that after one to two heartbeat timeouts of Raft's as a rule, three at most, and the new
// leader's first good round is told with its second. It is no bound: votes may split, and each time costs an election
// timeout.
func (c Config) ReadOnlyAfter() time.Duration {
	return 3*c.HeartbeatInterval + 2*c.RaftHeartbeatTimeout + max(c.Tick, leastForAnElection)
}

// Capacity returns the bounds of what the cluster keeps.
func (c Config) Capacity() session.Capacity {
	return session.Capacity{MaxSessions: c.MaxSessions, MaxBytes: c.MaxStateBytes}
}

// Limits returns the bounds of timeouts of sessions.
func (c Config) Limits() session.Limits { return session.Limits{Min: c.MinTimeout, Max: c.MaxTimeout} }

// Warnings says what is allowed and probably not wanted, one sentence each.
func (c Config) Warnings() []string {
	switch n := len(c.Peers); {
	case n == 1:
		return []string{"one node survives no failure: give peers three or five nodes"}
	case n > 0 && n%2 == 0:
		return []string{
			"an even number of peers survives no more failures than one peer less: give peers three or five nodes",
		}
	default:
		return nil
	}
}
