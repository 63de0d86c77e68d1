package node

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

	"holdfast/session"
	"holdfast/transport/raftnet"
)

const (
	// acknowledgedFile is the name of the file of a [witness].
	acknowledgedFile = "acknowledged"
	// keepInterval is the least time between two writes of the file: what a member knows of the others may be older by
	// that much after it has crashed (J6).
	keepInterval = time.Second
)

// witness remembers how far the directories of the other members have come, so that one which comes back as an older
// copy of itself is told (J6), and how far this node had applied the log, so that nobody cuts that off ([cutGuard]).
//
// It learns of a follower by the answers to requests that this node sent it as the leader of a term, of a candidate's
// voter by the vote, and of a leader by the heartbeats on the stream that this node has opened to it. A stranger who
// reaches this node's port makes up none of these.
//
// Safe for concurrent use.
type witness struct {
	logger hclog.Logger
	dir    *dir
	mine   raftnet.Directory
	// applied returns the newest entry that this node has applied. members are those of the newest configuration.
	applied func() uint64
	members func() []raft.Server
	// floor is what applied was when the file was last written before this start.
	floor uint64

	mu sync.Mutex
	// known are the positions of other directories. guarded by mu
	known map[raftnet.Directory]raftnet.Position
	// kept is what the file has. guarded by mu
	kept acknowledged
	// warned says that the last write failed. guarded by mu
	warned bool
}

// acknowledged is the content of the file: one line of JSON.
type acknowledged struct {
	// Directory is the one that the file belongs to.
	Directory raftnet.Directory                      `json:"directory"`
	Applied   uint64                                 `json:"applied"`
	Known     map[raftnet.Directory]raftnet.Position `json:"known,omitempty"`
}

// openWitness reads what the former process has kept. The file is a safeguard: without it, or with one that is damaged or
// of another directory, the node begins with nothing.
func openWitness(d *dir, logger hclog.Logger) *witness {
	w := &witness{logger: logger, dir: d, mine: d.record.Directory, known: map[raftnet.Directory]raftnet.Position{}}
	file := filepath.Join(d.Path, acknowledgedFile)
	unfinished, _ := filepath.Glob(filepath.Join(d.Path, "."+acknowledgedFile+"*")) // the pattern is well formed
	for _, path := range unfinished {
		if err := os.Remove(path); err != nil {
			logger.Warn("removing a file whose writing was cut short", "file", path, "error", err)
		}
	}
	b, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return w
	}
	var kept acknowledged
	if err == nil {
		err = json.Unmarshal(b, &kept)
	}
	if err == nil && kept.Directory != w.mine {
		err = fmt.Errorf("it belongs to directory %v", kept.Directory)
	}
	if err != nil {
		logger.Warn("what other members had acknowledged is lost: until they have acknowledged more, this node does not "+
			"notice one that comes back on an older copy of its directory", "file", file, "error", err)
		return w
	}
	w.floor = kept.Applied
	maps.Copy(w.known, kept.Known)
	return w
}

// knows returns how far a directory had come, as far as this node knows.
func (w *witness) knows(d raftnet.Directory) raftnet.Position {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.known[d]
}

// saw notes how far a directory has come.
func (w *witness) saw(d raftnet.Directory, at raftnet.Position) {
	if d == 0 || d == w.mine {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.known[d].Behind(at) {
		w.known[d] = at
	}
}

// run writes the file when there is news, until ctx ends, and then once more.
func (w *witness) run(ctx context.Context) error {
	ticker := time.NewTicker(keepInterval)
	defer ticker.Stop()
	for {
		w.keep()
		if ctx.Err() != nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
}

// keep writes the file if there is news. It changes nothing in a directory that is no longer this node's.
func (w *witness) keep() {
	now := w.state()
	w.mu.Lock()
	same := now.Applied == w.kept.Applied && maps.Equal(now.Known, w.kept.Known)
	w.mu.Unlock()
	if same {
		return
	}
	err := w.write(now)
	w.mu.Lock()
	defer w.mu.Unlock()
	if err == nil {
		w.kept = now
	} else if !w.warned {
		w.logger.Warn("noting what other members have acknowledged", "error", err)
	}
	w.warned = err != nil
}

// state returns what the file should have. It forgets directories that are no member's any more.
func (w *witness) state() acknowledged {
	servers := w.members()
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(servers) > 0 {
		member := map[raftnet.Directory]bool{}
		for _, s := range servers {
			if _, d, err := nodeOfServer(s.ID); err == nil {
				member[d] = true
			}
		}
		maps.DeleteFunc(w.known, func(d raftnet.Directory, _ raftnet.Position) bool { return !member[d] })
	}
	return acknowledged{w.mine, max(w.floor, w.applied()), maps.Clone(w.known)}
}

// write replaces the file.
func (w *witness) write(now acknowledged) error {
	b, err := json.Marshal(now)
	if err == nil {
		err = w.dir.presence.check()
	}
	if err == nil {
		err = renameio.WriteFile(filepath.Join(w.dir.Path, acknowledgedFile), append(b, '\n'), 0o600,
			renameio.WithTempDir(w.dir.Path))
	}
	if err == nil {
		err = syncDir(w.dir.Path)
	}
	return err
}

// witnessedLink is the stream to a leader. Its heartbeats say how far the leader's directory has come: to the leader's
// term, and to what is committed, which a leader has on its own disk.
type witnessedLink struct {
	Link
	leader session.Node
	saw    func(raftnet.Position)
	term   uint64 // 0 when another node answered at the leader's address
}

// Recv receives a message of the leader.
func (l *witnessedLink) Recv() (session.LeaderMessage, error) {
	m, err := l.Link.Recv()
	switch {
	case err != nil:
	case m.Welcome != nil && m.Welcome.Leader == l.leader:
		l.term = m.Welcome.Term
	case m.Heartbeat != nil && l.term > 0: // the relay has checked the term
		l.saw(raftnet.Position{Term: l.term, Index: m.Heartbeat.Committed})
	}
	return m, err
}
