package node

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/node/config"
	"holdfast/session"
	"holdfast/test/bubble"
	"holdfast/transport/dial"
	"holdfast/transport/raftnet"
)

// stranger is a process that reaches the ports for nodes, and says that it is a node. Greetings tell anybody the
// cluster's name and the directories. One that has the key of a member's directory is as good as the member.
type stranger struct {
	*raftnet.Layer
	c    *testCluster
	dial func(ctx context.Context, address string) (net.Conn, error)
}

// stranger returns a stranger that speaks to Raft's ports as a node, with the key of a directory. The test closes it.
func (c *testCluster) stranger(as session.Node, key raftnet.Key) stranger {
	c.t.Helper()
	host := c.Host("stranger")
	listener, err := host.Listen("stranger:7401")
	if err != nil {
		c.t.Fatal(err)
	}
	return stranger{raftnet.New(raftnet.Config{
		ClusterID: c.nodes[0].cfg.ClusterID, Settings: c.nodes[0].cfg.ClusterSettings(), Node: as, Key: key,
		Advertise: "stranger:7401", Listener: listener, Dial: host.Dial,
	}), c, host.Dial}
}

// follow opens a stream to the peer port of n.
func (s stranger) follow(n *testNode, hello session.Hello) (*dial.PeerLink, error) {
	p, _ := n.cfg.Self()
	return dial.Peer(s.c.t.Context(), dial.PeerConfig{
		Address: p.Peer, ClusterID: n.cfg.ClusterID, Dial: s.dial,
	}, hello)
}

func (s stranger) close() {
	if err := s.Close(); err != nil {
		s.c.t.Error(err)
	}
}

// Raft's port refuses a number that no node of the cluster has, and both sides say why. It greets the number of a node
// on any directory, so that a node that lost its directory can come back.
func TestANumberOfNoNodeIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n := c.leader(within)
		for _, tt := range []struct {
			as session.Node
			ok bool
		}{{99, false}, {4, false}, {2, true}} {
			if tt.as == n.cfg.Node {
				tt.as = 3
			}
			s := c.stranger(tt.as, raftnet.Key{0xba})
			conn, err := s.Dial(raft.ServerAddress(n.name+":7401"), time.Second)
			if err == nil {
				_ = conn.Close()
			}
			_, met := s.Meet(t.Context(), n.name+":7401", []byte("{}"))
			for _, err := range []error{err, met} {
				if (err == nil) != tt.ok ||
					!tt.ok && (!errors.Is(err, session.ErrWrongCluster) ||
						!strings.Contains(err.Error(), "is not among node")) {
					t.Errorf("as node %d: %v", tt.as, err)
				}
			}
			s.close()
		}
		if !strings.Contains(n.log.String(), "node 99 is not among node "+config.FormatNode(n.cfg.Node)+
			"'s peers, nor a member") {
			t.Errorf("the log does not say who was refused")
		}
	})
}

// The leader's own relay has no stream over the peer port. A stream that names the leader itself would end the stream
// of that relay, and with an answer of a newer term it would end the leader's term.
func TestNobodyFollowsALeaderAsItself(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		n := c.leader(within)
		s := c.stranger(9, raftnet.Key{0xba})
		defer s.close()
		link, err := s.follow(
			n, session.Hello{
				Node: n.cfg.Node, Directory: uint64(n.membership.OwnDirectory()), Incarnation: math.MaxUint64,
				Stream: 1,
			},
		)
		if err == nil {
			m, heard := link.Recv()
			for heard == nil && m.Heartbeat == nil {
				m, heard = link.Recv()
			}
			if heard == nil {
				_ = link.Send(
					session.LearnerMessage{
						Answer: &session.Answer{Round: m.Heartbeat.Round, Term: math.MaxUint64, Last: true},
					},
				)
			}
			_ = link.Close()
		}
		if !errors.Is(err, session.ErrWrongCluster) {
			t.Errorf("a stream of the leader to itself: %v", err)
		}
		time.Sleep(time.Second)
		if !n.Leads() || strings.Contains(n.log.String(), "answers from term") {
			t.Errorf("the leader's term was ended")
		}
	})
}

