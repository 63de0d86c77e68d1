package session

import "fmt"

// MaxClaim is the number of ids that one [ClaimIDs] takes: those of one millisecond.
const MaxClaim = 1 << msShift

// ClaimIDs moves a node's mark by Count, so that the ids it passed over are nobody else's, ever (O3, I7). The state
// machine has no more to do with them. It answers with the first; the others follow it.
type ClaimIDs struct {
	Node Node
	// MS is when the node took the request, in milliseconds since [Epoch].
	MS uint64
	// Count is 1 to [MaxClaim].
	Count uint32
}

func (ClaimIDs) command() {}

// ClaimRequest asks for a block of ids of the node that asks.
type ClaimRequest struct {
	// MS is the wall clock of that node, in milliseconds since [Epoch].
	MS    uint64
	Count uint32
}

// CheckClaim reports a count that is out of range as a [FieldError].
func CheckClaim(count uint32) error {
	if count < 1 || count > MaxClaim {
		return &FieldError{Field: "count", Limit: fmt.Sprintf("1 to %d", MaxClaim)}
	}
	return nil
}

// NextBlock returns the first and the last of count ids after mark that follow each other, for a node that asked at ms
// milliseconds since Epoch (O3). Its errors are those of [NextID]; [ErrIDsUsedUp] also when only some are left.
func NextBlock(mark ID, node Node, ms uint64, count uint32) (first, last ID, err error) {
	if first, err = NextID(mark, node, ms); err != nil {
		return 0, 0, err
	}
	last = first + ID(count) - 1
	if last.Node() != node {
		return 0, 0, ErrIDsUsedUp
	}
	return first, last, nil
}
