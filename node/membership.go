package node

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	// patience is how many looks a node must have been gone for, and another one in its place have asked for, before
	// the leader takes that one in: two processes that were given one number by mistake must not replace each other.
	patience = 10
	// recent is how many heartbeat intervals an asking is remembered.
	recent = 4
)

// servers are those of Raft's newest configuration, none while there is none.
func (n *Node) servers() []raft.Server {
	r := n.raft.Load()
	if r == nil {
		return nil
	}
	future := r.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	return future.Configuration().Servers
}

// directoryOf returns the directory that Raft's newest configuration names for a node, and its server there; false when
// the node is not in it.
func (n *Node) directoryOf(node session.Node) (raft.Server, raftnet.Directory, bool) {
	for _, s := range n.servers() {
		if of, d, err := nodeOfServer(s.ID); err == nil && of == node {
			return s, d, true
		}
	}
	return raft.Server{}, 0, false
}

// named is the directory of [Node.directoryOf], 0 when the node is in no configuration.
func (n *Node) named(node session.Node) raftnet.Directory {
	_, d, _ := n.directoryOf(node)
	return d
}

// term is Raft's term of this node, 0 before Raft runs.
func (n *Node) term() uint64 {
	r := n.raft.Load()
	if r == nil {
		return 0
	}
	return r.CurrentTerm()
}

// belongs reports whether this node is admitted, and a member as far as it knows: a cluster that has removed it goes on
// without it, so that what it has is not shown (N1). It takes no lock.
func (n *Node) belongs() bool { return n.admission.admitted() && n.member.Load() }

// votes reports whether this node is admitted, and has a vote with its directory.
func (n *Node) votes() bool {
	s, d, ok := n.directoryOf(n.cfg.Node)
	return n.admission.admitted() && ok && d == n.admission.mine && s.Suffrage == raft.Voter
}

// meet has this node meet each of the others while it has no vote or hears of no leader, for as long as it runs:
// another in its place may have been taken in, and it comes back.
func (n *Node) meet(ctx context.Context) error {
	if founders := n.admission.alone(); founders != nil {
		n.settle(ctx, founders)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for _, p := range n.cfg.Peers {
		if p.Node != n.cfg.Node {
			wg.Go(func() { n.meetOne(ctx, p) })
		}
	}
	ticker := time.NewTicker(complaintInterval)
	defer ticker.Stop()
	if w, ok := errors.AsType[*waitsError](n.admission.check()); ok {
		n.logger.Info("waiting for " + w.awaited())
	}
	told, settings := n.tellDrift(""), ""
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		told, settings = n.tellDrift(told), n.tellSettings(settings)
		if err := n.admission.check(); err != nil {
			n.logger.Warn("takes no part yet", "reason", err)
		}
	}
}

// meetOne meets one other node at intervals, and at once when there is news.
func (n *Node) meetOne(ctx context.Context, p config.Peer) {
	ticker := time.NewTicker(n.cfg.Sessions.HeartbeatInterval)
	defer ticker.Stop()
	for {
		news := n.admission.news()
		if _, leads := n.consensus.raft.LeaderWithID(); leads == "" || !n.votes() ||
			n.admission.agreement.asks(p.Node, time.Now()) {
			request, view := n.admission.ask(n.state.AppliedIndex())
			met, err := n.consensus.layer.Meet(ctx, p.Raft, request)
			if err != nil {
				n.admission.unreached(p.Node, err)
			} else if founders := n.admission.learn(met, view); founders != nil {
				n.settle(ctx, founders)
			}
		}
		select {
		case <-ticker.C:
		case <-news:
		case <-ctx.Done():
			return
		}
	}
}

// settle admits this node: the founders are on its disk before it says a word to Raft. A founder's log then begins with
// the first configuration; that of a node which is taken in is the leader's to write.
func (n *Node) settle(ctx context.Context, founders directories) {
	if err := n.dir.admit(founders); err != nil {
		n.fail(err)
		return
	}
	n.admission.settled(founders)
	first, err := n.first()
	if err != nil {
		n.fail(err)
		return
	}
	if first != nil {
		// Nobody waits for the future: Raft never answers it when the write fails.
		_ = n.consensus.raft.BootstrapCluster(*first)
		n.awaitLog(ctx)
	}
	n.consensus.layer.Admit()
	n.logger.Info("takes part", "directory", n.admission.mine, "founder", first != nil)
}

