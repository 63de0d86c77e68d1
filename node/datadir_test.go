package node

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"holdfast/node/storage"
	"holdfast/transport/raftnet"
)

// openLog opens the log of a data directory that no process has open.
func openLog(path string) (*raftboltdb.BoltStore, error) {
	return raftboltdb.NewBoltStore(filepath.Join(path, storage.LogFile))
}

// stampKey is the key of the stamp in a log.
const stampKey = "holdfast.stamp"

// stamp is the stamp of a log, as docs/data-directory.md describes it.
type stamp struct {
	Directory raftnet.Directory `json:"directory"`
	Key       raftnet.Key       `json:"key,omitzero"`
	Start     uint64            `json:"start"`
	Former    uint64            `json:"former"`
	Snapshot  struct {
		ID    string `json:"id"`
		Index uint64 `json:"index"`
		Term  uint64 `json:"term"`
	} `json:"snapshot,omitzero"`
}

// restamp changes the stamp of a log that no process has open, and returns it.
func restamp(path string, do func(s *stamp)) (stamp, error) {
	var s stamp
	log, err := openLog(path)
	if err != nil {
		return s, err
	}
	b, err := log.Get([]byte(stampKey))
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil {
		do(&s)
		b, err = json.Marshal(s)
	}
	if err == nil {
		err = log.Set([]byte(stampKey), b)
	}
	return s, errors.Join(err, log.Close())
}

// clearSnapshot makes a stamp as it is before the first snapshot.
func clearSnapshot(s *stamp) { s.Snapshot.ID, s.Snapshot.Index, s.Snapshot.Term = "", 0, 0 }

// stampOf returns the stamp of a log that no process has open.
func stampOf(path string) (stamp, error) { return restamp(path, func(*stamp) {}) }

// rewrite changes an identity file.
func rewrite(path string, do func(r *storage.Identity)) error {
	r, err := storage.ReadIdentity(path)
	if err != nil {
		return err
	}
	do(&r)
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(path, storage.IdentityFile), append(b, '\n'), 0o600)
}
