package config

import (
	"time"

	"holdfast/session"
)

// Sessions are the settings of sessions: how long they live, and how many there may be.
type Sessions struct {
	// HeartbeatInterval is the time between two rounds (R1 rounds).
	HeartbeatInterval time.Duration
	// MinTimeout and MaxTimeout clamp the timeouts of sessions.
	MinTimeout, MaxTimeout time.Duration

	// MaxSessions and MaxStateBytes bound what the cluster keeps (O4 state limits): the leader's values count. A node's
	// own values bound its local sessions.
	MaxSessions, MaxStateBytes uint64

	// Local lets clients open sessions that one node alone knows (L1 local to one node). LocalUpgrade lets clients make
	// such sessions global (L7 upgrade). Both are the same on every node.
	Local, LocalUpgrade bool
}

// maxCatchUpWait is longer than a healthy follower is behind, and short enough for a client to try another node within
// the promise of its session.
const maxCatchUpWait = time.Second

// CatchUpWait is how long a request waits for this node to catch up with the request's token (M5 lagging, not expired).
func (s Sessions) CatchUpWait() time.Duration { return min(maxCatchUpWait, s.MinTimeout) }

// ExpiryInterval is the width of a bucket of the expiry queue: a session ends at most this much later. The rounds and
// the commit before an end take longer by default, so that finer buckets would cost the leader more for little.
func (s Sessions) ExpiryInterval() time.Duration {
	return min(session.DefaultExpiryInterval, s.MinTimeout)
}

// Capacity returns the bounds of what the cluster keeps.
func (s Sessions) Capacity() session.Capacity {
	return session.Capacity{MaxSessions: s.MaxSessions, MaxBytes: s.MaxStateBytes}
}

// Limits returns the bounds of the timeouts of sessions.
func (s Sessions) Limits() session.Limits {
	return session.Limits{Min: s.MinTimeout, Max: s.MaxTimeout}
}

// minTimeout is the least of all timeouts. A follower applies an open a moment after the leader has answered it, or a
// commit timeout later when the leader's notice is lost: a node that waited for less than several of them would refuse
// opens that were done.
const minTimeout = 10 * minCommitTimeout

func sessionSettings() []setting {
	limits := session.DefaultLimits()
	return []setting{
		duration("heartbeat_interval", "500ms", span[time.Duration]{session.MinInterval, session.MaxInterval},
			func(c *Config) *time.Duration { return &c.Sessions.HeartbeatInterval }).
			helps("time between the leader's heartbeat rounds; more than the round trip between nodes, less than a " +
				"third of min_timeout"),
		duration("min_timeout", session.FormatDuration(limits.Min), span[time.Duration]{minTimeout, session.MaxTimeout},
			func(c *Config) *time.Duration { return &c.Sessions.MinTimeout }).
			helps("smallest session timeout, in whole milliseconds; shorter ones are raised"),
		duration("max_timeout", session.FormatDuration(limits.Max), span[time.Duration]{minTimeout, session.MaxTimeout},
			func(c *Config) *time.Duration { return &c.Sessions.MaxTimeout }).
			helps("largest session timeout, in whole milliseconds; longer ones are lowered"),
		number("max_sessions", "2000000", span[uint64]{1, session.MaxCapacitySessions},
			func(c *Config) *uint64 { return &c.Sessions.MaxSessions }).
			helps("replicated sessions of the cluster, and local sessions of each node; the leader's value counts"),
		number("max_state_bytes", "2147483648", span[uint64]{session.MinCapacityBytes, session.MaxCapacityBytes},
			func(c *Config) *uint64 { return &c.Sessions.MaxStateBytes }).
			helps("memory for replicated sessions, labels and request ids, and again for local sessions; the leader's " +
				"value counts"),
	}
}

func localSettings() []setting {
	return []setting{
		toggle("local_sessions", off, func(c *Config) *bool { return &c.Sessions.Local }).
			helps("on: clients may open sessions that only one node knows; the same on every node"),
		toggle("local_session_upgrade", on, func(c *Config) *bool { return &c.Sessions.LocalUpgrade }).
			helps("on: clients may make local sessions global, with the same id and timeout; the same on every node"),
	}
}

func readSettings() []setting {
	return []setting{
		toggle("read_only", off, func(c *Config) *bool { return &c.ReadOnly }).
			helps("on: while it has no contact to a quorum, the node serves reads of its applied state to clients that allow this"),
	}
}

// sessions checks how the settings of sessions go together.
func (k *checker) sessions() {
	s := k.c.Sessions
	// A relay is lost, and clients are in jeopardy, after 3 intervals (E1 full timeout after a change of leader, S4
	// jeopardy). A session that may end sooner could end because its node was silent, though its client was not.
	if 3*s.HeartbeatInterval >= s.MinTimeout {
		k.clash("must be above 3 times "+k.other("heartbeat_interval"), "min_timeout", "heartbeat_interval")
	}
	if s.MinTimeout > s.MaxTimeout {
		k.clash("must be at most "+k.other("max_timeout"), "min_timeout", "max_timeout")
	}
	// Timeouts are cut to whole milliseconds after they were clamped, which would undercut a bound between two.
	if s.MinTimeout%time.Millisecond != 0 {
		k.clash("must be whole milliseconds", "min_timeout")
	}
	if s.MaxTimeout%time.Millisecond != 0 {
		k.clash("must be whole milliseconds", "max_timeout")
	}
}
