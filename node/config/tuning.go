package config

import "time"

// Tuning are constants that tests of whole nodes change. No flag, variable or file reads them, because an operator sees
// nothing that would decide their values.
type Tuning struct {
	// SnapshotInterval is the time between two checks whether a snapshot is due. A check costs nothing, and the node
	// looks at the bytes of its log every second besides.
	SnapshotInterval time.Duration
	// SnapshotThreshold is the number of log entries after which a snapshot is due: so many are applied within seconds at
	// a start.
	SnapshotThreshold uint64
	// LogBytes bounds what Raft's log gains until the node asks for a snapshot, and what stays in it after a snapshot (W7 size
	// bounds). Raft itself counts entries, each of which may have 1.5 MiB.
	LogBytes uint64
	// TrailingLogs is the number of log entries that stay behind a snapshot, unless fewer of them have LogBytes. A follower
	// that fetches and installs a large snapshot meanwhile finds the entries after it.
	TrailingLogs uint64
	// ShutdownTimeout bounds an orderly stop, after the node was drained. Clients that do not let go get half of it, the
	// end of Raft the rest.
	ShutdownTimeout time.Duration
}

// DefaultTuning returns the values of every node outside tests.
func DefaultTuning() Tuning {
	return Tuning{
		SnapshotInterval:  2 * time.Minute,
		SnapshotThreshold: 8192,
		LogBytes:          256 << 20,
		TrailingLogs:      100_000,
		ShutdownTimeout:   10 * time.Second,
	}
}
