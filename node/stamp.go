package node

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

// stampKey is where the stamp is, beside Raft's own values.
const stampKey = "holdfast.stamp"

// stamp is what a node writes into its log file about the directory that the file is in, and about the snapshots that
// the log rests on. Identity file and log so vouch for each other: one that was set back, emptied or exchanged alone no
// longer fits the other.
//
// Each start writes, and syncs, in this order: the identity file with the new incarnation; the stamp with that
// incarnation as Start, and as Former what the identity file says of the log (identityRecord.Log); the identity file
// with Start as Log. Raft begins after that, and nothing of a start that was cut short has been said to anybody. So a
// start finds one of three things: Log is Start, the usual; Log is Former, when the one before was cut short after the
// stamp; or neither, when one of the two files is an older copy.
type stamp struct {
	Directory raftnet.Directory `json:"directory"`
	Start     uint64            `json:"start"`
	Former    uint64            `json:"former"`
	// Snapshot is the newest that was completed in this directory. It is written before Raft cuts the log after it, and
	// before the leader hears that it has arrived.
	Snapshot snapshotMark `json:"snapshot,omitzero"`
}

// snapshotMark names a snapshot, and the entry that it ends with.
type snapshotMark struct {
	ID    string `json:"id"`
	Index uint64 `json:"index"`
	Term  uint64 `json:"term"`
}

func markOf(m *raft.SnapshotMeta) snapshotMark { return snapshotMark{m.ID, m.Index, m.Term} }

// readStamp returns the zero stamp when there is none.
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

// fits returns nil when a log with this stamp, zero for none, is that of the directory whose identity file holds r.
// newest is the newest start that the identity file knew before this one.
func (s stamp) fits(path string, r identityRecord, newest uint64) error {
	file, identity := filepath.Join(path, logFile), filepath.Join(path, identityFile)
	switch {
	case s.Start == 0 && r.Log == 0: // a new directory, or one of the older format
		return nil
	case s.Start == 0:
		return unusable(file, "is not this directory's log: it has no stamp, and the identity file says that it has",
			nil)
	case s.Directory != r.Directory:
		return unusable(
			file, fmt.Sprintf(
				"is not this directory's log: it belongs to directory %v, and the identity file is that of %v",
				s.Directory, r.Directory,
			), nil,
		)
	case s.Start > newest:
		return unusable(identity, fmt.Sprintf("is an older copy: it ends with start %d, and the log has seen start %d",
			newest, s.Start), nil)
	case s.Start == r.Log, s.Former == r.Log:
		return nil
	default:
		return unusable(
			file, fmt.Sprintf(
				"is an older copy: it ends with start %d, and the identity file says that it has seen start %d",
				s.Start, r.Log,
			), nil,
		)
	}
}

// stampIn reads the stamp of a log that nobody has open. It is for messages: false when there is none to be read.
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

// seal is the stamp of this start. It is written anew with each snapshot, by several goroutines of Raft's.
type seal struct {
	stable raft.StableStore
	turn   chan struct{} // has one token: whoever writes holds it
	stamp  stamp         // of the token's holder
}

func newSeal(stable raft.StableStore, s stamp) *seal {
	c := &seal{stable: stable, turn: make(chan struct{}, 1), stamp: s}
	c.turn <- struct{}{}
	return c
}

// completed notes that a snapshot is complete, and returns when that is on disk.
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
