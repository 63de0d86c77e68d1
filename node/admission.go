package node

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// directories are the data directories that nodes run on.
type directories map[session.Node]raftnet.Directory

// admission decides whether this node may take part in Raft.
//
// A node whose directory was emptied has forgotten its votes, and entries that it said it has: it must not be taken for
// the one it was. So each directory has an identity, and Raft speaks to a node only on the directory that is known of
// it (raftnet.Layer): the one that the cluster's newest configuration names, or else the founder's. A node on a
// directory that nobody knows waits, cut off from Raft, and meets the others until it is admitted in one of three ways:
//
//   - It founds the cluster with the others: each of them has met every node, none has been admitted yet, and all name
//     the same directory for every node. Two different sets of founders cannot both come about. Were p admitted with F
//     and q with G, then q agreed to F while it named F, and p to G while it named G; p asked for agreement to F after
//     it last named anything else, G included, so q agreed to F after p agreed to G; by the same reason p agreed to G
//     after q agreed to F.
//   - It is a founder that comes late: a node that was admitted names its directory among the founders. It has never
//     taken part, so there is nothing that it has forgotten. The answer must be to what it named last: it may since
//     have agreed to other founders, after the one that answered had been emptied.
//   - The leader takes it in as a new node, through Raft's log (membership): the one it was is removed from the
//     configuration, and it is added with its directory's identity, without a vote until it has caught up. To Raft the
//     two are two servers: each node that counts its votes, or what it stored, has the entry in its log that names it.
//
// Safe for concurrent use.
type admission struct {
	self   session.Node
	mine   raftnet.Directory
	others []session.Node
	about

	// in is set with founders, for those who take no lock.
	in atomic.Bool

	mu sync.Mutex
	// founders are set when the node is admitted, and not changed then. guarded by mu
	founders directories
	// met are the directories of the nodes as this one last met them, its own included. guarded by mu
	met directories
	// view counts the changes of met. agreed are the others that named the same directories since the last. guarded by
	// mu
	view uint64
	// changed is closed and replaced when met changes: the others should hear of it. guarded by mu
	changed chan struct{}
	agreed  map[session.Node]bool
	// settling is set while founders are written to disk: what this node names does not change then. guarded by mu
	settling bool
	// waits is why a node does not let this one in. guarded by mu
	waits map[session.Node]string
	// former is the directory of this node that another one knows; 0: none does. guarded by mu
	former raftnet.Directory
	// asked are the nodes that met this one since it was admitted and are not, or have no vote. guarded by mu
	asked map[session.Node]asking
	// told is the highest Raft term that a node said it has when this one met it. guarded by mu
	told uint64
}

// about is what the node says of itself and of what it knows.
type about struct {
	// names returns the directory of a node in Raft's newest configuration, 0 when it names none.
	names func(session.Node) raftnet.Directory
	// term returns the Raft term of this node.
	term func() uint64
	// stream returns the newest stream that this node has opened to a leader (T6).
	stream func() session.Hello
	// agreement has the settings of this node, and compares those of others.
	agreement *agreement
}

// asking is a node that asks to be taken in.
type asking struct {
	directory raftnet.Directory
	// applied is the newest entry that it has applied, at when it said so.
	applied uint64
	at      time.Time
}

// meeting is what two nodes say when they meet, as JSON.
type meeting struct {
	// Admitted says that who speaks takes part. Names are then the founders, else the directories it has met.
	Admitted bool        `json:"admitted,omitempty"`
	Names    directories `json:"names"`
	// Member says, in an answer, that the newest configuration names who asked, with its directory.
	Member bool `json:"member,omitempty"`
	// Stranger says, in an answer, that the node that asked is a member of Raft's configuration, and not among the
	// peers of the node that answers. Releases that greet any number say so of every node that is not among their
	// peers.
	Stranger bool `json:"stranger,omitempty"`
	// Applied is the newest entry that who asks has applied.
	Applied uint64 `json:"applied,omitempty"`
	// Term is the Raft term of the node that answers. A release that does not know it says nothing.
	Term uint64 `json:"term,omitempty"`
	// Settings are those of the node that speaks which should be the same on every node. A release that does not know
	// them says nothing.
	Settings map[string]string `json:"settings,omitempty"`
	// Incarnation and Stream are those of the newest stream that the node that answers has opened to a leader (T6). A
	// release that does not know them says nothing.
	Incarnation uint64 `json:"incarnation,omitempty"`
	Stream      uint64 `json:"stream,omitempty"`
}

func newAdmission(self session.Node, mine raftnet.Directory, founders directories, others []session.Node) *admission {
	a := &admission{
		self: self, mine: mine, others: others, founders: founders,
		about: about{
			names:  func(session.Node) raftnet.Directory { return 0 },
			term:   func() uint64 { return 0 },
			stream: func() session.Hello { return session.Hello{} },

			agreement: newAgreement(self, nil),
		},
		changed: make(chan struct{}),
		met:     directories{self: mine},
		agreed:  map[session.Node]bool{},
		waits:   map[session.Node]string{},
		asked:   map[session.Node]asking{},
	}
	a.in.Store(founders != nil)
	return a
}

// admitted reports whether this node may take part. It takes no lock.
func (a *admission) admitted() bool { return a.in.Load() }

// isFounder returns the cluster's founders if this node was admitted on the directory of one, else nil.
func (a *admission) isFounder() directories {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders[a.self] != a.mine {
		return nil
	}
	return a.founders
}