// A term that leaves none above it, or an entry in the middle of nowhere, is refused in every message of Raft, by each
// node, and the cluster goes on.
func TestAbsurdTermsEndNoCluster(t *testing.T) {
	const absurd = math.MaxUint64 - 1
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		lead := c.leader(within)
		as := c.others(lead)[0]
		s := c.stranger(as.cfg.Node, as.dir.Identity().Key)
		defer s.close()
		term, last := lead.membership.Term(), lead.view.AppliedIndex()
		header := raft.RPCHeader{
			ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(raftnet.ServerID(as.cfg.Node, as.membership.OwnDirectory())),
			Addr: []byte(raftnet.At(as.name+":7401", as.membership.OwnDirectory())),
		}
		snapshot := func(term, index uint64) *raft.InstallSnapshotRequest {
			return &raft.InstallSnapshotRequest{
				RPCHeader: header, SnapshotVersion: 1, Term: term, LastLogTerm: 1,
				LastLogIndex: index, Configuration: raft.EncodeConfiguration(
					lead.consensus.Raft.GetConfiguration().Configuration(),
				), Size: 7,
			}
		}
		entry := func(index, of uint64, kind raft.LogType, data string) *raft.AppendEntriesRequest {
			return &raft.AppendEntriesRequest{
				RPCHeader: header, Term: term,
				Entries: []*raft.Log{{Index: index, Term: of, Type: kind, Data: []byte(data)}},
			}
		}
		tr := raftnet.NewTransport(s.Layer, 0).NetworkTransport
		for name, request := range map[string]any{
			"append": &raft.AppendEntriesRequest{
				RPCHeader: header, Term: absurd, PrevLogEntry: 1,
				PrevLogTerm: 1,
			},
			"heartbeat": &raft.AppendEntriesRequest{RPCHeader: header, Term: absurd},
			"vote": &raft.RequestVoteRequest{
				RPCHeader: header, Term: absurd, LastLogIndex: last, LastLogTerm: term, LeadershipTransfer: true,
			},
			"pre-vote": &raft.RequestPreVoteRequest{
				RPCHeader: header, Term: absurd,
				LastLogIndex: last, LastLogTerm: term,
			},
			"snapshot": snapshot(absurd, last),
			"one above the leap": &raft.AppendEntriesRequest{RPCHeader: header, Term: term +
				raftnet.TermLeap + 2},
			"entry in the middle":      entry(1<<40, term, raft.LogCommand, ""),
			"entry of a later term":    entry(1, absurd, raft.LogNoop, ""),
			"entry that is no command": entry(1, term, raft.LogCommand, "\x01garbage"),
			"entry of no type":         entry(1, term, 77, ""),
			"entry that configures":    entry(1, term, raft.LogConfiguration, "garbage"),
			"vote with a log from beyond": &raft.RequestVoteRequest{RPCHeader: header, Term: term +
				1, LastLogIndex: absurd, LastLogTerm: term, LeadershipTransfer: true},
			"vote with a last term beyond": &raft.RequestVoteRequest{RPCHeader: header, Term: term +
				1, LastLogIndex: last, LastLogTerm: absurd, LeadershipTransfer: true},
			"snapshot from beyond": snapshot(term, absurd),
		} {
			for _, n := range c.nodes {
				if n == as {
					continue
				}
				if err := say(tr, raftnet.At(n.name+":7401", n.membership.OwnDirectory()), request); err == nil {
					t.Errorf("%s to %s was not refused", name, n.name)
				}
			}
		}
		if err := tr.Close(); err != nil {
			t.Error(err)
		}
		for _, n := range c.nodes {
			if got := n.membership.Term(); got > term+10 {
				t.Errorf("%s is in term %d, was in %d", n.name, got, term)
			}
		}
		c.mustOpen(c.leader(within), within)
		c.agree(within)
	})
}

