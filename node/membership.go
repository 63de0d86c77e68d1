package node

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	"golang.org/x/time/rate"

	"holdfast/leader"
	"holdfast/node/config"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// meetings meets the other nodes on Raft's port: this node learns whether it may take part in Raft, and nodes compare
// their settings. Safe for concurrent use.
type meetings struct {
	logger    hclog.Logger
	interval  time.Duration
	pulse     session.Pulse
	dir       *dir
	roster    *roster
	admission *admission
	consensus *consensus
	// settled is closed once this node is admitted, and its log has begun if it is a founder.
	settled chan struct{}
	// applied returns the newest index that this node has applied.
	applied func() uint64
	fail    func(error)
}

// run meets each of the other nodes while this node has no vote or hears of no leader, until ctx ends. It never stops
// for good: another process in this node's place may have been taken in, and this one comes back.
func (m *meetings) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	wg.Go(func() { m.awaitReports(ctx) })
	if m.admission.admitted() {
		close(m.settled)
	} else if founders := m.admission.alone(); founders != nil {
		m.settle(ctx, founders)
	}
	wg.Go(func() { m.meetAll(ctx) })
	ticker := time.NewTicker(complaintInterval)
	defer ticker.Stop()
	if w, ok := errors.AsType[*waitsError](m.admission.check()); ok {
		m.logger.Info("waiting for " + w.awaited())
	}
	members := report{
		differ: "Raft's configuration and this node's peers differ",
		same:   "Raft's configuration and this node's peers say the same again",
	}
	settings := report{
		differ: "settings differ between nodes: the node that leads uses its own; make them the same on every node",
		same:   "the settings of all nodes that were met are the same again",
	}
	members.tell(m.logger, m.roster.drift())
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
		members.tell(m.logger, m.roster.drift())
		settings.tell(m.logger, m.admission.agreement.drift())
		if err := m.admission.check(); err != nil {
			m.logger.Warn("waits for admission to the cluster", "reason", err)
		}
		if strangers := m.admission.strangers(); len(strangers) > 0 {
			m.logger.Error("nodes belong to another cluster of this cluster_id, and cannot take part: their data "+
				"directories were not made together with this one's", "nodes", strangers)
		}
	}
}

