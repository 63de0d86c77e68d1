package config

import (
	"time"

	"holdfast/session"
)

// Sessions are the settings of sessions: how long they live, and how many there may be.
type Sessions struct {
	// Tick is the unit of the defaults of the three settings below. In [Default] those are 0, which means "derive".
	Tick time.Duration
	// HeartbeatInterval is the time between two rounds (R1).
	HeartbeatInterval time.Duration
	// MinTimeout and MaxTimeout clamp the timeouts of sessions.
	MinTimeout, MaxTimeout time.Duration
	// ExpiryInterval is the width of a bucket of the expiry queue.
	ExpiryInterval time.Duration

	// MaxSessions and MaxStateBytes bound what the cluster keeps (O4): the leader's values count. A node's own values
	// bound its local sessions.
	MaxSessions, MaxStateBytes uint64

	// Local lets clients open sessions that one node alone knows (L1). LocalUpgrade lets clients make such sessions
	// global (L7). Both are the same on every node.
	Local, LocalUpgrade bool
}

// derive fills in the settings that depend on the tick.
func (s Sessions) derive() Sessions {
	if s.HeartbeatInterval == 0 {
		s.HeartbeatInterval = s.Tick / 4
	}
	limits := session.DefaultLimits(s.Tick)
	if s.MinTimeout == 0 {
		s.MinTimeout = limits.Min
	}
	if s.MaxTimeout == 0 {
		s.MaxTimeout = limits.Max
	}
	return s
}

// Capacity returns the bounds of what the cluster keeps.
func (s Sessions) Capacity() session.Capacity {
	return session.Capacity{MaxSessions: s.MaxSessions, MaxBytes: s.MaxStateBytes}
}

// Limits returns the bounds of the timeouts of sessions.
func (s Sessions) Limits() session.Limits {
	return session.Limits{Min: s.MinTimeout, Max: s.MaxTimeout}
}

func sessionSettings() []setting {
	return []setting{
		duration("tick", "2s", span[time.Duration]{10 * time.Millisecond, time.Hour},
			func(c *Config) *time.Duration { return &c.Sessions.Tick }).
			helps("unit of the defaults of heartbeat_interval, min_timeout and max_timeout"),
		duration("heartbeat_interval", "", span[time.Duration]{session.MinInterval, session.MaxInterval},
			func(c *Config) *time.Duration { return &c.Sessions.HeartbeatInterval }).from("tick/4").
			helps("time between two heartbeat rounds of the leader; keep it above the round trip between nodes; " +
				"3 intervals must be below min_timeout"),
		duration("min_timeout", "", span[time.Duration]{10 * time.Millisecond, session.MaxTimeout},
			func(c *Config) *time.Duration { return &c.Sessions.MinTimeout }).from("2 ticks").
			helps("smallest timeout of a session, in whole milliseconds; shorter timeouts are raised to it"),
		duration("max_timeout", "", span[time.Duration]{10 * time.Millisecond, session.MaxTimeout},
			func(c *Config) *time.Duration { return &c.Sessions.MaxTimeout }).from("20 ticks").
			helps("largest timeout of a session, in whole milliseconds; longer timeouts are lowered to it"),
		duration("expiry_interval", "250ms", span[time.Duration]{50 * time.Millisecond, time.Minute},
			func(c *Config) *time.Duration { return &c.Sessions.ExpiryInterval }).
			helps("width of a bucket of the expiry queue: a session ends at most this much later; at most min_timeout"),
		number("max_sessions", "2000000", span[uint64]{1, session.MaxCapacitySessions},
			func(c *Config) *uint64 { return &c.Sessions.MaxSessions }).
			helps("replicated sessions of the cluster, and besides as many local sessions of each node; further opens " +
				"are refused; the leader's value counts"),
		number("max_state_bytes", "2147483648", span[uint64]{session.MinCapacityBytes, session.MaxCapacityBytes},
			func(c *Config) *uint64 { return &c.Sessions.MaxStateBytes }).
			helps("memory of each node for replicated sessions with their labels, certificates and remembered request " +
				"ids, as the cluster counts it, and besides as much for local sessions; further opens are refused; " +
				"the leader's value counts"),
	}
}

func localSettings() []setting {
	return []setting{
		toggle("local_sessions", off, func(c *Config) *bool { return &c.Sessions.Local }).
			helps("whether clients may open sessions that one node alone knows; nodes with different values refuse " +
				"each other"),
		toggle("local_session_upgrade", on, func(c *Config) *bool { return &c.Sessions.LocalUpgrade }).
			helps("whether clients may make local sessions global, with the same id and timeout; nodes with different " +
				"values refuse each other"),
	}
}

func readSettings() []setting {
	return []setting{
		toggle("read_only", off, func(c *Config) *bool { return &c.ReadOnly }).
			helps("whether this node, while it hears of no quorum, serves reads of its applied state to clients that " +
				"allow it; nodes may differ"),
	}
}

// sessions checks how the settings of sessions go together.
func (k *checker) sessions() {
	s := k.c.Sessions
	// A relay is lost, and clients are in jeopardy, after 3 intervals (E1, S4). A session that may end sooner could end
	// because its node was silent, though its client was not.
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
	if s.ExpiryInterval > s.MinTimeout {
		k.clash("must be at most "+k.other("min_timeout"), "expiry_interval", "min_timeout")
	}
	if k.c.Clients.LaggingWait > s.MinTimeout {
		k.clash("must be at most "+k.other("min_timeout"), "lagging_wait", "min_timeout")
	}
}
