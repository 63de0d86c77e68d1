package members

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// lostMajority is what the texts of the tests say about a lost majority.
const lostMajority = "begin a new cluster"

var errAway = errors.New("connection refused")

// newAdmission returns the admission of a node whose peers are itself and others.
func newAdmission(self session.Node, own raftnet.Directory, founders raftnet.Directories, others []session.Node) *Admission {
	peers := []config.Peer{{Node: self}}
	for _, node := range others {
		peers = append(peers, config.Peer{Node: node})
	}
	return NewAdmission(AdmissionConfig{
		Membership: NewMembership(self, own, peers), Founders: founders, LostMajority: lostMajority,
		Stream: func() session.Hello { return session.Hello{} },
	})
}

// A node that waits says for whom, in the words of an operator.
func TestWaitingErrorNamesTheNodes(t *testing.T) {
	a := newAdmission(1, 11, nil, []session.Node{3, 2})
	if got := a.Check().Error(); !strings.HasPrefix(got, "waiting for nodes 2, 3: this node's data directory is new") {
		t.Errorf("got %q", got)
	}
	a.agreed[3] = true
	if got := a.Check().Error(); !strings.HasPrefix(got, "waiting for node 2: ") {
		t.Errorf("after node 3 agreed: got %q", got)
	}
	a.agreed[2] = true
	if got := a.Check().Error(); !strings.HasPrefix(got, "waiting for the leader: ") {
		t.Errorf("after all agreed: got %q", got)
	}
}

// When a majority of the data directories is lost, no leader can come: each node says so, names the nodes, and says how
// to begin a new cluster. While a majority is left, no node says that.
func TestALostMajorityIsNamed(t *testing.T) {
	const says = "nodes 2, 3 are on new data directories, so that no majority is left on the former ones"
	h := newHall(t, 3)
	h.allMeet()
	if got := h.nodes[1].NoMajority(); h.nodes[1].Check() != nil || got != "" {
		t.Fatalf("a cluster that was just founded: %v, %q", h.nodes[1].Check(), got)
	}
	maps.Copy(h.config, h.identity)
	h.empty(2)
	h.allMeet()
	if text := h.nodes[2].Check().Error(); !strings.Contains(text, "the node comes back by itself, as a new one, while a "+
		"majority") || strings.Contains(text, lostMajority) || h.nodes[1].NoMajority() != "" {
		t.Errorf("one directory is lost: %s, %q", text, h.nodes[1].NoMajority())
	}
	h.empty(3)
	h.allMeet()
	for node, text := range map[session.Node]string{
		1: h.nodes[1].NoMajority(), 2: h.nodes[2].Check().Error(), 3: h.nodes[3].Check().Error(),
	} {
		if !strings.Contains(text, says) || !strings.Contains(text, lostMajority) ||
			strings.Contains(text, "comes back by itself") {
			t.Errorf("node %d: %s", node, text)
		}
	}
	h.identity[2] = h.config[2] // the former directory is put back
	h.disk[2] = h.disk[1]
	h.start(2)
	h.allMeet()
	if text := h.nodes[3].Check().Error(); strings.Contains(text, lostMajority) || h.nodes[1].NoMajority() != "" {
		t.Errorf("a directory was put back: %s, %q", text, h.nodes[1].NoMajority())
	}
}

// allMeet has each node meet each other one, and again with what it has learnt.
func (h *hall) allMeet() {
	for range 2 {
		for a := range h.nodes {
			for b := range h.nodes {
				if a != b {
					h.meets(a, b)
				}
			}
		}
	}
}

// A node that is met may tell an absurd term: what is made of it leaves terms to come.
func TestAnAbsurdTermAtAMeeting(t *testing.T) {
	a := newAdmission(1, 11, nil, []session.Node{2})
	a.learn(raftnet.Met{Node: 2, Directory: 22, Answer: []byte(`{"names":{},"term":18446744073709551614}`)}, 0)
	if got := a.KnownTerm(); got != raftnet.FarTerm {
		t.Errorf("it knows of term %d, want %d", got, uint64(raftnet.FarTerm))
	}
}

// hall is where nodes meet without a network.
type hall struct {
	t     *testing.T
	size  int
	nodes map[session.Node]*Admission
	// disk are the founders in each node's directory. identity is the identity of each directory.
	disk     map[session.Node]raftnet.Directories
	identity map[session.Node]raftnet.Directory
	next     raftnet.Directory
	// config is Raft's newest configuration.
	config raftnet.Directories
}

