package members

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

func threePeers() []config.Peer {
	var peers []config.Peer
	for i := 1; i <= 3; i++ {
		host := fmt.Sprintf("n%d", i)
		peers = append(peers, config.Peer{
			Node: session.Node(i), Raft: host + ":7401", Peer: host + ":7402", Client: host + ":7400",
		})
	}
	return peers
}

// Before Raft runs there are no members, and peers are all that a node knows.
func TestMembershipBeforeRaft(t *testing.T) {
	m := NewMembership(2, 22, threePeers())
	if m.Servers() != nil || m.Term() != 0 || m.DirectoryOf(2) != 0 || m.IsVoter() || m.Differences() != nil {
		t.Errorf("servers %v, term %d, own directory %v, votes %v, differences %q: want nothing", m.Servers(), m.Term(),
			m.DirectoryOf(2), m.IsVoter(), m.Differences())
	}
	m.Refresh()
	if m.IsMember() {
		t.Error("a member before Raft runs")
	}
	for node, want := range map[session.Node]bool{1: true, 2: false, 3: true, 4: false} {
		if got := m.MayGreet(node); got != want {
			t.Errorf("node %d: may greet is %v, want %v", node, got, want)
		}
	}
}

func TestMembershipOfPeers(t *testing.T) {
	peers := threePeers()
	m := NewMembership(2, 22, peers)
	if got, want := m.otherNodes(), []session.Node{1, 3}; !slices.Equal(got, want) {
		t.Errorf("other nodes: got %v, want %v", got, want)
	}
	if got, want := m.OtherClients(), []string{"n1:7400", "n3:7400"}; !slices.Equal(got, want) {
		t.Errorf("other clients: got %v, want %v", got, want)
	}
	if !reflect.DeepEqual(m.peers, threePeers()) {
		t.Errorf("the peers have changed: %v", m.peers)
	}
	if got := m.PeerOf(3); got != peers[2] {
		t.Errorf("got %v, want %v", got, peers[2])
	}
	if got := m.PeerOf(4); got != (config.Peer{}) {
		t.Errorf("got %v for a node of no peer's", got)
	}
	if got, ok := m.PeerOfServer(raftnet.ServerID(3, 33)); !ok || got != peers[2] {
		t.Errorf("got %v, %v, want %v", got, ok, peers[2])
	}
	for _, id := range []raft.ServerID{raftnet.ServerID(4, 44), "", "n1"} {
		if got, ok := m.PeerOfServer(id); ok {
			t.Errorf("%q: got %v, want none", id, got)
		}
	}
}

func TestTheFirstConfigurationIsTheFounders(t *testing.T) {
	m := NewMembership(2, 22, threePeers())
	got, err := m.FirstConfiguration(raftnet.Directories{3: 33, 1: 11})
	if err != nil {
		t.Fatal(err)
	}
	want := &raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: raftnet.ServerID(1, 11), Address: raftnet.At("n1:7401", 11)},
		{Suffrage: raft.Voter, ID: raftnet.ServerID(3, 33), Address: raftnet.At("n3:7401", 33)},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err := m.FirstConfiguration(nil); got != nil || err != nil {
		t.Errorf("without founders: got %+v, %v", got, err)
	}
	const text = "node 4 founded the cluster with this node and is not among its peers: add it"
	if got, err := m.FirstConfiguration(raftnet.Directories{1: 11, 4: 44}); got != nil || err == nil || err.Error() != text {
		t.Errorf("got %+v, %v, want %s", got, err, text)
	}
}
