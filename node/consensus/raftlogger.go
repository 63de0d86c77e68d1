package consensus

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/node/storage"
)

// linkInterval is the least time between two warnings about one node that is not reached.
const linkInterval = 10 * time.Minute

// raftLogger is the logger of Raft's library and of its transport. It leaves out lines that do not help an operator,
// and turns those about another node, which the library calls errors, into warnings that do not fill the log.
type raftLogger struct {
	hclog.Logger
	// over reports that the node ends because it failed, or that Raft stops. Raft is cut off then, and does not know: its
	// lines about closed connections would bury the reason why the node ends, or frighten who stops it.
	over  func() bool
	links *links
}

// links notes when it was last warned of each node. Safe for concurrent use.
type links struct {
	mu     sync.Mutex
	warned map[string]time.Time // by the node's address; guarded by mu
}

func newRaftLogger(logger hclog.Logger, over func() bool) raftLogger {
	return raftLogger{logger, over, &links{warned: map[string]time.Time{}}}
}

// due reports whether a warning about the node at an address is due, and notes that it is given.
func (l *links) due(address string, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last, ok := l.warned[address]; ok && now.Sub(last) < linkInterval {
		return false
	}
	l.warned[address] = now
	return true
}

// Warn logs until the node ends. It leaves out the library's line for a server without a configuration: that node waits
// for its admission, and logs itself which nodes it waits for. Each failed attempt to
// reach a follower is logged anyway.
func (l raftLogger) Warn(message string, args ...any) {
	switch {
	case l.over(), message == "no known peers, aborting election":
	case message == "failed to contact":
		l.Debug(message, args...)
	default:
		l.Logger.Warn(message, args...)
	}
}

// Error logs until the node ends.
func (l raftLogger) Error(message string, args ...any) {
	if l.over() {
		return
	}
	// A later snapshot of the leader came while the node wrote or received an earlier one.
	if strings.Contains(fmt.Sprint(args...), storage.Superseded) {
		l.Debug(message, args...)
		return
	}
	switch message {
	// Each attempt to reach another node that fails.
	case "failed to heartbeat to", "failed to appendEntries to", "failed to pipeline appendEntries",
		"failed to start pipeline replication to", "failed to send snapshot to", "failed to make requestVote RPC":
		if address := linkOf(args); l.links.due(address, time.Now()) {
			l.Logger.Warn("another node is not reached: "+message, args...)
			return
		}
		l.Debug(message, args...)
	// Another leader was elected, or another node has closed its connection: neither is a fault of this node.
	case "peer has newer term, stopping replication", "failed to decode incoming command", "failed to flush response":
		l.Debug(message, args...)
	default:
		l.Logger.Error(message, args...)
	}
}

// Info logs until the node ends.
func (l raftLogger) Info(message string, args ...any) {
	if !l.over() {
		l.Logger.Info(message, args...)
	}
}

// linkOf returns the address of the node that a line of the library is about, "" when it names none.
func linkOf(args []any) string {
	for i := 0; i+1 < len(args); i += 2 {
		if args[i] != "peer" && args[i] != "target" {
			continue
		}
		if server, ok := args[i+1].(raft.Server); ok {
			return string(server.Address)
		}
		return fmt.Sprint(args[i+1])
	}
	return ""
}
