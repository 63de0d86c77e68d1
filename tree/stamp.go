package tree

import (
	"fmt"
	"strconv"
	"strings"
)

// Stamp numbers one change of the replicated state: the index of its log entry, and its position in the entry (D2
// stamps). Positions count from 1 the entry's commands and the sessions that the entry ends. Stamps grow in the order
// of the changes, also across fail-overs. So the stamp of an entry's creation serves as a fencing token (H1 fencing
// tokens), and as ZooKeeper's zxid.
type Stamp uint64

const positionBits = 16

// Bounds of a stamp's parts. A stamp is also positive as a signed number, so that ZooKeeper's clients can compare
// stamps.
const (
	MaxPosition = 1<<positionBits - 1
	MaxIndex    = 1<<(63-positionBits) - 1
)

// StampAt returns the stamp of a position in the log entry at index. Both must be within their bounds.
func StampAt(index uint64, position int) Stamp {
	if index > MaxIndex || position < 0 || position > MaxPosition {
		panic(fmt.Sprintf("no stamp has index %d and position %d", index, position))
	}
	return Stamp(index<<positionBits | uint64(position))
}

// Index returns the index of the log entry that made the change.
func (s Stamp) Index() uint64 { return uint64(s >> positionBits) }

// Position returns the change's position in its log entry.
func (s Stamp) Position() int { return int(s & MaxPosition) }

// String returns index and position with a dot between them, such as 1024.3.
func (s Stamp) String() string { return fmt.Sprintf("%d.%d", s.Index(), s.Position()) }

// ParseStamp reads the text of [Stamp.String].
func ParseStamp(text string) (Stamp, error) {
	index, position, ok := strings.Cut(text, ".")
	i, err := strconv.ParseUint(index, 10, 64)
	p, positionErr := strconv.ParseUint(position, 10, positionBits)
	if !ok || err != nil || positionErr != nil || i > MaxIndex {
		return 0, fmt.Errorf("stamp %q: must be INDEX.POSITION, such as 1024.3; at most %d.%d", text, uint64(MaxIndex),
			MaxPosition)
	}
	return StampAt(i, int(p)), nil
}
