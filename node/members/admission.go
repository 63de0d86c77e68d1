package members

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Admission decides whether this node may run Raft.
//
// A node whose directory was emptied has forgotten its votes and entries that it acknowledged, so that it must not
// continue as the former node. Each directory therefore has an identity, and Raft speaks to a node only on the
// directory that is known for it (raftnet.Layer): the directory that the cluster's newest configuration names, or else
// the founder's. A node on an unknown directory waits, cut off from Raft, and meets the others until it is admitted in
// one of three ways:
//
//   - It founds the cluster with the others: each of them has met every node, none has been admitted yet, and all name
//     the same directory for every node. Two different sets of founders cannot both come about. Were p admitted with F
//     and q with G, then q agreed to F while it named F, and p to G while it named G; p asked for agreement to F after
//     it last named anything else, G included, so q agreed to F after p agreed to G; by the same reason p agreed to G
//     after q agreed to F.
//   - It is a founder that comes late: an admitted node names its directory among the founders. It has never
//     run Raft, so it has forgotten nothing. The answer must match the directories that this node named last: it may
//     have agreed to other founders since, after the node that answered had been emptied.
//   - The leader adds it as a new node, through Raft's log ([Reconciler]): the leader removes the former server from
//     the configuration, and adds the node with its directory's identity, without a vote until it has caught up. To
//     Raft the two are different servers: each node that counts the votes or entries of the new server has the log
//     entry that names it.
//
// Safe for concurrent use.
type Admission struct {
	membership *Membership
	self       session.Node
	own        raftnet.Directory
	// others are the other nodes that may found the cluster with this node: its peers.
	others []session.Node
	// joins says that this node founds no cluster (J2 add, promote, demote).
	joins bool
	// stream returns the newest stream that this node has opened to a leader (T6 newest stream only).
	stream func() session.Hello
	// directoryOf returns the directory of a node in Raft's newest configuration, 0 when it names none.
	directoryOf func(session.Node) raftnet.Directory
	// settings compares this node's settings with those of other nodes.
	settings *settings
	// lostMajority says how to continue when no leader can ever add a node.
	lostMajority string

	// in is set together with founders. removed says that another node of the cluster has said that this node was
	// removed for good, drained that this node is drained. Readers of the three take no lock.
	in, removed, drained atomic.Bool

	mu sync.Mutex
	// founders are set when the node is admitted, and not changed then. guarded by mu
	founders raftnet.Directories
	// met are the directories of the nodes as of the newest exchange with each, including this node's. guarded by mu
	met raftnet.Directories
	// version counts the changes of met. agreed are the nodes that have named the same directories since the newest
	// change. guarded by mu
	version uint64
	agreed  map[session.Node]bool
	// changed is closed and replaced when met changes, so that the other nodes learn of the change. guarded by mu
	changed chan struct{}
	// settling is set while founders are written to disk. The directories that this node names do not change then.
	// guarded by mu
	settling bool
	// requests are the newest requests of the nodes that met this node since it was admitted. A node without a vote
	// asks with such a request to be added. guarded by mu
	requests map[session.Node]joinRequest
	// reported is the highest Raft term that another node has reported. guarded by mu
	reported uint64

	// reasons says for each node why it does not admit this node. guarded by mu
	reasons map[session.Node]string
	// hopeless says for each node that knows it why no leader adds this node. guarded by mu
	hopeless map[session.Node]string
	// former are the directories of the cluster's founders, which another node knows; nil when no node knows another
	// directory for this node. guarded by mu
	former raftnet.Directories
	// fresh are the nodes that had not been admitted at the newest exchange, on unknown directories. guarded
	// by mu
	fresh map[session.Node]bool
	// foreign are the nodes of another cluster with the same id: their founders differ. guarded by mu
	foreign map[session.Node]bool
}

// joinRequest is a node's request to be added.
type joinRequest struct {
	directory raftnet.Directory
	// applied is the newest entry that the node has applied. at is when the request came.
	applied uint64
	at      time.Time
}

