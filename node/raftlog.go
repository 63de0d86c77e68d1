package node

import "github.com/hashicorp/go-hclog"

// raftLogger is the logger of Raft's library and of its transport. It leaves out lines that do not help an operator.
type raftLogger struct {
	hclog.Logger
	// over reports that the node ends because it failed. Raft is cut off then, and does not know: its warnings about
	// closed connections would bury the reason why the node ends.
	over func() bool
}

// Warn logs until the node ends. It leaves out the library's line for a server without a configuration: that node waits
// for its admission, and logs itself which nodes it waits for.
func (l raftLogger) Warn(message string, args ...any) {
	if message != "no known peers, aborting election" && !l.over() {
		l.Logger.Warn(message, args...)
	}
}

// Error logs until the node ends.
func (l raftLogger) Error(message string, args ...any) {
	if !l.over() {
		l.Logger.Error(message, args...)
	}
}

// Info logs until the node ends.
func (l raftLogger) Info(message string, args ...any) {
	if !l.over() {
		l.Logger.Info(message, args...)
	}
}
