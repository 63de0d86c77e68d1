package storage

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"holdfast/backup"
	"holdfast/fsm"
	"holdfast/node/storage/segments"
	"holdfast/session"
	"holdfast/transport/raftnet"
)

// Survivor is the data directory of a node in a cluster that has lost its majority. OpenSurvivor locks the directory
// and changes no file in it.
type Survivor struct {
	// From describes the state after the newest entry in the node's log, whether a majority had the entry or not.
	From backup.Header
	// Members are the members of the newest configuration in the log.
	Members []session.Node
	// UsedUp are the numbers of removed nodes: no node of the new cluster may have one.
	UsedUp []session.Node
	// Last is the last entry of the node's log. Of several survivors, the one with the highest term in Last, and within
	// this term the highest index, has all acknowledged entries. The term of a vote proves nothing: a node with an old
	// log may have voted for a lost node.
	Last LogEnd

	lock  io.Closer
	state *fsm.Backup
}

// LogEnd is the last entry of a log, or of the snapshot that replaces the log.
type LogEnd struct{ Term, Index uint64 }

// OpenSurvivor reads a node's state from its data directory. It fails if another process uses the directory, if its
// files do not fit together, or if an entry cannot be read.
func OpenSurvivor(path, version string, logger hclog.Logger) (s *Survivor, err error) {
	if isMissing(filepath.Join(path, IdentityFile)) {
		return nil, fmt.Errorf("data directory %s: no identity file found: not a Holdfast data directory", path)
	}
	lock, err := lockDir(path)
	if err != nil {
		return nil, fmt.Errorf("data directory %s: %w", path, err)
	}
	s = &Survivor{lock: lock, From: backup.Header{Version: version}}
	if err := s.read(path, logger); err != nil {
		return nil, errors.Join(fmt.Errorf("data directory %s: %w", path, err), lock.Close())
	}
	return s, nil
}

// Close releases the directory.
func (s *Survivor) Close() error { return s.lock.Close() }

// Found makes the data directories of a new cluster with the state.
func (s *Survivor) Found(f Founding) (Founded, error) {
	return f.found(source{header: s.From, open: func() (io.ReadCloser, error) {
		from, to := io.Pipe()
		go func() { to.CloseWithError(s.state.Write(to)) }() // ends with the reader
		return from, nil
	}})
}

func (s *Survivor) read(path string, logger hclog.Logger) error {
	record, err := ReadIdentity(path)
	if err != nil {
		return err
	}
	if record.Founders == nil {
		return errors.New("its node never took part in the cluster: it has no state")
	}
	stable, err := readBolt(filepath.Join(path, StableFile))
	if err != nil {
		return fmt.Errorf("opening %s: %w", StableFile, err)
	}
	defer stable.Close() //nolint:errcheck // it was only read
	d := newDir(path, record, record.Incarnation)
	found, err := checkStamp(d, stable)
	if err != nil {
		return err
	}
	log, err := openLog(d, stable, segments.Read, Options{Logger: logger}, 0)
	if err != nil {
		return err
	}
	defer log.Close() //nolint:errcheck // it was only read
	origins, err := openSnapshots(d, logger)
	if err != nil {
		return err
	}
	all := &Store{
		dir: d, found: found, logs: &anchoredLogs{LogStore: log}, stable: stable, origins: origins,
		snapshots: &checkedSnapshots{SnapshotStore: origins},
	}
	if _, err = all.checkStart(); err != nil {
		return err
	}
	stored, err := all.readLog(path)
	if err != nil {
		return err
	}
	state, servers, err := all.replay(stored, logger)
	if err != nil {
		return err
	}
	if s.Last, err = all.end(stored); err != nil {
		return err
	}
	if known, readErr := readPositions(d); readErr == nil && known.Applied > s.Last.Index {
		logger.Warn("the log has lost entries that this node has applied: another node may have them", "ends_with",
			s.Last.Index, "applied", known.Applied)
	}
	for _, one := range servers {
		if node, _, idErr := raftnet.ParseServerID(one.ID); idErr == nil {
			s.Members = append(s.Members, node)
		}
	}
	if s.state, err = state.Backup(); err != nil {
		return err
	}
	s.UsedUp = s.state.UsedUp()
	s.describe(record, stored)
	return nil
}

// describe fills in From. The length and the checksum of the records are not known yet.
func (s *Survivor) describe(record Identity, log *storedLog) {
	c := s.state.Contents()
	s.From.Cluster, s.From.Node = record.ClusterID, record.Node
	s.From.Index, s.From.Term, s.From.FeatureLevel = c.Index, max(log.term, c.Term), c.Level
	s.From.Sessions, s.From.Certificates, s.From.Entries = c.Sessions, c.Certificates, c.Entries
	s.From.Ephemerals, s.From.StateDigest = c.Ephemerals, c.Digest
}

// end returns the last entry of a log. If the newest snapshot reaches further, the log continues from the snapshot.
func (s *Store) end(log *storedLog) (LogEnd, error) {
	newest, err := s.newest()
	if err != nil || newest == nil || newest.Index <= log.last {
		return LogEnd{log.lastTerm, log.last}, err
	}
	return LogEnd{newest.Term, newest.Index}, nil
}

// replay returns the state after the newest snapshot and all entries of the log, and the newest configuration there.
func (s *Store) replay(log *storedLog, logger hclog.Logger) (*fsm.State, []raft.Server, error) {
	var failed error
	state := fsm.New(fsm.Config{
		Logger: logger, Fatal: func(err error) { failed = err }, LogPath: filepath.Join(log.path, LogFolder),
	})
	var servers []raft.Server
	next := log.first
	if newest, err := s.newest(); err != nil {
		return nil, nil, err
	} else if newest != nil {
		meta, from, err := s.origins.Open(newest.ID)
		if err == nil {
			err = state.Restore(from)
		}
		if err != nil {
			return nil, nil, err
		}
		servers, next = meta.Configuration.Servers, max(next, newest.Index+1)
	}
	for ; log.last > 0 && next <= log.last; next++ {
		var entry raft.Log
		if err := log.logs.GetLog(next, &entry); err != nil {
			return nil, nil, fmt.Errorf("reading entry %d of the Raft log: %w", next, err)
		}
		switch entry.Type {
		case raft.LogCommand:
			state.Apply(&entry)
		case raft.LogConfiguration:
			c := raft.DecodeConfiguration(entry.Data)
			state.StoreConfiguration(entry.Index, c)
			servers = c.Servers
		case raft.LogNoop, raft.LogBarrier, raft.LogAddPeerDeprecated, raft.LogRemovePeerDeprecated:
		}
		if failed != nil {
			return nil, nil, failed
		}
	}
	return state, servers, failed
}
