package node

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

// directories are the data directories of nodes.
type directories map[session.Node]raftnet.Directory

// admission decides whether this node may take part in Raft.
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
//   - It is a founder that comes late: an admitted node names its directory among the founders. It has never taken
//     part, so that it has forgotten nothing. The answer must match the directories that this node named last: it may
//     have agreed to other founders since, after the node that answered had been emptied.
//   - The leader takes it in as a new node, through Raft's log (membership): the leader removes the former server from
//     the configuration, and adds the node with its directory's identity, without a vote until it has caught up. To
//     Raft the two are different servers: each node that counts the votes or entries of the new server has the log
//     entry that names it.
//
// Safe for concurrent use.
type admission struct {
	self   session.Node
	mine   raftnet.Directory
	others []session.Node
	about

	flags

	mu sync.Mutex
	// founders are set when the node is admitted, and not changed then. guarded by mu
	founders directories
	// met are the directories of the nodes as of the newest meeting with each, including this node's. guarded by mu
	met directories
	// view counts the changes of met. agreed are the nodes that have named the same directories since the newest
	// change. guarded by mu
	view uint64
	// changed is closed and replaced when met changes, so that the other nodes hear of the change. guarded by mu
	changed chan struct{}
	agreed  map[session.Node]bool
	// settling is set while founders are written to disk. The directories that this node names do not change then.
	// guarded by mu
	settling bool
	reasons
	// asked are the newest requests of the nodes that met this one since it was admitted. A node without a vote asks to
	// be taken in with such a request. guarded by mu
	asked map[session.Node]asking
	// told is the highest Raft term that another node has reported in a meeting. guarded by mu
	told uint64
}

// reasons say why a node waits. The mutex of [admission] guards them.
type reasons struct {
	// waits says for each node why it does not let this one in.
	waits map[session.Node]string
	// hopeless says for each node that knows it why no leader takes this one in.
	hopeless map[session.Node]string
	// former are the directories of the cluster's founders, which another node knows; nil when no node knows another
	// directory for this one.
	former directories
	// fresh are the nodes that took no part when they were last met, on directories that are not the known ones.
	fresh map[session.Node]bool
	// foreign are the nodes that have taken part in another cluster of the same id: with other founders.
	foreign map[session.Node]bool
}

// about is what admission needs to know of the rest of this node.
type about struct {
	// names returns the directory of a node in Raft's newest configuration, 0 when it names none.
	names func(session.Node) raftnet.Directory
	// roster knows the nodes that are not among others.
	roster *roster
	// term returns the Raft term of this node.
	term func() uint64
	// stream returns the newest stream that this node has opened to a leader (T6).
	stream func() session.Hello
	// agreement compares the settings of this node with the settings of others.
	agreement *agreement
}

// flags are for readers that take no lock.
type flags struct {
	// in is set together with founders. removed says that another node of the cluster has said that this one was removed
	// for good, drained that nobody has to be waited for at this node.
	in, removed, drained atomic.Bool
	// joins says that this node founds no cluster (J2). It does not change once the node runs.
	joins bool
}

// asking is a node that asks to be taken in.
type asking struct {
	directory raftnet.Directory
	// applied is the newest entry that the node has applied. at is when the node said so.
	applied uint64
	at      time.Time
}

func newAdmission(self session.Node, mine raftnet.Directory, founders directories, others []session.Node) *admission {
	a := &admission{
		self: self, mine: mine, others: others, founders: founders,
		about: about{
			names:  func(session.Node) raftnet.Directory { return 0 },
			roster: &roster{},
			term:   func() uint64 { return 0 },
			stream: func() session.Hello { return session.Hello{} },

			agreement: newAgreement(self, nil),
		},
		changed: make(chan struct{}),
		met:     directories{self: mine},
		agreed:  map[session.Node]bool{},
		reasons: reasons{
			waits: map[session.Node]string{}, hopeless: map[session.Node]string{}, fresh: map[session.Node]bool{},
			foreign: map[session.Node]bool{},
		},
		asked: map[session.Node]asking{},
	}
	a.in.Store(founders != nil)
	return a
}

// admitted reports whether this node may take part. It takes no lock.
func (a *admission) admitted() bool { return a.in.Load() }

// isFounder returns the cluster's founders if this node runs on the directory of a founder, else nil.
func (a *admission) isFounder() directories {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders[a.self] != a.mine {
		return nil
	}
	return a.founders
}

// knowsNode reports whether a node is one of the others, or a member. Called without mu.
func (a *admission) knowsNode(node session.Node) bool {
	return slices.Contains(a.others, node) || a.roster.knows(node)
}

// stranger notes and reports whether both nodes take part, and in different clusters of the same id. Founders are drawn
// at random, and all nodes of a cluster name the same ones. Called with mu held.
func (a *admission) stranger(from session.Node, m *meeting) bool {
	if a.founders != nil && m.Admitted && !maps.Equal(m.Names, a.founders) {
		a.foreign[from] = true
		return true
	}
	delete(a.foreign, from)
	return false
}

// strangers returns the nodes that have taken part in another cluster of the same id, when they were last met.
func (a *admission) strangers() []session.Node {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Sorted(maps.Keys(a.foreign))
}

// meet notes the directory that a node runs on. Called with mu held.
func (a *admission) meet(node session.Node, d raftnet.Directory) {
	if a.settling || a.met[node] == d || !slices.Contains(a.others, node) {
		return
	}
	a.met[node] = d
	a.view++
	clear(a.agreed)
	close(a.changed)
	a.changed = make(chan struct{})
}