// awaitLog waits until Raft's log has an entry, or ctx ends.
func (n *Node) awaitLog(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for n.consensus.raft.LastIndex() == 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// membership is what a leader does for nodes whose directories are new.
type membership struct {
	node    *Node
	tracker *leader.Tracker
	// gone counts the looks at which a node was gone and another in its place asked.
	gone map[session.Node]int
	// target is the entry that a node must have applied before it votes.
	target map[session.Node]uint64
}

// takeIn takes in nodes on new directories until ctx ends.
func (n *Node) takeIn(ctx context.Context, tracker *leader.Tracker) {
	m := membership{n, tracker, map[session.Node]int{}, map[session.Node]uint64{}}
	ticker := time.NewTicker(n.cfg.Sessions.HeartbeatInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		asks := n.admission.asks(time.Now().Add(-recent * n.cfg.Sessions.HeartbeatInterval))
		for _, p := range n.cfg.Peers {
			asked, ok := asks[p.Node]
			if !ok || p.Node == n.cfg.Node {
				delete(m.gone, p.Node)
				continue
			}
			if change := m.next(ctx, p, asked); change != nil {
				// Raft takes one change at a time, and only once the last is committed. What becomes of this one the
				// next look shows: nobody waits, for a leader whose disk hangs would not answer.
				change()
				break
			}
		}
	}
}

// next returns the next step towards a configuration in which who asked votes, nil when there is none to take now.
func (m *membership) next(ctx context.Context, p config.Peer, asked asking) func() {
	r, timeout := m.node.consensus.raft, m.node.cfg.Sessions.HeartbeatInterval
	id, address := serverID(p.Node, asked.directory), raftnet.At(p.Raft, asked.directory)
	server, named, found := m.node.directoryOf(p.Node)
	switch {
	case !found:
		if !m.runs(ctx, p, asked.directory) {
			return nil
		}
		return func() {
			m.node.logger.Warn("taking a node in on a new data directory, without a vote", "node", p.Node, "directory",
				asked.directory)
			r.AddNonvoter(id, address, 0, timeout)
		}
	case named != asked.directory:
		if m.tracker.Follows(p.Node) {
			delete(m.gone, p.Node)
			return nil
		}
		if m.gone[p.Node]++; m.gone[p.Node] < patience || !m.runs(ctx, p, asked.directory) {
			return nil
		}
		delete(m.gone, p.Node) // another that asks has to wait in its turn
		delete(m.target, p.Node)
		return func() {
			m.node.logger.Warn("removing a node whose data directory is gone", "node", p.Node, "directory", named,
				"asks", asked.directory)
			r.RemoveServer(server.ID, 0, timeout)
		}
	case server.Suffrage == raft.Voter:
		delete(m.gone, p.Node)
		return nil
	}
	if m.target[p.Node] == 0 {
		m.target[p.Node] = r.CommitIndex()
	}
	if asked.applied < m.target[p.Node] {
		return nil
	}
	return func() {
		m.node.logger.Warn("a node on a new data directory has caught up, and gets its vote", "node", p.Node,
			"directory", asked.directory, "applied", asked.applied)
		r.AddVoter(id, address, 0, timeout)
	}
}

// askStream asks a node itself for the newest stream that it has opened to a leader, where this node dials it (T6). It
// does not know where a node of no peer's is, nor does a release before this one answer that.
func (n *Node) askStream(ctx context.Context, node session.Node) (session.Hello, bool) {
	p := n.peerOf(node)
	if p.Node != node {
		return session.Hello{}, false
	}
	request, _ := n.admission.ask(n.state.AppliedIndex())
	met, err := n.consensus.layer.Meet(ctx, p.Raft, request)
	if err != nil || met.Node != node {
		return session.Hello{}, false
	}
	var m meeting
	if err := json.Unmarshal(met.Answer, &m); err != nil || m.Incarnation == 0 {
		return session.Hello{}, false
	}
	return session.Hello{Node: node, Directory: uint64(met.Directory), Incarnation: m.Incarnation, Stream: m.Stream},
		true
}

// runs reports whether it is the node at p's address that runs on a directory. Whoever asks may be a stray process
// elsewhere that was given the number by mistake, while the node itself is only away.
func (m *membership) runs(ctx context.Context, p config.Peer, directory raftnet.Directory) bool {
	request, _ := m.node.admission.ask(m.node.state.AppliedIndex())
	met, err := m.node.consensus.layer.Meet(ctx, p.Raft, request)
	return err == nil && met.Node == p.Node && met.Directory == directory
}
