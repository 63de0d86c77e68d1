package metrics

import (
	"time"

	"holdfast/fsm/proposer"
	"holdfast/leader"
	"holdfast/learner"
	"holdfast/node/watchdog"
	"holdfast/session"
	"holdfast/transport/authz"
	"holdfast/transport/clientport"
	"holdfast/transport/raftnet"
	"holdfast/transport/secure"
	"holdfast/transport/tracing/otlp"
	"holdfast/zk"
)

// Snapshot has all values of one scrape. The zero value is valid, except that Audit must not be nil.
type Snapshot struct {
	Raft    Raft
	State   State
	Applied session.Turnover
	Tree    clientport.TreeStatus
	Replica Replica

	Learner   learner.Stats
	Local     session.Usage
	Mode      session.Mode
	Proposer  proposer.Stats
	LogWrites uint64
	Notices   raftnet.NoticeStats
	Elections Elections

	Health    Health
	Stalls    watchdog.StallStats
	Resources Resources

	Client    clientport.Stats
	ZooKeeper zk.Stats
	TLS       TLS
	Auth      Auth
	Audit     Audit
	Traces    otlp.Stats

	// Term describes the term that this node leads, and is zero on a node that does not lead. Led sums all terms that
	// this node has led since it started.
	Term, Led leader.Stats
}

// Raft has the log's numbers in Raft and in the state machine.
type Raft struct{ Term, CommitIndex, AppliedIndex uint64 }

// State describes the replicated state.
type State struct {
	Usage session.Usage
	// Sessions and RequestIDs count replicated sessions and kept request ids, RetiredNumbers the numbers of removed nodes,
	// and Extended the sessions whose expiry an operator has postponed.
	Sessions, RequestIDs, RetiredNumbers, Extended int
	// Frozen is the rest of a freeze, in which nothing expires.
	Frozen time.Duration
}

// Replica is the comparison of this node's state with the states of the other nodes.
type Replica struct {
	// ComparedIndex is the newest index at which the state was a quorum's.
	ComparedIndex uint64
	// Corruptions counts the scrubs that found the state corrupt.
	Corruptions uint64
	// Differs says that this node's state differs from a quorum's, WithoutQuorum that no quorum has the same state.
	Differs, WithoutQuorum bool
	// OlderCopy says that an older copy of the data directory was put back and set aside.
	OlderCopy bool
}

// Elections counts this node's actions after it lost its leader.
type Elections struct{ Probes, Supported, Started uint64 }

// Health says whether the node serves, and possible reasons why not.
type Health struct {
	Ready, Draining bool
	// SettingsDiffer counts the settings with another value on another node.
	SettingsDiffer int
}

// Resources describe disk and memory.
type Resources struct {
	DiskFree, DiskReserve uint64
	// Heap is the memory in use. MemoryLimit bounds it, and MemoryLimitBy is one of the values of [MemoryLimitSources].
	Heap, MemoryLimit uint64
	MemoryLimitBy     string
	// RefusingForDisk and RefusingForMemory say that requests are refused.
	RefusingForDisk, RefusingForMemory bool
}

// MemoryLimitSources are the labels of the sources of a memory limit.
func MemoryLimitSources() []string { return []string{"setting", "environment", "cgroup", "machine"} }

// TLS describes certificates, and the connections that were refused.
type TLS struct {
	secure.Stats
	// Refused counts the refused connections of each port.
	Refused [TLSPorts]uint64
}

// TLSPort is a port on which a node may speak TLS.
type TLSPort uint8

// The ports.
const (
	RaftPort TLSPort = iota
	PeerPort
	ClientPort
	HTTPPort
	ZooKeeperPort
	// TLSPorts is the number of ports.
	TLSPorts
)

func (p TLSPort) String() string {
	return [...]string{"raft", "peer", "client", "http", "zookeeper"}[p]
}

// Auth describes refused callers.
type Auth struct {
	// FileFailing says that the last read of auth_file failed.
	FileFailing bool
	Forbidden   authz.Stats
}

// Audit counts the actions of operators.
type Audit interface {
	// Count returns the number of times that an action had an outcome.
	Count(act string, o authz.Outcome) uint64
	// Omitted returns the number of unwritten log lines about actions with an outcome.
	Omitted(o authz.Outcome) uint64
}