// news returns a channel that is closed when met changes.
func (a *admission) news() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// learn takes the answer of a node to a request that was made from a view. It returns the cluster's founders when this
// node is to be admitted: the caller writes them to disk, and then calls settled.
func (a *admission) learn(met raftnet.Met, view uint64) directories {
	from := met.Node
	var m meeting
	if err := json.Unmarshal(met.Answer, &m); err != nil || !a.knowsNode(from) {
		return nil
	}
	named := a.names(from)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.told = max(a.told, min(m.Term, raftnet.FarTerm))
	a.agreement.heard(from, m.Settings)
	if !a.stranger(from, &m) && m.Admitted {
		a.believe(from, &m)
	}
	a.fresh[from] = !m.Admitted && met.Directory != named && met.Directory != a.founders[from]
	if a.founders != nil || a.settling {
		return nil
	}
	a.meet(from, met.Directory)
	a.hope(from, &m)
	switch {
	case view != a.view: // the answer is to an older request, and its node may be gone
	case m.Admitted && m.Member && len(m.Names) > 0:
		return a.settle(m.Names)
	case m.Admitted && m.Names[a.self] == a.mine:
		if !a.knows(m.Names) {
			a.waits[from] = fmt.Sprintf(
				"node %d has founded the cluster with nodes %v, but this node has other peers: make peers the same",
				from, slices.Sorted(maps.Keys(m.Names)),
			)
			return nil
		}
		return a.settle(m.Names)
	case m.Stranger:
		a.waits[from] = fmt.Sprintf(
			"node %d is not among node %d's peers: make them the same on every node, and restart node %d", a.self, from,
			from,
		)
	case m.Admitted && m.Names[a.self] == 0:
		a.waits[from] = fmt.Sprintf(
			"node %d is in a cluster that was founded without node %d: this node takes part once the leader has "+
				"taken it in", from, a.self,
		)
	case m.Admitted:
		a.former = m.Names
		a.waits[from] = fmt.Sprintf(
			"node %d knows node %d on another data directory (%v): this node takes part again once the leader has "+
				"taken it in anew", from, a.self, m.Names[a.self],
		)
	case !a.joins && maps.Equal(m.Names, a.met):
		a.agreed[from] = true
		if len(a.agreed) == len(a.others) {
			return a.settle(a.met)
		}
	}
	return nil
}

// knownTerm returns the newest Raft term that this node knows: its own, or a term that a node reported where this node
// dialled it. A node without a vote or without a leader meets the others. So it learns of a term that it would not
// believe if a request brought it (raftnet.TermLeap).
func (a *admission) knownTerm() uint64 {
	a.mu.Lock()
	told := a.told
	a.mu.Unlock()
	return max(told, a.term())
}

// knows reports whether founders are exactly this node and its peers.
func (a *admission) knows(founders directories) bool {
	return len(founders) == len(a.others)+1 && !slices.ContainsFunc(a.others, func(n session.Node) bool {
		return founders[n] == 0
	})
}

// settle begins the writing of founders to disk. Called with mu held.
func (a *admission) settle(founders directories) directories {
	a.settling = true
	return maps.Clone(founders)
}

// alone returns the founders when this node has no peers to agree with and may found a cluster, else nil.
func (a *admission) alone() directories {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders != nil || a.joins || len(a.others) > 0 {
		return nil
	}
	return a.settle(a.met)
}

// settled notes that the founders are on disk.
func (a *admission) settled(founders directories) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.founders, a.settling = founders, false
	a.roster.forget()
	a.in.Store(true)
}

// unreached notes why a node could not be met.
func (a *admission) unreached(node session.Node, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.waits[node] = fmt.Sprintf("node %d: %v", node, err)
}

// asks returns the nodes that have asked to be taken in since a moment.
func (a *admission) asks(since time.Time) map[session.Node]asking {
	a.mu.Lock()
	defer a.mu.Unlock()
	maps.DeleteFunc(a.asked, func(_ session.Node, one asking) bool { return one.at.Before(since) })
	return maps.Clone(a.asked)
}

// lost returns the nodes of a cluster whose data directories are new, if they are so many that those of the other nodes
// are no majority; else nil. Called with mu held.
func (a *admission) lost(cluster directories) (nodes []session.Node) {
	for _, node := range slices.Sorted(maps.Keys(cluster)) {
		if a.fresh[node] || node == a.self && a.founders == nil {
			nodes = append(nodes, node)
		}
	}
	if len(cluster)-len(nodes) > len(cluster)/2 {
		return nil
	}
	return nodes
}

// left returns what to do on a node that takes part, and of whose cluster no majority is left on its data directories;
// "" while there may be one.
func (a *admission) left() string {
	members := directories{}
	for _, node := range append([]session.Node{a.self}, a.others...) {
		if d := a.names(node); d != 0 {
			members[node] = d
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if lost := a.lost(members); a.founders != nil && len(lost) > 0 {
		return noMajority(lost)
	}
	return ""
}

// check returns nil when the node has been admitted, or a [waitsError].
func (a *admission) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders != nil {
		return nil
	}
	e := &waitsError{mine: a.mine, former: a.former[a.self], lost: a.lost(a.former)}
	for _, node := range slices.Sorted(maps.Keys(a.hopeless)) {
		e.hopeless = a.hopeless[node] // one is enough
	}
	if a.joins { // why the others do not greet it yet would send an operator to their peers
		e.joins = a.self
		return e
	}
	for _, node := range slices.Sorted(maps.Keys(a.waits)) {
		e.why = append(e.why, a.waits[node])
	}
	for _, node := range slices.Sorted(slices.Values(a.others)) {
		if !a.agreed[node] {
			e.nodes = append(e.nodes, node)
		}
	}
	return e
}
