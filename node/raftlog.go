package node

import "github.com/hashicorp/go-hclog"

// raftLogger is the logger of Raft's library and of its transport. It leaves out what says nothing to an operator.
type raftLogger struct {
	hclog.Logger
	// over reports that the node ends because its disk failed. Raft is cut off then and does not know: it would
	// complain of each closed connection until it is shut down, and bury why the node ends.
	over func() bool
}

// Warn leaves out what the library says of a server without a configuration, "no known peers, aborting election": that
// node waits for its admission, and the node itself logs which nodes it waits for.
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
