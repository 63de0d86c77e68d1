package storage

import "fmt"

// Recovery is the safe way back from an unusable data directory. An older copy of the directory is no way back, because
// the node has voted and stored entries since.
const Recovery = "while a majority of the other nodes runs and has a leader, empty the whole directory: the leader " +
	"takes the node in as a new one, and it fetches a copy; never do this on so many nodes at once that no majority is " +
	"left; an older copy of the directory is no way back; when the directories of a majority are lost for good, " +
	LostMajority

// LostMajority says how to continue when no leader can be elected any more.
const LostMajority = "begin a new cluster with one that is left, with \"node recover\" (docs/operations/backup.md, A lost " +
	"majority)"

// UnusableError says which file keeps the node from using its data directory, why, and what to do.
type UnusableError struct {
	// File is the path. Problem is the predicate of a sentence about the file.
	File, Problem string
	// Advice says what to do.
	Advice string
	// Cause is the error of the call that read the file; nil when no call failed.
	Cause error
}

func (e *UnusableError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("%s %s: %v: %s", e.File, e.Problem, e.Cause, e.Advice)
	}
	return fmt.Sprintf("%s %s: %s", e.File, e.Problem, e.Advice)
}

func (e *UnusableError) Unwrap() error { return e.Cause }

// unusable returns an [UnusableError] with [Recovery] as advice.
func unusable(file, problem string, cause error) error {
	return &UnusableError{File: file, Problem: problem, Advice: Recovery, Cause: cause}
}

// danglingLink returns the error for a link without a target, where kind is expected.
func danglingLink(path, to, kind string) error {
	return &UnusableError{
		File: path, Problem: fmt.Sprintf("is a link to %s, which does not exist", to),
		Advice: fmt.Sprintf("mount or make %s, or put %s in place of the link", to, kind),
	}
}
