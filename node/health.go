package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/hashicorp/raft"

	"holdfast/leader"
	"holdfast/learner"
	"holdfast/node/health"
	"holdfast/node/members"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// newHealth connects what says whether this node serves.
func (n *Node) newHealth() *health.Health {
	logger := n.options.Logger
	clusterRoom := health.WarnOfSessions(logger, "cluster", n.view.Usage)
	localRoom := health.WarnOfSessions(logger, "node's local sessions", n.server.LocalUsage)
	treeRoom := health.WarnOfTree(logger, n.treeStatus)
	return health.New(health.Config{
		Pulse: n.pulse, Interval: n.cfg.Sessions.HeartbeatInterval,
		Checks: []func() error{n.watchdog.Check, n.admission.Check, n.checkLeader, n.checkVote, n.drain.Check},
		Warnings: []func() string{
			n.view.freezes.Warning, n.replica.warning, n.ports.Warning, n.olderCopyWarning, n.resources.Warning,
			n.settingsWarning,
		},
		Each: []func(){
			clusterRoom.Check, localRoom.Check, treeRoom.Check, n.view.freezes.Remind, n.membership.Refresh, n.drainIfRemoved,
		},
		Serving: func(ok bool) { n.ports.SetServing("", ok) },
	})
}

// newDrain makes what drains this node.
func (n *Node) newDrain() *health.Drain {
	return health.NewDrain(health.DrainConfig{
		Node: n.cfg.Node, Logger: n.options.Logger, Pulse: n.pulse,
		Timeout: n.cfg.Clients.DrainTimeout, Interval: n.cfg.Sessions.HeartbeatInterval,
		Server:        n.server,
		Leads:         func() bool { return n.consensus.Raft.State() == raft.Leader },
		TransferToAny: n.transfer.ToAny, TransferTo: n.transfer.To,
		Peers: n.peers, Members: n.Members, Observes: n.membership.IsObserver,
		DiskFull: n.diskFull, DisksFull: n.server.DisksFull,
		Changed: func() { n.health.CheckSoon() },
	})
}

// newTransfer makes what transfers leadership away from this node.
func (n *Node) newTransfer() *health.Transfer {
	return health.NewTransfer(health.TransferConfig{
		Node: n.cfg.Node, Logger: n.options.Logger, Pulse: n.pulse, Raft: n.consensus.Raft, Watchdog: n.watchdog,
		Interval: n.cfg.Sessions.HeartbeatInterval, ElectionTimeout: n.cfg.Raft.HeartbeatTimeout,
		Voters: n.otherVoters, Peers: n.peers,
	})
}

// otherVoters returns Raft's servers that vote, without this node.
func (n *Node) otherVoters() map[session.Node]raft.Server {
	future := n.consensus.Raft.GetConfiguration()
	if future.Error() != nil {
		return nil
	}
	all := make(map[session.Node]raft.Server)
	for _, s := range future.Configuration().Servers {
		if of, _, err := raftnet.ParseServerID(s.ID); err == nil && s.Suffrage == raft.Voter && of != n.cfg.Node {
			all[of] = s
		}
	}
	return all
}

// newResources makes what watches disk and memory. The client port must exist.
func (n *Node) newResources() *health.Resources {
	return health.NewResources(health.ResourcesConfig{
		Logger: n.options.Logger, Pulse: n.pulse, Interval: n.cfg.Sessions.HeartbeatInterval,
		Dir: n.dir.Path(), DiskLimit: n.cfg.Resources.DiskLimit, Memory: n.options.Memory, Measures: n.options.Platform.Measures,
		DisksFull: n.server.DisksFull, FullDisks: func() []session.Node { e, _ := n.server.Excluded(); return e.Full },
		Limiter: n.ports.Limiter(), DiskChanged: n.drain.DiskChanged,
	})
}

// diskFull reports whether this node's disk is full (O5 full disks).
func (n *Node) diskFull() bool { return n.resources.DiskFull() }