// answer is what this node says when it was met.
func (a *admission) answer(from session.Node, directory raftnet.Directory, request []byte) []byte {
	var m meeting
	if from == a.self || json.Unmarshal(request, &m) != nil {
		return nil
	}
	named, term, newest := a.names(from), a.term(), a.stream()
	a.agreement.heard(from, m.Settings)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders == nil {
		a.meet(from, directory)
	} else {
		a.asked[from] = asking{directory, m.Applied, time.Now()}
	}
	return a.say(meeting{
		Member: named == directory && directory != 0, Stranger: !slices.Contains(a.others, from),
		Term: term, Incarnation: newest.Incarnation, Stream: newest.Stream,
	})
}

// ask is what this node says when it meets another, and the view that it says it from.
func (a *admission) ask(applied uint64) (request []byte, view uint64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.say(meeting{Applied: applied}), a.view
}

// say completes m. Called with mu held.
func (a *admission) say(m meeting) []byte {
	m.Admitted, m.Settings = a.founders != nil, a.agreement.own
	if m.Names = a.founders; m.Names == nil {
		m.Names = a.met
	}
	b, err := json.Marshal(m)
	if err != nil {
		panic("node: what a node says when it meets another: " + err.Error()) // numbers and texts
	}
	return b
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

// news returns a channel that is closed when this node has met another for the first time.
func (a *admission) news() <-chan struct{} {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.changed
}

// learn takes what a node answered that was met in a view. It returns the cluster's founders when this node is to be
// admitted: the caller writes them down, and then calls settled.
func (a *admission) learn(met raftnet.Met, view uint64) directories {
	from := met.Node
	var m meeting
	if err := json.Unmarshal(met.Answer, &m); err != nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if !slices.Contains(a.others, from) {
		return nil
	}
	a.told = max(a.told, min(m.Term, raftnet.FarTerm))
	a.agreement.heard(from, m.Settings)
	if a.founders != nil || a.settling {
		return nil
	}
	a.meet(from, met.Directory)
	delete(a.waits, from)
	switch {
	case view != a.view: // said to what this node named before: it may come from a node that is gone
	case m.Admitted && m.Member && len(m.Names) > 0:
		return a.settle(m.Names)
	case m.Admitted && m.Names[a.self] == a.mine:
		if !a.knows(m.Names) {
			a.waits[from] = fmt.Sprintf(
				"node %d has founded the cluster with nodes %v, and this node's peers are others: make them the same",
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
		a.former = m.Names[a.self]
		a.waits[from] = fmt.Sprintf(
			"node %d knows node %d on another data directory (%v): this node takes part again once the leader has "+
				"taken it in anew", from, a.self, m.Names[a.self],
		)
	case maps.Equal(m.Names, a.met):
		a.agreed[from] = true
		if len(a.agreed) == len(a.others) {
			return a.settle(a.met)
		}
	}
	return nil
}

// knownTerm is the newest Raft term that this node knows of: its own, or one that it was told where it dialled itself.
// A node without a vote, or without a leader, meets the others, and so learns of a term that it would not believe a
// request (raftnet.TermLeap).
func (a *admission) knownTerm() uint64 {
	a.mu.Lock()
	told := a.told
	a.mu.Unlock()
	return max(told, a.term())
}

// knows reports whether founders are this node and its peers, no more and no less.
func (a *admission) knows(founders directories) bool {
	return len(founders) == len(a.others)+1 && !slices.ContainsFunc(a.others, func(n session.Node) bool {
		return founders[n] == 0
	})
}

// settle begins the writing down. Called with mu held.
func (a *admission) settle(founders directories) directories {
	a.settling = true
	return maps.Clone(founders)
}

// alone returns the founders when there is no other node to agree with.
func (a *admission) alone() directories {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders != nil || len(a.others) > 0 {
		return nil
	}
	return a.settle(a.met)
}

// settled ends the writing down: the founders are on disk.
func (a *admission) settled(founders directories) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.founders, a.settling = founders, false
	a.in.Store(true)
}

// unreached notes that a node could not be met.
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

// waitsError says that the node waits for its admission.
type waitsError struct {
	// nodes are those that have not agreed with this one on who founds the cluster, why is what keeps them, as far as
	// is known.
	nodes []session.Node
	why   []string
	// mine is the node's directory, former the one that the cluster knows of it; 0: none.
	mine, former raftnet.Directory
}

func (e *waitsError) Error() string {
	text := "waiting for " + e.awaited() +
		": this node's data directory is new, and it takes part once all nodes have met"
	if e.former != 0 {
		text = fmt.Sprintf("this node's data directory was emptied, lost or replaced: it is a new one (%v), and the "+
			"cluster knows the node on %v; the node "+
			"comes back by itself, as a new one, while a majority of the other nodes runs and has a leader; to go on "+
			"with the former directory instead, "+
			"stop the node and put it back, if it is not an older copy", e.mine, e.former)
	}
	if len(e.why) > 0 {
		text += ": " + strings.Join(e.why, "; ")
	}
	return text
}

// awaited names the nodes that are waited for, as in "nodes 2, 3".
func (e *waitsError) awaited() string {
	var names []string
	for _, node := range e.nodes {
		names = append(names, strconv.Itoa(int(node)))
	}
	switch len(names) {
	case 0:
		return "the leader"
	case 1:
		return "node " + names[0]
	default:
		return "nodes " + strings.Join(names, ", ")
	}
}

// check returns nil when the node has been admitted, or a [waitsError].
func (a *admission) check() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.founders != nil {
		return nil
	}
	e := &waitsError{mine: a.mine, former: a.former}
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
