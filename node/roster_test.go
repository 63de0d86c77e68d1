package node

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
func TestRosterBeforeRaft(t *testing.T) {
	r := &roster{self: 2, mine: 22, peers: threePeers()}
	if r.servers() != nil || r.term() != 0 || r.named(2) != 0 || r.votes() || r.drift() != nil {
		t.Errorf("servers %v, term %d, own directory %v, votes %v, drift %q: want nothing", r.servers(), r.term(),
			r.named(2), r.votes(), r.drift())
	}
	r.look()
	if r.member.Load() {
		t.Error("a member before Raft runs")
	}
	for node, want := range map[session.Node]bool{1: true, 2: false, 3: true, 4: false} {
		if got := r.greets(node); got != want {
			t.Errorf("node %d: greets is %v, want %v", node, got, want)
		}
	}
}

func TestRosterOfPeers(t *testing.T) {
	peers := threePeers()
	r := &roster{self: 2, mine: 22, peers: peers}
	if got, want := r.otherNodes(), []session.Node{1, 3}; !slices.Equal(got, want) {
		t.Errorf("other nodes: got %v, want %v", got, want)
	}
	if got, want := r.otherClients(), []string{"n1:7400", "n3:7400"}; !slices.Equal(got, want) {
		t.Errorf("other clients: got %v, want %v", got, want)
	}
	if !reflect.DeepEqual(r.peers, threePeers()) {
		t.Errorf("the peers have changed: %v", r.peers)
	}
	if got := r.peerOf(3); got != peers[2] {
		t.Errorf("got %v, want %v", got, peers[2])
	}
	if got := r.peerOf(4); got != (config.Peer{}) {
		t.Errorf("got %v for a node of no peer's", got)
	}
	if got, ok := r.peerBehind(serverID(3, 33)); !ok || got != peers[2] {
		t.Errorf("got %v, %v, want %v", got, ok, peers[2])
	}
	for _, id := range []raft.ServerID{serverID(4, 44), "", "n1"} {
		if got, ok := r.peerBehind(id); ok {
			t.Errorf("%q: got %v, want none", id, got)
		}
	}
}

func TestTheFirstConfigurationIsTheFounders(t *testing.T) {
	r := &roster{self: 2, mine: 22, peers: threePeers()}
	got, err := r.first(directories{3: 33, 1: 11})
	if err != nil {
		t.Fatal(err)
	}
	want := &raft.Configuration{Servers: []raft.Server{
		{Suffrage: raft.Voter, ID: serverID(1, 11), Address: raftnet.At("n1:7401", 11)},
		{Suffrage: raft.Voter, ID: serverID(3, 33), Address: raftnet.At("n3:7401", 33)},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got, err := r.first(nil); got != nil || err != nil {
		t.Errorf("without founders: got %+v, %v", got, err)
	}
	const text = "node 4 founded the cluster with this node and is not among its peers: add it"
	if got, err := r.first(directories{1: 11, 4: 44}); got != nil || err == nil || err.Error() != text {
		t.Errorf("got %+v, %v, want %s", got, err, text)
	}
}
