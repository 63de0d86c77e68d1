package node

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/hashicorp/raft"

	"holdfast/session"
	"holdfast/transport/raftnet"
)

// olderCopy is the folder to which the files of an older copy are moved.
const olderCopy = "older-copy"

const (
	// A node that starts waits for reports for reportsRounds intervals, and reportsWithin at most.
	reportsRounds = 10
	reportsWithin = 15 * time.Second
	// retiresWithin is how long a node that is an older copy tries to write that down before it ends.
	retiresWithin = 5 * time.Second
)

// rollback acts when another node knows that this node's directory had come further than it has (J6): somebody has put an
// older copy back, which has forgotten entries that it acknowledged, and votes. The node marks the directory and ends,
// before it votes or acknowledges anything more. The next start sets the copy aside, and begins as a new member.
type rollback struct {
	roster  *roster
	dir     *dir
	reports *reports
	// leave cuts this node off from Raft, fail ends it.
	leave func()
	fail  func(error)
	once  sync.Once
}

// olderCopyError says that this node's directory is an older copy of itself.
type olderCopyError struct {
	path string
	from session.Node
	// was is how far another node knows that the directory had come, is how far it has.
	was, is raftnet.Position
	// late says that the node took part before it was told.
	late bool
}

func (e *olderCopyError) Error() string {
	lost := "the node stops before it votes, and nothing acknowledged is lost by it"
	if e.late {
		lost = "the node took part before it heard of that, so that acknowledged entries may be lost (docs/operations.md, " +
			"Acknowledged entries are gone)"
	}
	return fmt.Sprintf("data directory %s is an older copy of itself: node %d knows that it had come to term %d and entry %d "+
		"of it, and it is at term %d and entry %d, so that an older snapshot of its volume or machine was put back; %s: start "+
		"it again, and it moves the copy to %s and comes back as a new member while a majority of the other nodes runs and "+
		"has a leader", e.path, e.from, e.was.Term, e.was.Index, e.is.Term, e.is.Index, lost, filepath.Join(e.path, olderCopy))
}

var errStarting = errors.New("this node is starting")

// told takes what another node knows of this node's directory. It believes a node that this one has dialled, as with
// terms (raftnet.FarTerm), and of those that dial only members on the directories that it knows: a stranger could end the
// node otherwise.
//
//nolint:revive // flag-parameter: who dialled is a fact
func (r *rollback) told(from session.Node, d raftnet.Directory, dialled bool, was raftnet.Position) error {
	if !dialled && r.roster.named(from) != d {
		return nil
	}
	if was != (raftnet.Position{}) {
		if err := r.compare(from, was); err != nil {
			return err
		}
	}
	r.reports.heard(from, d)
	return nil
}

// compare ends the node, and returns the error, if the directory was further than it is.
func (r *rollback) compare(from session.Node, was raftnet.Position) error {
	is, ok := r.roster.position()
	if !ok {
		return errStarting // it asks again
	}
	if !is.Behind(was) {
		return nil
	}
	err := &olderCopyError{r.dir.Path, from, was, is, r.reports.over.Load()}
	r.once.Do(func() {
		r.leave()
		retired, hangs := make(chan error, 1), time.NewTimer(retiresWithin)
		defer hangs.Stop()
		go func() { retired <- r.dir.retire() }()
		select {
		case failed := <-retired:
			r.fail(errors.Join(err, failed))
		case <-hangs.C:
			r.fail(err) // the disk hangs: the next start is told again
		}
	})
	return err
}