// say sends one request of any kind.
func say(tr *raft.NetworkTransport, at raft.ServerAddress, request any) error {
	switch r := request.(type) {
	case *raft.AppendEntriesRequest:
		return tr.AppendEntries("", at, r, &raft.AppendEntriesResponse{})
	case *raft.RequestVoteRequest:
		return tr.RequestVote("", at, r, &raft.RequestVoteResponse{})
	case *raft.RequestPreVoteRequest:
		return tr.RequestPreVote("", at, r, &raft.RequestPreVoteResponse{})
	case *raft.InstallSnapshotRequest:
		return tr.InstallSnapshot("", at, r, &raft.InstallSnapshotResponse{}, strings.NewReader("garbage"))
	}
	return errors.New("no request")
}

// raise sets the term on the disk of a node that has ended, as if it had stood for that many elections.
func (c *testCluster) raise(n *testNode, term uint64) {
	c.t.Helper()
	store, err := openLog(c.config(n).DataDir)
	if err == nil {
		err = errors.Join(store.stable.SetUint64([]byte("CurrentTerm"), term), store.Close())
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// A node may be so far behind in terms that it believes no request of the others. It is not shut out: not a node with a
// vote, not a node on a new directory, and not all nodes but one.
func TestANodeFarBehindLearnsTheTerm(t *testing.T) {
	const far = 1 << 50
	for name, tt := range map[string]struct {
		raised int
		one    bool // the others go on meanwhile
	}{"two of three": {2, false}, "one of three": {1, false}, "one, and the others lead": {1, true}} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				granted := c.mustOpen(c.leader(within), within)
				ended := c.nodes
				if tt.one {
					ended = ended[:1]
				}
				for _, n := range ended {
					if err := c.end(n); err != nil {
						t.Error(err)
					}
				}
				for _, n := range c.nodes[:tt.raised] {
					c.raise(n, far)
				}
				if tt.one {
					c.leader(within, ended...)
				}
				for _, n := range ended {
					c.start(n)
				}
				c.eventually("all serve", 2*within, func() bool {
					return c.nodes[0].health.Check() == nil && c.nodes[1].health.Check() == nil &&
						c.nodes[2].health.Check() == nil
				})
				emptied := c.nodes[2]
				c.kill(emptied)
				c.empty(emptied)
				c.start(emptied)
				c.eventually("one on a new directory serves", 30*time.Second, func() bool {
					return emptied.health.Check() == nil && emptied.membership.IsVoter()
				})
				if got := emptied.membership.Term(); got < far {
					t.Errorf("term %d, want at least %d", got, uint64(far))
				}
				if _, err := emptied.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
					t.Errorf("a session from before: %v", err)
				}
			})
		})
	}
}

