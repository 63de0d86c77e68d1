package storage

import (
	"errors"
	"fmt"
	"path/filepath"

	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
)

// begin refuses a log and snapshots that do not belong to this directory or to each other, and stamps the log with this
// start. Raft may begin when begin returns nil. A failed write ends the calling goroutine.
func (s *Store) begin() error {
	next, err := s.checkStart()
	if err != nil {
		return err
	}
	if err = next.write(s.stable); err != nil {
		return err
	}
	s.origins.completed = newSeal(s.stable, next).completed
	return s.dir.noteStamp()
}

// checkStart returns the stamp of this start, or an error that says why the log or the snapshots are refused.
func (s *Store) checkStart() (stamp, error) {
	d, identity, found := s.dir, s.dir.Identity(), s.found
	newest, count, err := s.mark(found.Snapshot)
	if err != nil {
		return stamp{}, err
	}
	log, err := s.readLog(d.path)
	if err != nil {
		return stamp{}, err
	}
	if err = log.check(identity, newest); err != nil {
		return stamp{}, err
	}
	s.origins.suits = func(from snapshotMark) error { return log.suits(from, newest) }
	if count == 0 { // Raft opens no snapshot, so nothing else checks the log
		err = log.suits(snapshotMark{}, newest)
	}
	return stamp{
		Directory: identity.Directory, Key: identity.Key, Start: d.incarnation, Former: identity.Log, Snapshot: newest,
	}, err
}

// checkStamp reads the stamp of the former start. It returns an error for a stable store of another directory or of
// another time.
func checkStamp(d *Dir, stable raft.StableStore) (stamp, error) {
	found, err := readStamp(stable)
	if err != nil {
		return stamp{}, unusable(filepath.Join(d.path, StableFile), "is damaged", err)
	}
	return found, found.fits(d.path, d.Identity(), d.former)
}

// mark returns the newest snapshot that was ever complete, even if its file is gone, and the number of snapshots on
// disk. stamped is the newest snapshot in the log's stamp. The former process may have ended before it stamped a newer
// snapshot.
func (s *Store) mark(stamped snapshotMark) (newest snapshotMark, count int, err error) {
	all, err := s.snapshots.List()
	if err != nil {
		return snapshotMark{}, 0, fmt.Errorf("reading the snapshots in %s: %w", s.origins.folder, addAdvice(err))
	}
	err = s.origins.ours(all, stamped)
	if len(all) > 0 && all[0].Index > stamped.Index {
		stamped = markOf(all[0])
	}
	return stamped, len(all), err
}

// storedLog is the log as a start finds it.
type storedLog struct {
	path        string // of the directory
	logs        raft.LogStore
	first, last uint64
	// lastTerm is the term of the last entry. term is Raft's own term, which is on disk before any entry of the term.
	// voted is the newest term with a vote. hasTerm says that Raft's term was ever written.
	lastTerm, term, voted uint64
	hasTerm               bool
}

func (s *Store) readLog(path string) (*storedLog, error) {
	l := &storedLog{path: path, logs: s.logs.LogStore} // the log itself, without stand-ins for entries
	var errs [5]error
	l.first, errs[0] = s.logs.FirstIndex()
	l.last, errs[1] = s.logs.LastIndex()
	l.term, errs[2] = s.stable.GetUint64([]byte("CurrentTerm"))
	l.voted, errs[3] = s.stable.GetUint64([]byte("LastVoteTerm"))
	l.hasTerm = errs[2] == nil
	for i := range errs {
		if errors.Is(errs[i], raftboltdb.ErrKeyNotFound) {
			errs[i] = nil
		}
	}
	if l.last > 0 {
		l.lastTerm, errs[4] = l.termOf(l.last)
	}
	if err := errors.Join(errs[2], errs[3]); err != nil {
		return nil, unusable(filepath.Join(path, StableFile), "is damaged", err)
	}
	if err := errors.Join(errs[0], errs[1], errs[4]); err != nil {
		return nil, unusable(filepath.Join(path, LogFolder), "is damaged", err)
	}
	return l, nil
}

func (l *storedLog) termOf(index uint64) (uint64, error) {
	var entry raft.Log
	err := l.logs.GetLog(index, &entry)
	return entry.Term, err
}

// check compares the log with the identity file and with the newest snapshot.
func (l *storedLog) check(r Identity, newest snapshotMark) error {
	file := filepath.Join(l.path, StableFile)
	switch {
	case r.Founders == nil && (l.last > 0 || l.voted > 0 || newest.Index > 0):
		return unusable(filepath.Join(l.path, IdentityFile),
			"is an older copy: it says that this node never took part, but its log has votes or entries", nil)
	case r.Founders != nil && !l.hasTerm:
		return unusable(file, "has lost Raft's term, but the identity file says that this node was admitted", nil)
	case l.term < max(l.lastTerm, l.voted, newest.Term):
		return unusable(file, fmt.Sprintf("has lost Raft's term: it says %d, and has entries, votes or snapshots of %d",
			l.term, max(l.lastTerm, l.voted, newest.Term)), nil)
	}
	return nil
}

// suits returns nil when the log continues where the snapshot from ends, and has all entries up to the end of newest,
// the newest snapshot that ever existed: a follower that acknowledged the installation of a snapshot may have its
// entries nowhere else. The zero value of from means that the log starts at its first entry.
func (l *storedLog) suits(from, newest snapshotMark) error {
	file := filepath.Join(l.path, LogFolder)
	folder := filepath.Join(l.path, SnapshotFolder)
	end := "the beginning"
	if from.Index > 0 {
		end = "snapshot " + from.ID
	}
	missing := fmt.Sprintf("has lost snapshot %s, which the log needs", newest.ID)
	switch {
	case l.last > from.Index && l.first > from.Index+1 && newest.Index <= from.Index:
		return unusable(file, fmt.Sprintf("has lost entries: it begins with entry %d, and %s ends with %d", l.first,
			end, from.Index), nil)
	case newest.Index <= from.Index:
		return nil
	case l.last < newest.Index, l.first > from.Index+1:
		return unusable(
			folder, fmt.Sprintf(
				"%s: the log has entries %d to %d, and what is left of the snapshots, %s, ends with entry %d", missing,
				l.first, l.last, end, from.Index,
			), nil,
		)
	}
	// The log has an entry at the index of newest's last entry. If the terms are equal, both are the same entry, and
	// the log has all earlier entries too.
	if term, err := l.termOf(newest.Index); err != nil || term != newest.Term {
		return unusable(folder, fmt.Sprintf("%s: the log's entry %d is of term %d, the snapshot's of %d", missing,
			newest.Index, term, newest.Term), err)
	}
	return nil
}
