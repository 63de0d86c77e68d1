package members

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// fakeTerm is a term in which the leader knows and follows what a test says.
type fakeTerm struct {
	Term
	peers   []leader.Peer
	follows bool
}

func (t *fakeTerm) Peers() []leader.Peer      { return t.peers }
func (t *fakeTerm) Follows(session.Node) bool { return t.follows }

// votersHeard returns a term of three voters that are all heard.
func votersHeard() *fakeTerm {
	t := &fakeTerm{}
	for node := session.Node(1); node <= 3; node++ {
		t.peers = append(t.peers, leader.Peer{Node: node, Voter: true, Responsive: true})
	}
	return t
}

// directory returns the directory of a member. Nodes that ask to be added run on newDirectory.
func directory(node session.Node) raftnet.Directory { return raftnet.Directory(11 * node) }

const newDirectory raftnet.Directory = 99

// member returns the entry of a member that an operator has added, with a desired state.
func member(node session.Node, s raft.ServerSuffrage, d Desired) raft.Server {
	return raft.Server{
		Suffrage: s, ID: raftnet.ServerID(node, directory(node)), Address: addressOf(threePeers()[node-1], directory(node), d),
	}
}

// founder returns the entry of a member of the first configuration: its address has no marks.
func founder(node session.Node, s raft.ServerSuffrage, d raftnet.Directory) raft.Server {
	return raft.Server{Suffrage: s, ID: raftnet.ServerID(node, d), Address: raftnet.At(threePeers()[node-1].Raft, d)}
}

// testFacts are the facts of node 1, which leads three voters that are heard, with other entries of some nodes.
func testFacts(others ...raft.Server) (*facts, *fakeTerm) {
	term := votersHeard()
	f := &facts{
		now: time.Unix(1000, 0), self: 1, known: threePeers(), committed: 50, term: term,
		usedUp: func(session.Node) bool { return false },
	}
	for node := session.Node(1); node <= 3; node++ {
		s := founder(node, raft.Voter, directory(node))
		if other, found := Find(others, node); found {
			s = other
		}
		f.servers = append(f.servers, s)
	}
	return f, term
}

func testPlanner() *planner {
	return newPlanner(time.Second, time.Hour, func(session.Node, error) {})
}

func nodesOf(probes []config.Peer) (nodes []session.Node) {
	for _, p := range probes {
		nodes = append(nodes, p.Node)
	}
	return nodes
}

// What an operator wants of a member comes about in steps: it loses its vote, is drained, its number is used up, and it
// is removed (J2 add, promote, demote, J3 removal).
func TestStepsOfAMember(t *testing.T) {
	leaves := member(2, raft.Nonvoter, DesiredRemoved)
	for name, tt := range map[string]struct {
		member raft.Server
		got    answers
		usedUp bool
		want   action
	}{
		"a voter that stays":              {member(2, raft.Voter, DesiredVoter), nil, false, noAction},
		"a voter to observe":              {member(2, raft.Voter, DesiredObserver), nil, false, demote},
		"a voter to be removed":           {member(2, raft.Voter, DesiredRemoved), nil, false, demote},
		"the leader to be removed":        {member(1, raft.Voter, DesiredRemoved), nil, false, transferLeadership},
		"an observer":                     {member(2, raft.Nonvoter, DesiredObserver), nil, false, noAction},
		"without a vote, silent":          {leaves, nil, false, noAction},
		"without a vote, with clients":    {leaves, answers{2: {node: 2}}, false, noAction},
		"without a vote, drained":         {leaves, answers{2: {node: 2, drained: true}}, false, useUpNumber},
		"drained, and its number used up": {leaves, answers{2: {node: 2, drained: true}}, true, removeMember},
		"another node is drained":         {leaves, answers{3: {node: 3, drained: true}}, false, noAction},
	} {
		f, _ := testFacts(tt.member)
		f.usedUp = func(session.Node) bool { return tt.usedUp }
		if got := testPlanner().memberStep(f, tt.got); got.action != tt.want {
			t.Errorf("%s: got %+v, want action %d", name, got, tt.want)
		}
	}
}

// A leader that is to lose its vote, and cannot lose it because the other voters would be no quorum, leads on. If it
// transferred leadership to a node that is to lose its vote too, the two would transfer it back and forth (J4 quorum is
// kept).
func TestJ4ALeaderThatKeepsItsVoteLeadsOn(t *testing.T) {
	f, term := testFacts(member(1, raft.Voter, DesiredRemoved))
	term.peers[1].Responsive = false
	if got := testPlanner().memberStep(f, nil); got.action != noAction {
		t.Errorf("it transfers leadership, although it cannot lose its vote: %+v", got)
	}
}

// Between the mark and the taking of a vote a voter may die: the leader looks again, and takes no vote that leaves no
// quorum (J4). It takes the vote once the others are heard again.
func TestJ4NoVoteIsTakenBesideADeadVoter(t *testing.T) {
	f, term := testFacts(member(2, raft.Voter, DesiredObserver))
	p := testPlanner()
	var kept session.Node
	p.keepsVote = func(node session.Node, _ error) { kept = node }
	term.peers[2].Responsive = false
	if got := p.memberStep(f, nil); got.action != noAction || kept != 2 {
		t.Errorf("it takes the vote of one of two voters that are left: %+v, %d keeps its vote", got, kept)
	}
	term.peers[2].Responsive = true
	if got := p.memberStep(f, nil); got.action != demote {
		t.Errorf("with a quorum again it takes no vote: %+v", got)
	}
}

