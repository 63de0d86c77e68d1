package storage

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
)

// Names of files and folders in a data directory.
const (
	// IdentityFile identifies the node of the directory (see [Identity]).
	IdentityFile = "identity"
	// StableFile has Raft's term and votes, the stamp, and the list of the log's segments.
	StableFile = "raft.db"
	// LogFolder has the segments of Raft's log.
	LogFolder = "log"
	// SnapshotFolder has the snapshots. Raft's library sets the name.
	SnapshotFolder = "snapshots"
	// PositionsFile has the positions of other members' directories (see [Positions]).
	PositionsFile = "acknowledged"
	// OlderCopyFolder has the files of an older copy of the directory that was set aside (J6 rolled-back directories).
	OlderCopyFolder = "older-copy"

	lockFile = "lock"
)

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// addAdvice adds to err what an operator can do; nil stays nil.
func addAdvice(err error) error {
	var advice string
	switch {
	case err == nil:
		return nil
	case errors.Is(err, fs.ErrPermission):
		advice = "let this user read and write it, or give data_dir another directory"
	case errors.Is(err, syscall.EROFS):
		advice = "the file system is read-only: mount it for writing, or give data_dir another directory"
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		advice = "the disk is full: free some space"
	case errors.Is(err, syscall.ENOTDIR), errors.Is(err, syscall.EEXIST):
		advice = "a file is in the way: give data_dir a directory"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}
