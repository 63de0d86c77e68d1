package form

import "holdfast/tree"

const (
	// mostOutcome is what an operation's outcome takes in a result beside its path, at most: ten numbers of ten bytes,
	// two of eight, and their keys.
	mostOutcome = 160
	// mostRefusal is what a result without outcomes takes, at most: two paths, and a few short texts.
	mostRefusal = 10 << 10
)

// MostResult returns the bytes of the result of a transaction, at most: whatever becomes of it, [AppendResult] appends
// no more. It is the same on all nodes and in all releases (X3).
func MostResult(x tree.Transaction) int {
	return max(mostRefusal, mostOutcomes(x.Then), mostOutcomes(x.Else))
}

func mostOutcomes(ops []tree.Op) int {
	bytes := mostOutcome
	for _, op := range ops {
		bytes += mostOutcome + len(op.Target())
	}
	return bytes
}
