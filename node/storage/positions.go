package storage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/google/renameio/v2"
	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/transport/raftnet"
)

// positionsInterval is the shortest time between two writes of [PositionsFile]. After a crash, the file may be older
// than the node's knowledge of the other members by this time (J6 rolled-back directories).
const positionsInterval = time.Second

// Positions remembers the positions of the other members' directories, so that a member that comes back on an older
// copy of its directory learns so (J6). It also remembers up to where this node has applied the log, so that no leader
// deletes those entries.
//
// A node learns the position of a follower from answers to its own requests as a leader, the position of a voter from a
// vote for itself, and the position of the leader from heartbeats on the stream that it has opened to the leader. An
// attacker who can reach this node's port can forge none of these.
//
// Safe for concurrent use.
type Positions struct {
	PositionsConfig
	dir  *Dir
	mine raftnet.Directory
	// floor is the newest applied entry in the file when this process started.
	floor uint64

	mu sync.Mutex
	// known are the positions of other directories. guarded by mu
	known map[raftnet.Directory]raftnet.Position
	// current is the present content of the file. guarded by mu
	current positionsRecord
	// warned says that the last write failed. guarded by mu
	warned bool
}

// PositionsConfig has the node's functions for [Positions].
type PositionsConfig struct {
	Logger hclog.Logger
	// Applied returns the newest entry that this process has applied.
	Applied func() uint64
	// Members returns the members of the newest configuration.
	Members func() []raft.Server
}

// positionsRecord is the content of the file: one line of JSON.
type positionsRecord struct {
	// Directory is the directory to which the file belongs.
	Directory raftnet.Directory                      `json:"directory"`
	Applied   uint64                                 `json:"applied"`
	Known     map[raftnet.Directory]raftnet.Position `json:"known,omitempty"`
}

// OpenPositions reads the file of the former process. The file is a safeguard: when it is missing, damaged or of
// another directory, the node starts without positions.
func OpenPositions(d *Dir, c PositionsConfig) *Positions {
	p := &Positions{
		PositionsConfig: c, dir: d, mine: d.Identity().Directory, known: map[raftnet.Directory]raftnet.Position{},
	}
	unfinished, _ := filepath.Glob(filepath.Join(d.path, "."+PositionsFile+"*")) // the pattern is well formed
	for _, path := range unfinished {
		if err := os.Remove(path); err != nil {
			c.Logger.Warn("removing a file whose writing was cut short", "file", path, "error", err)
		}
	}
	current, err := readPositions(d)
	if err != nil {
		c.Logger.Warn("the record of entries acknowledged by other members is lost: until they acknowledge more, this "+
			"node does not notice a member that comes back on an older copy of its directory", "file",
			filepath.Join(d.path, PositionsFile), "error", err)
	}
	p.floor = current.Applied
	maps.Copy(p.known, current.Known)
	return p
}

// readPositions reads the file. It returns the zero record for no file.
func readPositions(d *Dir) (positionsRecord, error) {
	b, err := os.ReadFile(filepath.Join(d.path, PositionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return positionsRecord{}, nil
	}
	var current positionsRecord
	if err == nil {
		err = json.Unmarshal(b, &current)
	}
	if err == nil && current.Directory != d.Identity().Directory {
		err = fmt.Errorf("it belongs to directory %v", current.Directory)
	}
	if err != nil {
		return positionsRecord{}, err
	}
	return current, nil
}

// Position returns the newest known position of a directory.
func (p *Positions) Position(d raftnet.Directory) raftnet.Position {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.known[d]
}

// Record records the position of a directory.
func (p *Positions) Record(d raftnet.Directory, at raftnet.Position) {
	if d == 0 || d == p.mine {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.known[d].Behind(at) {
		p.known[d] = at
	}
}

// EverApplied returns the newest entry that this process or a former one has applied.
func (p *Positions) EverApplied() uint64 { return max(p.floor, p.Applied()) }

// Run writes the file when positions have changed, until ctx ends, and then once more.
func (p *Positions) Run(ctx context.Context) error {
	ticker := time.NewTicker(positionsInterval)
	defer ticker.Stop()
	for {
		p.Save()
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// Save writes the file if positions have changed. It writes nothing to a directory that is no longer this node's.
func (p *Positions) Save() {
	now := p.snapshot()
	p.mu.Lock()
	same := now.Applied == p.current.Applied && maps.Equal(now.Known, p.current.Known)
	p.mu.Unlock()
	if same {
		return
	}
	err := p.write(now)
	p.mu.Lock()
	first := err != nil && !p.warned
	if err == nil {
		p.current = now
	}
	p.warned = err != nil
	p.mu.Unlock()
	if first {
		p.Logger.Warn("recording the acknowledgements of other members", "error", err)
	}
}

// snapshot returns the content for the file. It forgets the directories of former members.
func (p *Positions) snapshot() positionsRecord {
	servers, applied := p.Members(), p.EverApplied()
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(servers) > 0 {
		member := map[raftnet.Directory]bool{}
		for _, s := range servers {
			if _, d, err := raftnet.ParseServerID(s.ID); err == nil {
				member[d] = true
			}
		}
		maps.DeleteFunc(p.known, func(d raftnet.Directory, _ raftnet.Position) bool { return !member[d] })
	}
	return positionsRecord{p.mine, applied, maps.Clone(p.known)}
}

// write replaces the file.
func (p *Positions) write(now positionsRecord) error {
	b, err := json.Marshal(now)
	if err == nil {
		err = p.dir.Check()
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(p.dir.path, PositionsFile), append(b, '\n'), 0o600,
			renameio.WithTempDir(p.dir.path))
	}
	if err == nil {
		err = syncDir(p.dir.path)
	}
	return err
}