// newSupervisor makes what acts on the watchdog's findings.
func (n *Node) newSupervisor() *health.Supervisor {
	return &health.Supervisor{
		Logger: n.options.Logger, Pulse: n.pulse, Watchdog: n.watchdog,
		AppliedElsewhere: n.server.AppliedElsewhere, CheckDirectory: n.dir.Check,
		Suspend: func() {
			n.consensus.Suspend()
			n.health.CheckSoon()
		},
		Resume: func() {
			n.consensus.Resume()
			n.health.CheckSoon()
		},
		Leads:    func() bool { return n.consensus.Raft.State() == raft.Leader },
		Transfer: n.transfer.AfterPause,
	}
}

// checkLeader says why this node cannot serve its clients, and adds to [session.ErrNoLeader] what may be the cause: too
// many nodes on new data directories, or differences between members and peers.
func (n *Node) checkLeader() error {
	err := n.drain.Serves()
	if !errors.Is(err, session.ErrNoLeader) {
		return err
	}
	if n.admission.WasRemoved() {
		return errRemoved
	}
	if todo := n.admission.NoMajority(); todo != "" {
		return fmt.Errorf("%w; %s", err, todo)
	}
	if found := n.membership.Differences(); len(found) > 0 {
		return fmt.Errorf("%w; %s", err, strings.Join(found, "; "))
	}
	return err
}

// checkVote says that this node is no member, or has no vote though it is meant to have one.
func (n *Node) checkVote() error {
	if !n.admission.Admitted() || !n.membership.IsObserver() && !n.membership.IsVoter() {
		return learner.ErrNoVote
	}
	return nil
}

// errRemoved says that this node is no part of its cluster any more.
var errRemoved = errors.New("this node was removed from its cluster for good: end it; a new node needs a number that " +
	"no node has had, and an empty data directory")

// drainIfRemoved drains this node when it is about to leave its cluster, or has left it (J3 removal).
func (n *Node) drainIfRemoved() {
	removed := n.admission.WasRemoved()
	if desired, member := n.membership.Desired(); (removed || member && desired == members.DesiredRemoved) && !n.drain.On() {
		if removed {
			n.options.Logger.Error("this node was removed from its cluster for good", "node", n.cfg.Node)
		}
		n.drain.Begin()
	}
	n.admission.SetDrained(n.drain.Done())
}

func (n *Node) olderCopyWarning() string {
	folder := n.dir.OlderCopy()
	if folder == "" {
		return ""
	}
	return "an older copy of the data directory was put back, and is in " + folder + ": find out who put it back, and " +
		"remove it once the node votes"
}

func (n *Node) settingsWarning() string {
	differ := n.admission.SettingsDifferences()
	if len(differ) == 0 {
		return ""
	}
	return "settings differ: " + strings.Join(differ, "; ")
}

// stepOut takes this node out of its cluster for as long as its process runs. It closes Raft's
// port, so the others elect another leader if it led; its roles end, and so do the streams of its clients. Status,
// metrics and health stay available, and say why. A node that is started again on the same directory is compared again, and steps out again
// if the difference is on its disk.
func (n *Node) stepOut(why error) {
	n.watchdog.Leave(why)
	n.consensus.Leave()
	n.server.StepOut()
	n.health.CheckSoon()
	n.ports.EndStreams()
}

// Ready is closed once the node has served for the first time: it leads with a quorum, or follows such a leader.
func (n *Node) Ready() <-chan struct{} { return n.health.Ready() }

// TransferLeadership transfers Raft's leadership to a voter that is heard and up to date. See
// [health.Transfer.ToAny]. Safe for concurrent use.
func (n *Node) TransferLeadership(ctx context.Context) error { return n.transfer.ToAny(ctx) }

// peers returns what the tracker of this node's term knows of the members; nothing while this node leads none.
func (n *Node) peers() []leader.Peer {
	if tracker := n.roles.Tracker(); tracker != nil {
		return tracker.Peers()
	}
	return nil
}

// Stalled reports whether this node has stepped out because a write or an entry takes too long, or because its data
// directory is gone. It may come back by itself. Safe for concurrent use.
func (n *Node) Stalled() bool {
	stats := n.watchdog.Stats()
	return slices.Contains(stats.Stalls[:], true)
}
