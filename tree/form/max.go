package form

import "holdfast/tree"

const (
	// maxOutcome is the most bytes of an operation's outcome in a result, besides its path: ten numbers of ten bytes,
	// two of eight, and their keys.
	maxOutcome = 160
	// maxRefusal is the most bytes of a result without outcomes: two paths, and a few short texts.
	maxRefusal = 10 << 10
)

// MaxResult returns the most bytes that [AppendResult] appends for the result of a transaction, whatever its outcome.
// The number is the same on all nodes and in all releases (X3 kept results).
func MaxResult(x tree.Transaction) int {
	return max(maxRefusal, maxOutcomes(x.Then), maxOutcomes(x.Else))
}

func maxOutcomes(ops []tree.Op) int {
	bytes := maxOutcome
	for _, op := range ops {
		bytes += maxOutcome + len(op.Target())
	}
	return bytes
}
