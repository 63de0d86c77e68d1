package node

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/test/bubble"
	"holdfast/transport/raftnet"
)

// askForVote asks of for its vote in a term, as the candidate would.
func (c *testCluster) askForVote(candidate, of *testNode, term uint64) (bool, error) {
	c.t.Helper()
	cfg := c.config(candidate)
	self, _ := cfg.Self()
	to := c.config(of)
	theirs, _ := to.Self()
	listener, err := c.Host("ghost").Listen(":7401")
	if err != nil {
		c.t.Fatal(err)
	}
	layer := raftnet.New(raftnet.Config{
		ClusterID: cfg.ClusterID, Node: cfg.Node, Advertise: self.Raft, Listener: listener, Dial: c.Host("ghost").Dial,
	})
	trans := raftnet.NewTransport(layer, time.Second)
	defer func() {
		trans.CloseStreams()
		_ = trans.Close()
	}()
	request := &raft.RequestVoteRequest{
		RPCHeader: raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(raftnet.ServerID(cfg.Node, candidate.membership.OwnDirectory())),
			Addr: trans.EncodePeer("", candidate.raftAddress()),
		},
		Term: term, LastLogIndex: candidate.consensus.Raft.LastIndex(), LastLogTerm: term - 1,
	}
	var answer raft.RequestVoteResponse
	err = trans.RequestVote(raftnet.ServerID(to.Node, of.membership.OwnDirectory()), raft.ServerAddress(theirs.Raft), request, &answer)
	return answer.Granted, err
}

// A voter gives its vote again to the candidate that asks twice. A node that has moved to that candidate's address is
// another one.
func TestAVoteIsNotForAnAddress(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		leads := c.leader(within)
		term := leads.consensus.Raft.CurrentTerm()
		voter, mover := c.others(leads)[0], c.others(leads)[1]
		if voted, err := voter.consensus.Store.Stable().GetUint64([]byte("LastVoteTerm")); err != nil || voted != term {
			voter, mover = mover, voter // who led in the term had the vote of one of them
		}
		defer c.cut(voter, leads, mover)()
		c.kill(leads)
		c.kill(mover)
		c.change = func(cfg *config.Config) {
			a, b := &cfg.Peers[leads.cfg.Node-1], &cfg.Peers[mover.cfg.Node-1]
			a.Raft, b.Raft = b.Raft, a.Raft
		}
		c.start(mover)
		if granted, err := c.askForVote(leads, voter, term); err != nil || !granted {
			t.Fatalf("the candidate asks again: %t, %v", granted, err)
		}
		if granted, err := c.askForVote(mover, voter, term); err != nil || granted {
			t.Errorf("a node asks that has moved to the candidate's address: %t, %v", granted, err)
		}
		c.change = nil
		c.start(leads)
	})
}

// A vote outlives its voter's process: in one term it goes to one candidate, whatever restarts between.
func TestAVoteOutlivesARestart(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		first := c.leader(within)
		voter, second := c.others(first)[0], c.others(first)[1]
		c.agree(within)
		c.kill(first)
		c.kill(second)
		term := voter.consensus.Raft.CurrentTerm() + 1
		if granted, err := c.askForVote(first, voter, term); err != nil || !granted {
			t.Fatalf("the first candidate: %t, %v", granted, err)
		}
		for range 2 {
			if granted, err := c.askForVote(second, voter, term); err != nil || granted {
				t.Errorf("the second candidate of term %d: %t, %v", term, granted, err)
			}
			if granted, err := c.askForVote(first, voter, term); err != nil || !granted {
				t.Errorf("the first candidate asks again: %t, %v", granted, err)
			}
			if now := voter.consensus.Raft.CurrentTerm(); now != term {
				t.Fatalf("the voter is in term %d, want %d", now, term)
			}
			c.kill(voter)
			c.start(voter)
			c.eventually("the voter takes part without the reports of the others (J6)", within, func() bool {
				_, err := c.askForVote(second, voter, term)
				return err == nil
			})
		}
		c.start(first)
		c.start(second)
	})
}
