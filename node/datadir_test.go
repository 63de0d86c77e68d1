package node

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/hashicorp/go-hclog"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"holdfast/node/storage"
	"holdfast/node/storage/segments"
	"holdfast/transport/raftnet"
)

// segment is the first segment of a log.
const segment = storage.LogFolder + "/00000000000000000001-0000000000000000.wal"

// storedLog is the log and the stable store of a data directory that no process has open.
type storedLog struct {
	*segments.Log
	stable *raftboltdb.BoltStore
}

func openLog(path string) (storedLog, error) {
	r, err := storage.ReadIdentity(path)
	if err != nil {
		return storedLog{}, err
	}
	stable, err := raftboltdb.NewBoltStore(filepath.Join(path, storage.StableFile))
	if err != nil {
		return storedLog{}, err
	}
	log, err := segments.Open(segments.Options{
		Folder: filepath.Join(path, storage.LogFolder), Owner: uint64(r.Directory), Stable: stable,
		Logger: hclog.NewNullLogger(),
	})
	if err != nil {
		return storedLog{}, errors.Join(err, stable.Close())
	}
	return storedLog{log, stable}, nil
}

func (l storedLog) Close() error { return errors.Join(l.Log.Close(), l.stable.Close()) }

// deleteEntries deletes the oldest entries of a log that no process has open: count, or all for 0.
func deleteEntries(path string, count uint64) error {
	log, err := openLog(path)
	if err != nil {
		return err
	}
	first, err := log.FirstIndex()
	last, lastErr := log.LastIndex()
	if err = errors.Join(err, lastErr); err == nil && count > 0 {
		last = min(last, first+count-1)
	}
	if err == nil {
		err = log.DeleteRange(first, last)
	}
	return errors.Join(err, log.Close())
}

// stampKey is the key of the stamp in a stable store.
const stampKey = "holdfast.stamp"

// stamp is the stamp of a directory, as docs/data-directory.md describes it.
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

// restamp changes the stamp of a directory that no process has open, and returns it.
func restamp(path string, do func(s *stamp)) (stamp, error) {
	var s stamp
	log, err := raftboltdb.NewBoltStore(filepath.Join(path, storage.StableFile))
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

// stampOf returns the stamp of a directory that no process has open.
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