// AdmissionConfig is what Admission needs of the rest of the node.
type AdmissionConfig struct {
	Membership *Membership
	// Founders are the founders on this node's disk, nil before its admission.
	Founders raftnet.Directories
	// Joins says that this node founds no cluster (J2).
	Joins bool
	// Settings are this node's settings that should be the same on every node.
	Settings map[string]string
	// Stream returns the newest stream that this node has opened to a leader (T6).
	Stream func() session.Hello
	// LostMajority says how to continue when no leader can ever add a node.
	LostMajority string
}

// NewAdmission returns the admission of a node that has met no other node yet.
func NewAdmission(cfg AdmissionConfig) *Admission {
	m := cfg.Membership
	a := &Admission{
		membership: m, self: m.self, own: m.directory, others: m.otherNodes(), joins: cfg.Joins, stream: cfg.Stream,
		directoryOf: m.DirectoryOf, settings: newSettings(m.self, cfg.Settings, m.knows), lostMajority: cfg.LostMajority,
		founders: cfg.Founders,
		changed:  make(chan struct{}),
		met:      raftnet.Directories{m.self: m.directory},
		agreed:   map[session.Node]bool{},
		requests: map[session.Node]joinRequest{},
		reasons:  map[session.Node]string{}, hopeless: map[session.Node]string{}, fresh: map[session.Node]bool{},
		foreign: map[session.Node]bool{},
	}
	a.in.Store(cfg.Founders != nil)
	return a
}

// Admitted reports whether this node may run Raft, without a lock.
func (a *Admission) Admitted() bool { return a.in.Load() }

// Belongs reports whether this node is admitted, and was a member at the last check. A cluster that has removed this
// node continues without it, so that the node must not show its state (N1 node mode). It takes no lock.
func (a *Admission) Belongs() bool { return a.Admitted() && a.membership.IsMember() }

// WasRemoved reports whether this node was removed from its cluster, as its own log or another node says.
func (a *Admission) WasRemoved() bool { return a.membership.WasRemoved(a.self) || a.removed.Load() }

// SetDrained notes whether this node is drained: a leader that removes this node waits for that.
func (a *Admission) SetDrained(drained bool) { a.drained.Store(drained) }

// SettingsDifferences says which settings differ between the nodes: one text for each.
func (a *Admission) SettingsDifferences() []string { return a.settings.differences() }

// FoundedHere returns the cluster's founders if this node runs on the directory of a founder, else nil.
func (a *Admission) FoundedHere() raftnet.Directories {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders[a.self] != a.own {
		return nil
	}
	return a.founders
}

// isFoundedBy reports whether directories are the founders of this cluster.
func (a *Admission) isFoundedBy(names raftnet.Directories) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Equal(names, a.founders)
}

// knowsNode reports whether a node is one of the others, or a member. Called without mu.
func (a *Admission) knowsNode(node session.Node) bool {
	return slices.Contains(a.others, node) || a.membership.knows(node)
}

// isForeign records and reports whether both nodes are admitted to different clusters of the same id. Founders are
// drawn at random, and all nodes of a cluster name the same ones. Called with mu held.
func (a *Admission) isForeign(from session.Node, m *peerInfo) bool {
	if a.founders != nil && m.Admitted && !maps.Equal(m.Names, a.founders) {
		a.foreign[from] = true
		return true
	}
	delete(a.foreign, from)
	return false
}

// Foreign returns the nodes of another cluster with the same id, as of the newest exchange with each.
func (a *Admission) Foreign() []session.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.foreign))
}

// meet notes the directory that a node runs on. Called with mu held.
func (a *Admission) meet(node session.Node, d raftnet.Directory) {
	if a.settling || a.met[node] == d || !slices.Contains(a.others, node) {
		return
	}
	a.met[node] = d
	a.version++
	clear(a.agreed)
	close(a.changed)
	a.changed = make(chan struct{})
}

