package members

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	// A node that starts waits for reports for reportIntervals heartbeat intervals, and maxReportWait at most.
	reportIntervals = 10
	maxReportWait   = 15 * time.Second
	// markWithin is how long a node that is an older copy tries to mark its directory before it ends.
	markWithin = 5 * time.Second
)

// OlderCopyCheck acts when another node reports that this node's directory had come further than it has (J6 rolled-back
// directories): an operator has put back an older copy of the directory, without entries that this node acknowledged
// and votes that it gave. The node marks the directory and ends, before it votes or acknowledges anything more. The
// next start sets the copy aside, and begins as a new member. Safe for concurrent use.
type OlderCopyCheck struct {
	membership *Membership
	directory  Directory
	// setAside is where the next start puts the older copy.
	setAside string
	// leave cuts this node off from Raft, fail ends it.
	leave func()
	fail  func(error)
	once  sync.Once

	mu sync.Mutex
	// reported has the directory of each node that has reported since this process began. guarded by mu
	reported map[session.Node]raftnet.Directory
	// news has a token when there is a new report.
	news chan struct{}
	// participating says that this node has stopped waiting for reports.
	participating atomic.Bool
}

// NewOlderCopyCheck returns a check that waits for reports. setAside is where the next start puts an older copy, fail
// ends the node.
func NewOlderCopyCheck(m *Membership, d Directory, setAside string, fail func(error)) *OlderCopyCheck {
	return &OlderCopyCheck{
		membership: m, directory: d, setAside: setAside, fail: fail, reported: map[session.Node]raftnet.Directory{},
		news: make(chan struct{}, 1),
	}
}

// SetNetwork is called before the network runs.
func (c *OlderCopyCheck) SetNetwork(n Network) { c.leave = n.Leave }

// OlderCopyError says that this node's directory is an older copy of itself.
type OlderCopyError struct {
	path, setAside string
	from           session.Node
	// was is the position that another node knows of the directory, is the directory's position now.
	was, is raftnet.Position
	// Late says that the node took part before the report came.
	Late bool
}

func (e *OlderCopyError) Error() string {
	lost := "the node stops before it votes, and nothing acknowledged is lost by it"
	if e.Late {
		lost = "the node joined before it learned of that, so acknowledged entries may be lost (docs/operations/runbooks.md, " +
			"Acknowledged entries are gone)"
	}
	return fmt.Sprintf("data directory %s is an older copy of itself: node %d knows that it had come to term %d and entry %d "+
		"of it, and it is at term %d and entry %d, so that an older snapshot of its volume or machine was put back; %s: start "+
		"it again, and it moves the copy to %s and comes back as a new member while a majority of the other nodes runs and "+
		"has a leader", e.path, e.from, e.was.Term, e.was.Index, e.is.Term, e.is.Index, lost, e.setAside)
}

var errStarting = errors.New("this node is starting")

// CheckPosition evaluates the report of another node about this node's directory. A node that this node has dialled is
// trusted, as with terms (raftnet.FarTerm). Of the nodes that dial, only members on their known directories are
// trusted: otherwise an unknown sender could end this node.
//
//nolint:revive // flag-parameter: who dialled is a fact
func (c *OlderCopyCheck) CheckPosition(from session.Node, d raftnet.Directory, dialled bool, was raftnet.Position) error {
	if !dialled && c.membership.DirectoryOf(from) != d {
		return nil
	}
	if was != (raftnet.Position{}) {
		if err := c.compare(from, was); err != nil {
			return err
		}
	}
	c.mu.Lock()
	c.reported[from] = d
	c.mu.Unlock()
	select {
	case c.news <- struct{}{}:
	default:
	}
	return nil
}

// compare ends the node, and returns the error, if the directory had come further than it has.
func (c *OlderCopyCheck) compare(from session.Node, was raftnet.Position) error {
	is, ok := c.position()
	if !ok {
		return errStarting // the other node reports again
	}
	if !is.Behind(was) {
		return nil
	}
	err := &OlderCopyError{c.directory.Path(), c.setAside, from, was, is, c.participating.Load()}
	c.once.Do(func() {
		c.leave()
		marked, hangs := make(chan error, 1), time.NewTimer(markWithin)
		defer hangs.Stop()
		go func() { marked <- c.directory.MarkOlderCopy() }()
		select {
		case failed := <-marked:
			c.fail(errors.Join(err, failed))
		case <-hangs.C:
			c.fail(err) // the disk hangs: the next start gets the report again
		}
	})
	return err
}

// position returns the position of this node's directory, false before Raft runs.
func (c *OlderCopyCheck) position() (at raftnet.Position, ok bool) {
	running := c.membership.Raft()
	if running == nil {
		return raftnet.Position{}, false
	}
	for at.Term = running.CurrentTerm(); ; at.Term = running.CurrentTerm() {
		stats := running.Stats() // the only source of the terms of entries
		number := func(of string) uint64 {
			n, _ := strconv.ParseUint(stats[of], 10, 64) // Raft writes numbers there
			return n
		}
		// The log may end with older entries than the snapshot's, which a leader will cut off.
		log := raftnet.PositionIn(at.Term, number("last_log_index"), number("last_log_term"))
		snapshot := raftnet.PositionIn(at.Term, number("last_snapshot_index"), number("last_snapshot_term"))
		if at.Index = max(log.Index, snapshot.Index); running.CurrentTerm() == at.Term {
			return at, true
		}
	}
}

// missing returns the other voters that have not reported yet, on the directories that the newest configuration names.
// A node without a configuration, such as a copy from before the first one, does not know the voters: it returns all
// other nodes that it knows.
func (c *OlderCopyCheck) missing() (nodes []session.Node) {
	servers, others := c.membership.Servers(), c.membership.others()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range servers {
		node, d, err := raftnet.ParseServerID(s.ID)
		if err == nil && s.Suffrage == raft.Voter && node != c.membership.self && c.reported[node] != d {
			nodes = append(nodes, node)
		}
	}
	if len(servers) > 0 {
		return nodes
	}
	for _, p := range others {
		if c.reported[p.Node] == 0 {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// awaitReports lets Raft send and receive once this node is admitted, and every other voter has reported what it knows
// of this node's directory (J6), or could not be reached for a while.
func (e *Exchange) awaitReports(ctx context.Context) {
	select {
	case <-e.admitted:
	case <-ctx.Done():
		return
	}
	check := e.cfg.OlderCopy
	timer := time.NewTimer(min(reportIntervals*e.cfg.Interval, maxReportWait))
	defer timer.Stop()
	for missing := check.missing(); len(missing) > 0; missing = check.missing() {
		select {
		case <-check.news:
			continue
		case <-ctx.Done():
			return
		case <-timer.C:
			e.cfg.Logger.Warn("starts without the reports of unreachable nodes: if this data directory is an older "+
				"copy of itself, only those nodes may know it", "nodes", missing)
		}
		break
	}
	check.participating.Store(true)
	e.cfg.Network.Admit()
}