func newHall(t *testing.T, size int) *hall {
	t.Helper()
	h := &hall{
		t: t, size: size, nodes: map[session.Node]*Admission{}, disk: map[session.Node]raftnet.Directories{},
		identity: map[session.Node]raftnet.Directory{}, config: raftnet.Directories{},
	}
	for i := range size {
		h.empty(session.Node(i + 1))
	}
	return h
}

// empty gives a node a new directory, and starts it.
func (h *hall) empty(node session.Node) {
	h.next++
	h.identity[node] = h.next
	delete(h.disk, node)
	h.start(node)
}

// start begins a life of a node on its directory.
func (h *hall) start(node session.Node) {
	var others []session.Node
	for i := range h.size {
		if other := session.Node(i + 1); other != node {
			others = append(others, other)
		}
	}
	h.startWith(node, others)
}

// startWith is start with other peers.
func (h *hall) startWith(node session.Node, others []session.Node) {
	h.nodes[node] = newAdmission(node, h.identity[node], h.disk[node], others)
	h.nodes[node].directoryOf = func(of session.Node) raftnet.Directory { return h.config[of] }
}

// meets has a meet b, and writes down what follows.
func (h *hall) meets(a, b session.Node) {
	request, view := h.nodes[a].request(7)
	answer := h.nodes[b].Answer(a, h.identity[a], request)
	h.learns(a, b, h.identity[b], answer, view)
}

func (h *hall) learns(a, b session.Node, on raftnet.Directory, answer []byte, view uint64) {
	if founders := h.nodes[a].learn(raftnet.Met{Node: b, Directory: on, Answer: answer}, view); founders != nil {
		h.disk[a] = founders
		h.nodes[a].foundersPersisted(founders)
	}
}

func (h *hall) admitted(want ...session.Node) {
	h.t.Helper()
	var got []session.Node
	for i := range h.size {
		if h.nodes[session.Node(i+1)].Admitted() {
			got = append(got, session.Node(i+1))
		}
	}
	if !slices.Equal(got, want) {
		h.t.Errorf("admitted are %v, want %v", got, want)
	}
}

func TestNodesFoundACluster(t *testing.T) {
	h := newHall(t, 3)
	h.meets(1, 2)
	h.meets(2, 1)
	h.meets(1, 2)
	h.admitted() // 3 has not been met
	if err := h.nodes[1].Check(); err == nil || !strings.Contains(err.Error(), "once all nodes have met") {
		t.Errorf("check: %v", err)
	}
	h.nodes[1].unreached(3, errAway)
	if err := h.nodes[1].Check(); err == nil || !strings.Contains(err.Error(), "node 3: "+errAway.Error()) {
		t.Errorf("check: %v, want which node is missing", err)
	}
	h.meets(3, 1)
	h.meets(3, 2)
	h.admitted() // 3 knows all, and has heard agreement of none
	h.meets(3, 1)
	h.admitted()
	h.meets(3, 2)
	h.admitted(3)
	h.meets(1, 3) // a founder that comes late
	h.admitted(1, 3)
	h.start(2)
	h.meets(2, 1) // whom it did not know
	h.admitted(1, 3)
	h.meets(2, 1)
	h.admitted(1, 2, 3)
	for node := range h.nodes {
		if got := h.disk[node]; !maps.Equal(got, raftnet.Directories{1: 1, 2: 2, 3: 3}) || h.nodes[node].FoundedHere() == nil ||
			h.nodes[node].Check() != nil {
			t.Errorf("node %d has the founders %v", node, got)
		}
	}
	h.start(1) // it has been admitted for good
	h.admitted(1, 2, 3)
}