// A member that is to be removed, and does not answer once, is not dead: its clients may be there. It is dead when it
// was silent at several looks in a row, and has no stream to the leader (J3).
func TestJ3OneSilenceIsNoDeath(t *testing.T) {
	f, term := testFacts(member(2, raft.Nonvoter, DesiredRemoved))
	p := testPlanner()
	looks := func() int {
		for n := 1; n < 2*goneChecks; n++ {
			if p.memberStep(f, nil).action != noAction {
				return n
			}
		}
		return 2 * goneChecks
	}
	p.memberStep(f, nil)
	p.memberStep(f, answers{2: {node: 2}}) // an answer begins the count anew
	if got := looks(); got != goneChecks {
		t.Errorf("nobody has to be waited for after %d looks, want %d", got, goneChecks)
	}
	term.follows = true
	if got := looks(); got != 2*goneChecks {
		t.Errorf("a node with a stream to the leader is dead after %d looks", got)
	}
	if got := nodesOf(p.memberProbes(f)); len(got) != 1 || got[0] != 2 {
		t.Errorf("it asks %v, want node 2", got)
	}
	f.now = f.now.Add(time.Hour + recentIntervals*time.Second + 1)
	if got := p.memberStep(f, nil); got.action != useUpNumber || len(p.memberProbes(f)) != 0 {
		t.Errorf("a member that has had its time is waited for: %+v", got)
	}
}

// A node that asks to be added becomes a member without a vote if it runs at its own address. It votes once it has
// applied what was committed when the leader first saw it as a member (J2).
func TestStepsOfARequest(t *testing.T) {
	for name, tt := range map[string]struct {
		server  *raft.Server
		applied uint64
		got     answers
		want    step
	}{
		"a new node": {
			nil, 0, answers{2: {node: 2, directory: newDirectory}}, step{action: addMember},
		},
		"a stray process":             {nil, 0, answers{2: {node: 2, directory: directory(2)}}, step{}},
		"another node at the address": {nil, 0, answers{2: {node: 3, directory: newDirectory}}, step{}},
		"no answer":                   {nil, 0, nil, step{}},
		"behind":                      {new(founder(2, raft.Nonvoter, newDirectory)), 49, nil, step{}},
		"caught up":                   {new(founder(2, raft.Nonvoter, newDirectory)), 50, nil, step{action: giveVote}},
		"a voter":                     {new(founder(2, raft.Voter, newDirectory)), 50, nil, step{}},
		"an observer":                 {new(member(2, raft.Nonvoter, DesiredObserver)), 50, nil, step{}},
		"added, and on a new directory": {
			new(member(2, raft.Nonvoter, DesiredVoter)), 50, answers{2: {node: 2, directory: newDirectory}}, step{},
		},
		"its former directory may be in use": {
			new(founder(2, raft.Voter, directory(2))), 50, answers{2: {node: 2, directory: newDirectory}}, step{},
		},
	} {
		f, _ := testFacts()
		f.servers = f.servers[:1]
		if tt.server != nil {
			f.servers = append(f.servers, *tt.server)
		}
		f.requests = map[session.Node]joinRequest{2: {directory: newDirectory, applied: tt.applied}}
		want := tt.want
		if want.action != noAction {
			want.node, want.request = 2, f.requests[2]
			want.id, want.address = raftnet.ServerID(2, newDirectory), raftnet.At(threePeers()[1].Raft, newDirectory)
		}
		if got := testPlanner().requestStep(f, tt.got); got != want {
			t.Errorf("%s: got %+v, want %+v", name, got, want)
		}
	}
}

// A node that has caught up stays caught up: its target is what was committed at the first look.
func TestTheTargetOfAMemberStays(t *testing.T) {
	f, _ := testFacts(founder(2, raft.Nonvoter, newDirectory))
	p := testPlanner()
	f.requests = map[session.Node]joinRequest{2: {directory: newDirectory, applied: 49}}
	p.requestStep(f, nil)
	f.committed = 1000
	f.requests[2] = joinRequest{directory: newDirectory, applied: 50}
	if got := p.requestStep(f, nil); got.action != giveVote {
		t.Errorf("got %+v, want that it votes", got)
	}
}

// A member gives its place to a process on another directory when it was gone at several looks in a row, and the other
// process runs at its address. A stream of the member begins the count anew.
func TestALostDirectoryIsReplaced(t *testing.T) {
	f, term := testFacts()
	f.requests = map[session.Node]joinRequest{2: {directory: newDirectory}}
	p, runs := testPlanner(), answers{2: {node: 2, directory: newDirectory}}
	look := func(got answers, n int) {
		t.Helper()
		for range n {
			if got := p.requestStep(f, got); got.action != noAction {
				t.Errorf("got %+v, want no step yet", got)
			}
		}
	}
	look(runs, goneChecks-1)
	term.follows = true
	look(runs, 1)
	term.follows = false
	look(runs, goneChecks-2)
	if got := p.requestProbes(f); len(got) != 0 {
		t.Errorf("it asks %v before it may replace the directory", got)
	}
	look(runs, 1)
	if got := nodesOf(p.requestProbes(f)); len(got) != 1 || got[0] != 2 {
		t.Errorf("it asks %v, want node 2", got)
	}
	look(answers{2: {node: 2, directory: directory(2)}}, 1) // the member is back
	if got, want := p.requestStep(f, runs), raftnet.ServerID(2, directory(2)); got.action != removeLost || got.id != want {
		t.Errorf("got %+v, want that %s is removed", got, want)
	}
	look(runs, goneChecks-1)
}
