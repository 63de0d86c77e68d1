package storage

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// Bootstrap writes the first configuration, which is the same on every node, unless there is a log or a snapshot.
// Raft's own BootstrapCluster writes the term before the entry, and refuses to run once there is a term. A node that
// ended between the two writes would never have a configuration. If this happened to all nodes, the cluster could never
// elect a leader.
func (s *Store) Bootstrap(cfg *raft.Config, trans raft.Transport, first raft.Configuration) error {
	err := raft.BootstrapCluster(cfg, s.logs, s.stable, s.snapshots, trans, first)
	if !errors.Is(err, raft.ErrCantBootstrap) {
		return err
	}
	last, err := s.logs.LastIndex()
	if err != nil {
		return fmt.Errorf("reading the log: %w", err)
	}
	snapshots, err := s.snapshots.List()
	if err != nil {
		return fmt.Errorf("reading the snapshots: %w", err)
	}
	if last > 0 || len(snapshots) > 0 {
		return nil
	}
	return s.logs.StoreLog(
		&raft.Log{Index: 1, Term: 1, Type: raft.LogConfiguration, Data: raft.EncodeConfiguration(first)},
	)
}
