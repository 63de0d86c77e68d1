package node

import "fmt"

// recovery is the safe way back from a data directory that cannot be used. An older copy of the directory is no way
// back, because the node has voted and stored entries since.
const recovery = "while a majority of the other nodes runs and has a leader, empty the whole directory: the leader " +
	"takes the node in as a new one, and it fetches a copy; never do this on so many nodes at once that no majority is " +
	"left; an older copy of the directory is no way back; when the directories of a majority are lost for good, " +
	lostMajority

// lostMajority says how to go on when no leader can ever take a node in.
const lostMajority = "begin a new cluster with one that is left, with \"node recover\" (docs/operations.md, A lost " +
	"majority)"

// unusableError says which file keeps the node from using its data directory, why, and what to do.
type unusableError struct {
	// file is the path. wrong is the predicate of a sentence about the file.
	file, wrong string
	// todo says what to do.
	todo string
	// cause is the error of the call that read the file, nil when no call failed.
	cause error
}

func (e *unusableError) Error() string {
	if e.cause != nil {
		return fmt.Sprintf("%s %s: %v: %s", e.file, e.wrong, e.cause, e.todo)
	}
	return fmt.Sprintf("%s %s: %s", e.file, e.wrong, e.todo)
}

func (e *unusableError) Unwrap() error { return e.cause }

// unusable returns an [unusableError] with [recovery] as what to do.
func unusable(file, wrong string, cause error) error {
	return &unusableError{file: file, wrong: wrong, todo: recovery, cause: cause}
}