// news returns a channel that is closed when met changes.
func (a *Admission) news() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// learn evaluates the answer of a node to a request that was made from a version of met. It returns the cluster's
// founders when this node is to be admitted: the caller writes them to disk, and then calls foundersPersisted.
func (a *Admission) learn(met raftnet.Met, version uint64) raftnet.Directories {
	from := met.Node
	var answer peerInfo
	if err := json.Unmarshal(met.Answer, &answer); err != nil || !a.knowsNode(from) {
		return nil
	}
	named := a.directoryOf(from)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reported = max(a.reported, min(answer.Term, raftnet.FarTerm))
	a.settings.note(from, answer.Settings)
	if !a.isForeign(from, &answer) && answer.Admitted {
		a.membership.noteReport(from, answer.Members)
		if answer.Removed && a.founders != nil {
			a.removed.Store(true)
		}
	}
	a.fresh[from] = !answer.Admitted && met.Directory != named && met.Directory != a.founders[from]
	if a.founders != nil || a.settling {
		return nil
	}
	a.meet(from, met.Directory)
	a.updateReasons(from, &answer)
	switch {
	case version != a.version: // the answer is to an older request, and its node may be gone
	case answer.Admitted && answer.Member && len(answer.Names) > 0:
		return a.persistFounders(answer.Names)
	case answer.Admitted && answer.Names[a.self] == a.own:
		if !a.foundsWith(answer.Names) {
			a.reasons[from] = fmt.Sprintf(
				"node %d has founded the cluster with nodes %v, but this node has other peers: make peers the same",
				from, slices.Sorted(maps.Keys(answer.Names)),
			)
			return nil
		}
		return a.persistFounders(answer.Names)
	case answer.Unknown:
		a.reasons[from] = fmt.Sprintf(
			"node %d is not among node %d's peers: make them the same on every node, and restart node %d", a.self, from,
			from,
		)
	case answer.Admitted && answer.Names[a.self] == 0:
		a.reasons[from] = fmt.Sprintf(
			"node %d is in a cluster that was founded without node %d: this node joins once the leader has "+
				"added it", from, a.self,
		)
	case answer.Admitted:
		a.former = answer.Names
		a.reasons[from] = fmt.Sprintf(
			"node %d knows node %d on another data directory (%v): this node joins again once the leader has "+
				"added it as a new node", from, a.self, answer.Names[a.self],
		)
	case !a.joins && maps.Equal(answer.Names, a.met):
		a.agreed[from] = true
		if len(a.agreed) == len(a.others) {
			return a.persistFounders(a.met)
		}
	}
	return nil
}

// KnownTerm returns the newest Raft term that this node knows: its own, or a term that a node reported where this node
// dialled it. A node without a vote or without a leader exchanges with the others. So it learns of a term that it would
// not believe if a request brought it (raftnet.TermLeap).
func (a *Admission) KnownTerm() uint64 {
	a.mu.Lock()
	reported := a.reported
	a.mu.Unlock()
	return max(reported, a.membership.Term())
}

// foundsWith reports whether founders are exactly this node and its peers. Called with mu held.
func (a *Admission) foundsWith(founders raftnet.Directories) bool {
	return len(founders) == len(a.others)+1 && !slices.ContainsFunc(a.others, func(n session.Node) bool {
		return founders[n] == 0
	})
}

// persistFounders begins the writing of founders to disk. Called with mu held.
func (a *Admission) persistFounders(founders raftnet.Directories) raftnet.Directories {
	a.settling = true
	return maps.Clone(founders)
}

// foundAlone returns the founders when this node has no peers to agree with and may found a cluster, else nil.
func (a *Admission) foundAlone() raftnet.Directories {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders != nil || a.joins || len(a.others) > 0 {
		return nil
	}
	return a.persistFounders(a.met)
}

// foundersPersisted notes that the founders are on disk.
func (a *Admission) foundersPersisted(founders raftnet.Directories) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.founders, a.settling = founders, false
	a.membership.forgetReports()
	a.in.Store(true)
}

// unreached notes why an exchange with a node failed.
func (a *Admission) unreached(node session.Node, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reasons[node] = fmt.Sprintf("node %d: %v", node, err)
}

// requestsSince returns the requests to be added since a moment.
func (a *Admission) requestsSince(since time.Time) map[session.Node]joinRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.requests, func(_ session.Node, r joinRequest) bool { return r.at.Before(since) })
	return maps.Clone(a.requests)
}
