package storage

import (
	"fmt"

	"github.com/hashicorp/raft"
)

// cutGuard keeps Raft from deleting entries that this node has applied. An applied entry was committed. If the leader
// does not have it, the voters that elected the leader have forgotten the entry: they run on older copies of their
// directories (J6 rolled-back directories).
type cutGuard struct {
	path string
	// applied returns the newest entry that this process or a former one has applied. Without the function nothing is
	// guarded.
	applied func() uint64
	// snapshot returns the mark of the newest snapshot: Raft may delete the entries that this snapshot has.
	snapshot func() (snapshotMark, error)
}

// LostEntriesError says that the leader wants this node to delete entries that the node has applied.
type LostEntriesError struct {
	path string
	// From is the first entry to delete. Applied is the newest applied entry.
	From, Applied uint64
}

func (e *LostEntriesError) Error() string {
	return fmt.Sprintf("the leader would have this node drop its log from entry %d on, and it has applied up to entry %d: the "+
		"leader lacks entries that were acknowledged, so that a majority of the nodes must be on older copies of their data "+
		"directories; the node stops and has dropped nothing, data directory %s has the entries: keep it, stop all nodes, and "+
		"see which directories were put back (docs/operations/runbooks.md, Acknowledged entries are gone)", e.From, e.Applied, e.path)
}

// cut returns an error if Raft would delete applied entries that no snapshot has. Raft deletes the entries of a
// snapshot in two cases: from the first entry of its log on, and below a snapshot that the log does not reach. begins
// is the first entry of the log.
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
	return &LostEntriesError{g.path, first, applied}
}

// installs returns an error if a snapshot of another node contradicts an applied entry. An entry that is not in the log
// contradicts nothing.
func (g *cutGuard) installs(index, term uint64, log raft.LogStore) error {
	var own raft.Log
	if g.applied == nil || index > g.applied() || log.GetLog(index, &own) != nil || own.Term == term {
		return nil //nolint:nilerr // see above
	}
	return &LostEntriesError{g.path, index, g.applied()}
}