func TestAnEmptiedNodeIsNoFounder(t *testing.T) {
	h := newHall(t, 3)
	for range 3 {
		for _, pair := range [][2]session.Node{{1, 2}, {2, 3}, {3, 1}, {2, 1}, {3, 2}, {1, 3}} {
			h.meets(pair[0], pair[1])
		}
	}
	h.admitted(1, 2, 3)
	h.empty(2)
	for range 5 {
		h.meets(2, 1)
		h.meets(2, 3)
	}
	h.admitted(1, 3)
	if err := h.nodes[2].Check(); err == nil ||
		!strings.Contains(err.Error(), "node 1 knows node 2 on another data directory") {
		t.Errorf("check: %v, want why", err)
	}
	requests := h.nodes[1].requestsSince(time.Now().Add(-time.Minute))
	if got := requests[2]; got.directory != h.identity[2] || got.applied != 7 {
		t.Errorf("node 1 remembers that %+v asked", got)
	}
	if requests = h.nodes[1].requestsSince(time.Now().Add(time.Minute)); len(requests) != 0 {
		t.Errorf("node 1 remembers %v for ever", requests)
	}
	h.config[2] = 99 // another one is taken in
	h.meets(2, 1)
	h.admitted(1, 3)
	h.config[2] = h.identity[2]
	h.meets(2, 1)
	h.admitted(1, 2, 3)
	if got := h.disk[2]; got[2] != 2 || h.nodes[2].FoundedHere() != nil {
		t.Errorf("its founders are %v, want those of the cluster", got)
	}
	if h.nodes[2].Answer(1, 1, []byte("garbage")) != nil || h.nodes[2].Answer(2, 1, []byte("{}")) != nil {
		t.Error("garbage, or a node of its own number, is answered")
	}
}

// Nodes with different peers do not begin with different configurations: a node with more peers does not join a cluster
// that was founded with fewer.
func TestFoundersArePeers(t *testing.T) {
	h := newHall(t, 3)
	h.nodes[1] = newAdmission(1, h.identity[1], nil, []session.Node{2}) // its peers are 1 and 2
	h.meets(1, 2)
	h.meets(2, 1)
	h.meets(1, 2)
	if founders := h.nodes[1].FoundedHere(); len(founders) != 2 {
		t.Fatalf("node 1 has founded with %v; want that it could not know of node 3", founders)
	}
	h.meets(2, 1)
	h.admitted(1)
	if err := h.nodes[2].Check(); err == nil || !strings.Contains(err.Error(), "founded the cluster with nodes [1 2]") {
		t.Errorf("check: %v, want that the peers differ", err)
	}
	h.nodes[2] = newAdmission(2, h.identity[2], nil, []session.Node{1})
	h.meets(2, 1)
	h.meets(2, 1) // what it names now has been heard
	if founders := h.nodes[2].FoundedHere(); len(founders) != 2 {
		t.Errorf("with the same peers node 2 is admitted with %v, want the two", founders)
	}
}

// A node that is not among the peers of the others hears just that. It does not hear that its directory is another one,
// because the others know no directory of it.
func TestANodeThatIsNoPeerIsTold(t *testing.T) {
	h := newHall(t, 3)
	for _, founder := range []session.Node{1, 2} {
		h.disk[founder] = raftnet.Directories{1: h.identity[1], 2: h.identity[2]}
		h.start(founder)
	}
	h.startWith(1, []session.Node{2})
	for range 2 { // what it is told when it meets a node for the first time it had not asked for
		h.meets(3, 1)
		h.meets(3, 2)
	}
	const want = "node 3 is not among node 1's peers: make them the same on every node, and restart node 1; " +
		"node 2 is in a cluster that was founded without node 3: this node joins once the leader has added it"
	if err := h.nodes[3].Check(); err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("check: %v, want %s", err, want)
	}
	h.config[3] = h.identity[3] // the leader names it, and node 1 has heard
	h.meets(3, 1)
	h.admitted(1, 2, 3)
}

func TestANodeAloneFoundsItsCluster(t *testing.T) {
	a := newAdmission(1, 5, nil, nil)
	if got := a.foundAlone(); !maps.Equal(got, raftnet.Directories{1: 5}) {
		t.Errorf("got %v", got)
	}
	if newAdmission(1, 5, nil, []session.Node{2}).foundAlone() != nil ||
		newAdmission(1, 5, raftnet.Directories{1: 5}, nil).foundAlone() != nil {
		t.Error("a node that is not alone, or was admitted, founds a cluster")
	}
}

