package session

import "fmt"

// The format numbers of all data that outlives a process or that another process reads. A program reads one number of
// each format and refuses every other one, with a [FormatError] except in two cases: another PeerFormat gives a
// [FieldError], and the number 0 of a log entry is an error about corrupt bytes, because a page that was never written
// holds zeros. docs/stability.md says what a release may change.
const (
	// EntryFormat is the first byte of a log entry (fsm/entry/entry.go).
	EntryFormat = 1
	// SnapshotFormat is the number in the header of a snapshot (fsm/snapshot.go).
	SnapshotFormat = 1
	// BackupFormat is the number in the header of a backup (backup/backup.go).
	BackupFormat = 1
	// DirectoryFormat is the number in the identity file of a data directory (node/storage/identity.go). It covers all
	// files of the directory except the log and the snapshots, which have numbers of their own.
	DirectoryFormat = 1
	// GreetingFormat is the number in the greeting of a connection on Raft's port (transport/raftnet/greeting.go).
	GreetingFormat = 1
	// PeerFormat is the number of the messages between nodes. Both ends send it when a stream opens
	// (transport/wire/peer.go).
	PeerFormat = 1
)

// Format is the name and number of one format.
type Format struct {
	Name   string
	Number uint64
}

// Formats returns this program's formats, for people.
func Formats() []Format {
	return []Format{
		{"entry", EntryFormat},
		{"snapshot", SnapshotFormat},
		{"backup", BackupFormat},
		{"directory", DirectoryFormat},
		{"greeting", GreetingFormat},
		{"peer", PeerFormat},
	}
}

// FeatureLevel is the newest feature level that this program knows (W8 feature level). The cluster's level is in its
// log: the Configure that founds the cluster sets it. A node stops at an entry or a snapshot with a higher level.
const FeatureLevel = 1

// FormatError refuses data because of its format number.
type FormatError struct {
	// What names the data, such as "the backup".
	What string
	// Found is the number in the data, Reads the number that this program reads.
	Found, Reads uint64
	// Remedy says what to do; empty if the caller adds it.
	Remedy string
}

func (e *FormatError) Error() string {
	text := fmt.Sprintf("%s has format %d, and this program reads format %d", e.What, e.Found, e.Reads)
	if e.Remedy != "" {
		text += ": " + e.Remedy
	}
	return text
}

// CheckFormat returns a [FormatError] unless found and reads are the same number.
func CheckFormat(what string, found, reads uint64, remedy string) error {
	if found == reads {
		return nil
	}
	return &FormatError{What: what, Found: found, Reads: reads, Remedy: remedy}
}