// A snapshot that is none is refused before Raft takes it for the newest: the node goes on, its own snapshots stay, and
// it starts again from them.
func TestAGarbageSnapshotIsRefused(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		c := newTestCluster(t, 3, nil)
		defer c.stop()
		lead := c.leader(within)
		granted := c.mustOpen(lead, within)
		n, as := c.others(lead)[0], c.others(lead)[1]
		c.agree(within)
		if err := n.consensus.Raft.Snapshot().Error(); err != nil {
			t.Fatal(err)
		}
		own, err := n.consensus.Store.Snapshots().List()
		if err != nil || len(own) != 1 {
			t.Fatalf("own snapshots: %v, %v", own, err)
		}
		_, good, err := n.consensus.Store.Snapshots().Open(own[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		valid, err := io.ReadAll(good)
		if err = errors.Join(err, good.Close()); err != nil {
			t.Fatal(err)
		}
		s := c.stranger(as.cfg.Node, as.dir.Identity().Key)
		defer s.close()
		tr := raftnet.NewTransport(s.Layer, 0).NetworkTransport
		send := func(index uint64, data string) error {
			return tr.InstallSnapshot("", raftnet.At(n.name+":7401", n.membership.OwnDirectory()), &raft.InstallSnapshotRequest{
				RPCHeader: raft.RPCHeader{
					ProtocolVersion: raft.ProtocolVersionMax, ID: []byte(raftnet.ServerID(as.cfg.Node, as.membership.OwnDirectory())),
					Addr: []byte(as.name + ":7401"),
				},
				SnapshotVersion: 1, Term: n.membership.Term(), LastLogTerm: n.membership.Term(), LastLogIndex: index,
				Size:          int64(len(data)),
				Configuration: raft.EncodeConfiguration(n.consensus.Raft.GetConfiguration().Configuration()),
			}, &raft.InstallSnapshotResponse{}, strings.NewReader(data))
		}
		for range 3 { // more often than snapshots are kept
			for name, tt := range map[string]struct {
				index uint64
				data  string
				words string
			}{
				"garbage":             {own[0].Index + 1000, "not a snapshot of holdfast", "snapshot refused"},
				"nothing":             {own[0].Index + 1000, "", "snapshot refused"},
				"cut short":           {own[0].Index + 1000, string(valid[:len(valid)-1]), "snapshot refused"},
				"one byte more":       {own[0].Index + 1000, string(valid) + "x", "snapshot refused"},
				"of an earlier index": {1, string(valid), "is superseded by the snapshot up to entry "},
			} {
				if err = send(tt.index, tt.data); err == nil || !strings.Contains(err.Error(), tt.words) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		if err = tr.Close(); err != nil {
			t.Error(err)
		}
		kept, err := n.consensus.Store.Snapshots().List()
		if err != nil || len(kept) != 1 || kept[0].ID != own[0].ID {
			t.Errorf("snapshots are %v, %v; want %v", kept, err, own[0].ID)
		}
		c.restart(n)
		c.eventually("it serves", 2*within, func() bool { return n.health.Check() == nil })
		if _, err = n.server.Find(t.Context(), granted.Session.ID, session.ReadOptions{}); err != nil {
			t.Errorf("a session from before: %v", err)
		}
	})
}

// What a stranger opens to the leader in a node's name, with the highest incarnation or the highest number of a stream,
// does not keep the node's own streams out: the leader asks the node which is its newest. While the stranger is
// connected, too.
func TestNobodyIsShutOutByAStreamInItsName(t *testing.T) {
	for name, forge := range map[string]func(*session.Hello){
		"incarnation":        func(h *session.Hello) { h.Incarnation = 1 << 62 },
		"number of a stream": func(h *session.Hello) { h.Stream = math.MaxUint64 },
	} {
		t.Run(name, func(t *testing.T) {
			bubble.Test(t, func(t *testing.T) {
				c := newTestCluster(t, 3, nil)
				defer c.stop()
				lead := c.leader(within)
				n := c.others(lead)[0]
				c.eventually("it serves", within, func() bool { return n.health.Check() == nil })
				s := c.stranger(9, raftnet.Key{0xba})
				defer s.close()
				hello := n.streams.Newest()
				forge(&hello)
				link, err := s.follow(lead, hello)
				if err != nil {
					t.Fatal(err)
				}
				defer link.Close()
				defer time.AfterFunc(2*within, func() { _ = link.Close() }).Stop()
				for _, err = link.Recv(); err == nil; { // until the node's own stream takes its place
					_, err = link.Recv()
				}
				took := c.eventually("it serves again", within, func() bool { return n.health.Check() == nil })
				t.Logf("%v after the stream that was not its own ended", took)
				if again, err := s.follow(lead, hello); err == nil {
					_ = again.Close()
					t.Error("a stream that was found to be none of the node's was opened again")
				}
				c.mustOpen(n, within)
			})
		})
	}
}