// A node that is to join founds no cluster, neither alone nor with others that found one with it (J2 add, promote,
// demote).
func TestJ2ANodeThatJoinsFoundsNoCluster(t *testing.T) {
	a := newAdmission(4, 5, nil, nil)
	a.joins = true
	if got := a.foundAlone(); got != nil {
		t.Errorf("alone it founds %v", got)
	}
	for _, joins := range []bool{false, true} {
		a, other := newAdmission(4, 5, nil, []session.Node{1}), newAdmission(1, 7, nil, []session.Node{4})
		a.joins = joins
		var founded raftnet.Directories
		for range 3 { // both meet each other
			question, view := other.request(0)
			other.learn(raftnet.Met{Node: 4, Directory: 5, Answer: a.Answer(1, 7, question)}, view)
			question, view = a.request(0)
			if got := a.learn(raftnet.Met{Node: 1, Directory: 7, Answer: other.Answer(4, 5, question)}, view); got != nil {
				founded = got
			}
		}
		if (founded == nil) != joins {
			t.Errorf("joins %v: it founds %v", joins, founded)
		}
		if err := a.Check(); joins && !strings.Contains(err.Error(), "has run holdfast cluster add 4") {
			t.Errorf("it says %q", err)
		}
	}
}

// Whatever is emptied, restarted, delayed and lost while a cluster is founded, there are never two sets of founders,
// and no node is admitted as a founder on a directory that is none.
func TestThereIsOneSetOfFounders(t *testing.T) {
	founded := 0
	for seed := range uint64(100) {
		random := rand.New(rand.NewPCG(seed, 1))
		h := newHall(t, 2+int(seed%2))
		// said are answers on their way; pending are founders that are being written down.
		type said struct {
			a, b     session.Node
			on, mine raftnet.Directory
			life     *Admission
			answer   []byte
			view     uint64
		}
		var onTheirWay []said
		pending := map[session.Node]raftnet.Directories{}
		pick := func() session.Node { return session.Node(random.IntN(h.size) + 1) }
		for range 400 {
			a, b := pick(), pick()
			switch random.IntN(40) {
			case 0:
				delete(pending, a)
				h.empty(a)
			case 1:
				delete(pending, a)
				h.start(a)
			case 2, 3, 4:
				if now := pending[a]; now != nil {
					h.disk[a] = now
					h.nodes[a].foundersPersisted(now)
					delete(pending, a)
					if len(h.disk) == 1 {
						founded++
					}
					for other, theirs := range h.disk { // with the last directory that knew of it a cluster is gone
						if !maps.Equal(theirs, now) {
							t.Fatalf("seed %d: node %d has the founders %v, node %d %v", seed, a, now, other, theirs)
						}
					}
					if now[a] != h.identity[a] {
						t.Fatalf("seed %d: node %d is admitted on directory %v, and the founders are %v", seed,
							a, h.identity[a], now)
					}
				}
			case 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19:
				if len(onTheirWay) == 0 {
					break
				}
				i := random.IntN(min(len(onTheirWay), 6))
				s := onTheirWay[i]
				onTheirWay = append(onTheirWay[:i], onTheirWay[i+1:]...)
				if h.nodes[s.a] != s.life {
					break // its connection ended with it
				}
				if now := h.nodes[s.a].learn(raftnet.Met{Node: s.b, Directory: s.on, Answer: s.answer},
					s.view); now != nil {
					pending[s.a] = now
				}
			default:
				if a != b {
					request, view := h.nodes[a].request(0)
					onTheirWay = append(onTheirWay,
						said{
							a, b, h.identity[b], h.identity[a], h.nodes[a],
							h.nodes[b].Answer(a, h.identity[a], request), view,
						})
				}
			}
		}
	}
	if t.Logf("%d clusters were founded", founded); founded < 100 {
		t.Error("the test shows little")
	}
}

// Admitted takes no lock, and agrees with the founders on the node's disk.
func TestAdmittedWithoutALock(t *testing.T) {
	if a := newAdmission(1, 7, raftnet.Directories{1: 7}, nil); !a.Admitted() {
		t.Error("a node that has founders is not admitted")
	}
	a := newAdmission(1, 7, nil, nil)
	if a.Admitted() {
		t.Error("a node without founders is admitted")
	}
	a.foundersPersisted(a.foundAlone())
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.Admitted() {
		t.Error("a node that has founded its cluster is not admitted")
	}
}

// A node belongs to its cluster once it is admitted and Raft's configuration names it: before, it shows nothing,
// whatever it has applied.
func TestN1AdmissionDecides(t *testing.T) {
	for _, tt := range []struct{ admitted, member bool }{{true, true}, {true, false}, {false, true}, {false, false}} {
		a := newAdmission(1, 7, nil, nil)
		a.in.Store(tt.admitted)
		a.membership.member.Store(tt.member)
		if got, want := a.Belongs(), tt.admitted && tt.member; got != want {
			t.Errorf("%+v: it belongs: %v, want %v", tt, got, want)
		}
	}
}
