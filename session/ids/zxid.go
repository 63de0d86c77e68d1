package ids

import (
	"fmt"
	"strconv"
	"strings"

	"holdfast/session"
)

// ZXID is a position in Raft's log, shown as ZooKeeper shows its transactions: the term as the epoch, and the low 32
// bits of the index as the counter (Z-01). It is a view for people, and nothing in Holdfast orders by it: the index has
// 64 bits and continues from term to term, so two entries of one term whose indices are 2^32 apart have the same ZXID.
// Zero is no entry.
type ZXID uint64

// LastZXIDCounter is the counter of ZooKeeper's last transaction in an epoch. ZooKeeper's leader then steps down
// (Z-03); Raft's index continues.
const LastZXIDCounter = 1<<32 - 2

// NewZXID returns the view of the entry at index in term. A term of more than 32 bits is a [session.FieldError] of
// term: terms count elections.
func NewZXID(term, index uint64) (ZXID, error) {
	if term > 1<<32-1 {
		return 0, &session.FieldError{Field: "term", Limit: "0 to 2^32 - 1"}
	}
	return ZXID(term<<32 | index&(1<<32-1)), nil
}

// Term is Raft's term, ZooKeeper's epoch.
func (z ZXID) Term() uint32 { return uint32(z >> 32) }

// Counter is the low 32 bits of Raft's index, ZooKeeper's counter.
func (z ZXID) Counter() uint32 { return uint32(z) }

// Used returns the used share of the counter. At 1 ZooKeeper holds an election and begins again at 0; Raft's index
// continues, and only its low 32 bits begin again.
func (z ZXID) Used() float64 { return float64(z.Counter()) / (1 << 32) }

// String returns 0x and hexadecimal digits without leading zeros, as ZooKeeper does.
func (z ZXID) String() string { return "0x" + strconv.FormatUint(uint64(z), 16) }

// ParseZXID parses the text of [ZXID.String], also with capitals, with leading zeros up to 16 digits, and without 0x.
// The error is a [session.FieldError] of zxid.
func ParseZXID(s string) (ZXID, error) {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || len(digits) > 16 {
		return 0, &session.FieldError{Field: "zxid", Limit: fmt.Sprintf("0x and 1 to 16 hexadecimal digits, as in %v",
			ZXID(3<<32|16))}
	}
	return ZXID(v), nil
}
