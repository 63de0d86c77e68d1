package node

import (
	"errors"
	"fmt"

	"github.com/hashicorp/raft"
)

// bootstrap writes the first configuration, which is the same on every node, unless there is a log or a snapshot.
// Raft's own BootstrapCluster writes the term before the entry, and refuses to run once the term is there. A node that
// ended between the two writes would have no configuration for good. If all nodes of a cluster did, it could never
// elect.
func (s *stores) bootstrap(cfg *raft.Config, trans raft.Transport, first raft.Configuration) error {
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