// meetAll meets each of the other nodes for as long as this node knows it.
func (m *meetings) meetAll(ctx context.Context) {
	var wg sync.WaitGroup
	defer wg.Wait()
	under := map[config.Peer]context.CancelFunc{}
	ticker := m.pulse.Ticker(m.interval)
	defer ticker.Stop()
	for {
		others := m.roster.others()
		for p, stop := range under {
			if !slices.Contains(others, p) {
				stop()
				delete(under, p)
			}
		}
		for _, p := range others {
			if under[p] == nil {
				one, cancel := context.WithCancel(ctx)
				under[p] = cancel
				wg.Go(func() {
					defer cancel()
					m.meetOne(one, p)
				})
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// meetOne meets one other node at intervals, and at once when there is news.
func (m *meetings) meetOne(ctx context.Context, p config.Peer) {
	ticker := m.pulse.Ticker(m.interval)
	defer ticker.Stop()
	for {
		news := m.admission.news()
		if m.due(p) {
			met, view, err := m.meet(ctx, p)
			if err != nil {
				m.admission.unreached(p.Node, err)
			} else if founders := m.admission.learn(met, view); founders != nil {
				m.settle(ctx, founders)
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

// due reports whether this node is to meet another one now.
func (m *meetings) due(p config.Peer) bool {
	_, leads := m.consensus.raft.LeaderWithID()
	return leads == "" || !m.admission.admitted() || !m.roster.votes() ||
		m.admission.agreement.asks(p.Node, time.Now())
}

// meet meets a node at the address that this one knows for it. view is the view of admission that this node spoke from.
func (m *meetings) meet(ctx context.Context, p config.Peer) (met raftnet.Met, view uint64, err error) {
	request, view := m.admission.ask(m.applied())
	met, err = m.consensus.layer.Meet(ctx, p.Raft, request)
	return met, view, err
}

// settle admits this node: the founders are on its disk before it says a word to Raft. A founder's log then begins with
// the first configuration. The leader writes the log of a node that it takes in.
func (m *meetings) settle(ctx context.Context, founders directories) {
	if err := m.dir.admit(founders); err != nil {
		m.fail(err)
		return
	}
	m.admission.settled(founders)
	first, err := m.roster.first(m.admission.isFounder())
	if err != nil {
		m.fail(err)
		return
	}
	if first != nil {
		// Nobody waits for the future: Raft never answers it when the write fails.
		_ = m.consensus.raft.BootstrapCluster(*first)
		m.awaitLog(ctx)
	}
	close(m.settled)
	m.logger.Info("admitted to the cluster", "directory", m.admission.mine, "founder", first != nil)
}

// awaitLog waits until Raft's log has an entry, or ctx ends.
func (m *meetings) awaitLog(ctx context.Context) {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for m.consensus.raft.LastIndex() == 0 {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// askStream asks a node for the newest stream that the node opened to a leader (T6). It is false for a node that this
// one does not know or cannot reach.
func (m *meetings) askStream(ctx context.Context, node session.Node) (session.Hello, bool) {
	p := m.roster.peerOf(node)
	if p.Node != node {
		return session.Hello{}, false
	}
	met, _, err := m.meet(ctx, p)
	if err != nil || met.Node != node {
		return session.Hello{}, false
	}
	var told meeting
	if err := json.Unmarshal(met.Answer, &told); err != nil || told.Incarnation == 0 {
		return session.Hello{}, false
	}
	return session.Hello{
		Node: node, Directory: uint64(met.Directory), Incarnation: told.Incarnation, Stream: told.Stream,
	}, true
}

// runs reports whether the node at p's address runs on a directory. A request to be taken in may come from a stray
// process elsewhere that was given the node's number by mistake, while the node itself is only away.
func (m *meetings) runs(ctx context.Context, p config.Peer, directory raftnet.Directory) bool {
	met, _, err := m.meet(ctx, p)
	return err == nil && met.Node == p.Node && met.Directory == directory
}

const (
	// patience is how many looks must find a node gone and another one asking in its place, before the leader takes the
	// other one in: two processes that were given one number by mistake must not replace each other.
	patience = 10
	// recent is for how many heartbeat intervals a request to be taken in is remembered.
	recent = 4
)

// membership takes in nodes on new data directories, for the time of one term that this node leads. It belongs to one
// goroutine.
type membership struct {
	*meetings
	members *members
	tracker *leader.Tracker
	// gone counts the looks that found a node gone and another one asking in its place.
	gone map[session.Node]int
	// target is the entry that a node must have applied before it votes.
	target map[session.Node]uint64
	// leaving are the members that are to be removed.
	leaving map[session.Node]*leaving
	// complaints bounds the log lines about nodes that are not taken in.
	complaints rate.Sometimes
}

// leaving is a member that is to be removed.
type leaving struct {
	// since is when this term has begun to wait for its clients.
	since time.Time
	// silent counts the looks in a row at which the node did not answer.
	silent int
}

func newMembership(m *members, tracker *leader.Tracker) *membership {
	return &membership{
		meetings: m.meetings, members: m, tracker: tracker, gone: map[session.Node]int{}, target: map[session.Node]uint64{},
		leaving: map[session.Node]*leaving{}, complaints: rate.Sometimes{Interval: complaintInterval},
	}
}

// takeIn takes in nodes on new directories, and brings about what operators want of the members, until ctx ends.
func (m *membership) takeIn(ctx context.Context) {
	ticker := m.pulse.Ticker(m.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		if m.members.take(ctx) != nil {
			return
		}
		if !m.bringAbout(ctx) {
			m.takeOneIn(ctx)
		}
		m.members.give()
	}
}

// takeOneIn takes one step for one of the nodes that ask.
func (m *membership) takeOneIn(ctx context.Context) {
	asks := m.admission.asks(time.Now().Add(-recent * m.interval))
	for _, p := range m.roster.known() {
		asked, ok := asks[p.Node]
		if !ok || p.Node == m.roster.self {
			delete(m.gone, p.Node)
			continue
		}
		if change := m.next(ctx, p, asked); change != nil {
			// Raft takes one change at a time, and only once the last is committed. Nobody waits for the change, because a
			// leader whose disk hangs would not answer: the next look shows its outcome.
			before, _ := find(m.roster.servers(), p.Node)
			change()
			m.awaitChange(ctx, before)
			break
		}
	}
}

// next returns the next step towards a configuration in which the node that asked votes, nil when there is no step to
// take now.
func (m *membership) next(ctx context.Context, p config.Peer, asked asking) func() {
	r, timeout := m.consensus.raft, m.interval
	id, address := serverID(p.Node, asked.directory), raftnet.At(p.Raft, asked.directory)
	server, named, found := m.roster.directoryOf(p.Node)
	_, marks := raftnet.Marks(server.Address)
	switch {
	case found && wishOf(server) != wishVote:
		delete(m.target, p.Node)
		return nil // an operator decides about it
	case found && named != asked.directory && len(marks) > 0:
		return nil // no peers say where it is
	case !found:
		if !m.runs(ctx, p, asked.directory) {
			return nil
		}
		return func() {
			m.logger.Warn("taking a node in on a new data directory, without a vote", "node", p.Node, "directory",
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
		delete(m.gone, p.Node) // the next directory that asks has to wait as long
		delete(m.target, p.Node)
		return func() {
			m.logger.Warn("removing a node whose data directory is gone", "node", p.Node, "directory", named,
				"asks", asked.directory)
			r.RemoveServer(server.ID, 0, timeout)
		}
	case server.Suffrage == raft.Voter:
		delete(m.gone, p.Node)
		delete(m.target, p.Node) // if it loses its vote, and is to have one again, it has to catch up again
		return nil
	}
	if m.target[p.Node] == 0 {
		m.target[p.Node] = r.CommitIndex()
	}
	if asked.applied < m.target[p.Node] {
		return nil
	}
	if len(marks) > 0 {
		address = server.Address
	}
	return func() {
		m.logger.Warn("a node on a new data directory has caught up, and gets its vote", "node", p.Node,
			"directory", asked.directory, "applied", asked.applied)
		r.AddVoter(id, address, 0, timeout)
	}
}