// position returns how far this node's directory has come, false before Raft runs.
func (r *roster) position() (at raftnet.Position, ok bool) {
	running := r.raft.Load()
	if running == nil {
		return raftnet.Position{}, false
	}
	for at.Term = running.CurrentTerm(); ; at.Term = running.CurrentTerm() {
		stats := running.Stats() // the only place that tells the terms of entries
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

// retire writes to disk that the directory is an older copy of itself.
func (d *dir) retire() error {
	return d.write(func(r *identityRecord) { r.Old = true })
}

// aside returns the folder with an older copy of the directory that was set aside, empty when there is none.
func (d *dir) aside() string {
	if path := filepath.Join(d.Path, olderCopy); !missing(path) {
		return path
	}
	return ""
}

// setAside moves the files of an older copy into a folder, the identity file last, so that a move that was cut short goes
// on at the next start. One older copy is kept: a former one is removed.
func setAside(path string) error {
	to := filepath.Join(path, olderCopy)
	if !missing(filepath.Join(to, identityFile)) {
		if err := os.RemoveAll(to); err != nil {
			return err
		}
	}
	if err := os.Mkdir(to, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	for _, name := range []string{acknowledgedFile, snapshotDir, logFile, identityFile} {
		err := os.Rename(filepath.Join(path, name), filepath.Join(to, name))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if err = errors.Join(syncDir(to), syncDir(path)); err != nil { // each file is in one place after a power cut
			return err
		}
	}
	return nil
}

// cutGuard keeps Raft from cutting off what this node has applied. Whatever was applied was committed, so a leader that
// lacks it was elected by nodes that have forgotten it: they are on older copies of their directories.
type cutGuard struct {
	path string
	// applied is the newest entry that this process or a former one has applied. snapshot returns the newest snapshot's
	// last entry: Raft drops entries up to there once the snapshot has them.
	applied  func() uint64
	snapshot func() (snapshotMark, error)
}

// lostEntriesError says that this node is told to drop what it has applied.
type lostEntriesError struct {
	path string
	// from is the first entry to drop. applied is the newest that was applied.
	from, applied uint64
}

func (e *lostEntriesError) Error() string {
	return fmt.Sprintf("the leader would have this node drop its log from entry %d on, and it has applied up to entry %d: the "+
		"leader lacks entries that were acknowledged, so that a majority of the nodes must be on older copies of their data "+
		"directories; the node stops and has dropped nothing, data directory %s has the entries: keep it, stop all nodes, and "+
		"see which directories were put back (docs/operations.md, Acknowledged entries are gone)", e.from, e.applied, e.path)
}

// cut returns an error if entries are to be deleted that were applied, unless a snapshot has them: Raft drops those from
// the first entry of its log on, and what is left below a snapshot that the log does not reach. begins is the first entry.
func (g *cutGuard) cut(begins, first, last uint64) error {
	if g.applied == nil {
		return nil
	}
	applied := g.applied()
	if first > applied {
		return nil
	}
	newest, err := g.snapshot()
	if err != nil || last < newest.Index || first <= begins && last == newest.Index {
		return err
	}
	return &lostEntriesError{g.path, first, applied}
}

// installs returns an error if a snapshot of another node contradicts what was applied.
func (g *cutGuard) installs(index, term uint64, log raft.LogStore) error {
	var own raft.Log
	if g.applied == nil || index > g.applied() || log.GetLog(index, &own) != nil || own.Term == term {
		return nil //nolint:nilerr // an entry that the log lacks contradicts nothing
	}
	return &lostEntriesError{g.path, index, g.applied()}
}

// guardCuts keeps what this node has applied from now on.
func (s *stores) guardCuts(applied func() uint64) {
	s.guard.cuts = cutGuard{path: s.guard.path, applied: applied, snapshot: func() (snapshotMark, error) {
		newest, err := s.newest()
		if newest == nil {
			return snapshotMark{}, err
		}
		return markOf(newest), nil
	}}
	s.snapshots.judge = func(index, term uint64) {
		if err := s.guard.cuts.installs(index, term, s.guard); err != nil {
			s.guard.failure.fail(err)
			s.guard.failure.hold()
		}
	}
}

// reports notes which directories have reported what they know of this node's own, since this process began. Safe for
// concurrent use.
type reports struct {
	mu   sync.Mutex
	from map[session.Node]raftnet.Directory // guarded by mu
	// news has a token when there is a new one.
	news chan struct{}
	// over says that the node takes part.
	over atomic.Bool
}

func newReports() *reports {
	return &reports{from: map[session.Node]raftnet.Directory{}, news: make(chan struct{}, 1)}
}

func (r *reports) heard(from session.Node, d raftnet.Directory) {
	r.mu.Lock()
	r.from[from] = d
	r.mu.Unlock()
	signal(r.news)
}

// missing returns the other voters that have not told this node yet, on the directories that the newest configuration
// names. A node that has no configuration, as a copy from before the first one, does not know the voters: it returns the
// other nodes of all that it knows.
func (r *reports) missing(known *roster) (nodes []session.Node) {
	servers := known.servers()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range servers {
		node, d, err := nodeOfServer(s.ID)
		if err == nil && s.Suffrage == raft.Voter && node != known.self && r.from[node] != d {
			nodes = append(nodes, node)
		}
	}
	if len(servers) > 0 {
		return nodes
	}
	for _, p := range known.others() {
		if r.from[p.Node] == 0 {
			nodes = append(nodes, p.Node)
		}
	}
	return nodes
}

// awaitReports lets Raft speak once this node is admitted, and every other voter has told it what it knows of its directory
// (J6), or could not be met for a while.
func (m *meetings) awaitReports(ctx context.Context) {
	select {
	case <-m.settled:
	case <-ctx.Done():
		return
	}
	reports := m.consensus.reports
	timer := time.NewTimer(min(reportsRounds*m.interval, reportsWithin))
	defer timer.Stop()
	for missing := reports.missing(m.roster); len(missing) > 0; missing = reports.missing(m.roster) {
		select {
		case <-reports.news:
			continue
		case <-ctx.Done():
			return
		case <-timer.C:
			m.logger.Warn("takes part without the reports of nodes that are not reached: if this data directory is an older "+
				"copy of itself, only those nodes may know it", "nodes", missing)
		}
		break
	}
	reports.over.Store(true)
	m.consensus.layer.Admit()
}
