package storage

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"

	"holdfast/transport/raftnet"
)

// stampKey is the key of the stamp, next to Raft's own values.
const stampKey = "holdfast.stamp"

// stamp is a record in the stable store that names the directory and the snapshot that the log continues. Stamp and
// identity file confirm each other: when one of the two files is set back, emptied or exchanged, they no
// longer match.
//
// Each start writes and syncs three things in this order:
//
//  1. the identity file, with the new incarnation;
//  2. the stamp, with that incarnation as Start, and with the identity file's Log (Identity.Log) as Former;
//  3. the identity file, with Start as Log.
//
// Raft begins after step 3, so no other node learns of an interrupted start. A later start finds one of three cases.
// Log equals Start: the usual case. Log equals Former: the start before was interrupted after the stamp. Log equals
// neither: one of the two files is an older copy.
type stamp struct {
	Directory raftnet.Directory `json:"directory"`
	// Key is the key of the directory, for an identity file that an operator has rewritten.
	Key    raftnet.Key `json:"key,omitzero"`
	Start  uint64      `json:"start"`
	Former uint64      `json:"former"`
	// Snapshot is the newest snapshot that was completed in this directory. It is written before Raft cuts the log
	// after the snapshot, and before the leader learns that the snapshot has arrived.
	Snapshot snapshotMark `json:"snapshot,omitzero"`
}

// snapshotMark names a snapshot and the snapshot's last entry.
type snapshotMark struct {
	ID    string `json:"id"`
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

func markOf(m *raft.SnapshotMeta) snapshotMark { return snapshotMark{m.ID, m.Index, m.Term} }

// readStamp reads the stamp. It returns the zero stamp when there is none.
func readStamp(stable raft.StableStore) (stamp, error) {
	b, err := stable.Get([]byte(stampKey))
	if errors.Is(err, raftboltdb.ErrKeyNotFound) {
		return stamp{}, nil
	}
	var s stamp
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err == nil && (s.Directory == 0 || s.Start == 0) {
		err = errors.New("it names no directory or no start")
	}
	if err != nil {
		return stamp{}, fmt.Errorf("its stamp: %w", err)
	}
	return s, nil
}

func (s stamp) write(stable raft.StableStore) error {
	b, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return stable.Set([]byte(stampKey), b)
}

// fits returns nil when a log with this stamp belongs to the directory whose identity file is r. The zero stamp stands
// for none. newest is the newest start in the identity file before this start.
func (s stamp) fits(path string, r Identity, newest uint64) error {
	file, identity := filepath.Join(path, StableFile), filepath.Join(path, IdentityFile)
	switch {
	case s.Start == 0 && r.Log == 0: // a new directory
		return nil
	case s.Start == 0:
		return unusable(file, "is not this directory's log: it has no stamp, but the identity file says that it has one",
			nil)
	case s.Directory != r.Directory:
		return unusable(
			file, fmt.Sprintf(
				"is not this directory's log: it belongs to directory %v, but the identity file names %v",
				s.Directory, r.Directory,
			), nil,
		)
	case s.Start > newest:
		return unusable(identity, fmt.Sprintf("is an older copy: it ends with start %d, but the log has seen start %d",
			newest, s.Start), nil)
	case s.Start == r.Log, s.Former == r.Log:
		return nil
	default:
		return unusable(
			file, fmt.Sprintf(
				"is an older copy: it ends with start %d, but the identity file says that it has seen start %d",
				s.Start, r.Log,
			), nil,
		)
	}
}

// stampIn reads the stamp of a log that no process has open, for error texts. It returns false when it can read no
// stamp.
func stampIn(file string) (s stamp, ok bool) {
	if info, err := os.Stat(file); err != nil || info.Size() == 0 {
		return stamp{}, false
	}
	store, err := readBolt(file)
	if err != nil {
		return stamp{}, false
	}
	defer func() { _ = store.Close() }()
	s, err = readStamp(store)
	return s, err == nil && s.Start != 0
}

// seal updates the stamp of this start with each snapshot. Several goroutines of Raft call it.
type seal struct {
	stable raft.StableStore
	turn   chan struct{} // has one token: the writing goroutine holds it
	stamp  stamp         // belongs to the holder of the token
}

func newSeal(stable raft.StableStore, s stamp) *seal {
	c := &seal{stable: stable, turn: make(chan struct{}, 1), stamp: s}
	c.turn <- struct{}{}
	return c
}

// completed stamps the log with a complete snapshot. It returns once the stamp is on disk.
func (c *seal) completed(m snapshotMark) error {
	<-c.turn
	defer func() { c.turn <- struct{}{} }()
	if m.Index <= c.stamp.Snapshot.Index {
		return nil
	}
	next := c.stamp
	next.Snapshot = m
	if err := next.write(c.stable); err != nil {
		return err
	}
	c.stamp = next
	return nil
}
