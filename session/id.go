package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ID identifies a session, and is never reused (I7 ids are never reused). Its layout is ZooKeeper's (spec section 3):
//
//	bit 63      56 55                              16 15          0
//	   +----------+----------------------------------+------------+
//	   |   node   | milliseconds since 2026-01-01 UTC |  counter   |
//	   +----------+----------------------------------+------------+
//
// The counter carries into the milliseconds. Zero identifies no session.
type ID uint64

const (
	nodeShift = 56
	msShift   = 16
	msBits    = nodeShift - msShift

	// MaxMS is the largest number of milliseconds that an id holds: 34.8 years after Epoch.
	MaxMS = 1<<msBits - 1
)

// Node is the number of a node, 1 to 254. 0 is no node, and 255 would make ids that ZooKeeper reads as TTL owners
// (I-32).
type Node uint8

// MaxNode is the largest node number.
const MaxNode Node = 254

// Valid reports whether n is a node number.
func (n Node) Valid() bool { return n >= 1 && n <= MaxNode }

// ErrIDsUsedUp says that a node number has used all of its 56 bits: in November 2060, or earlier when it used more than
// 65,536 ids a millisecond.
var ErrIDsUsedUp = errors.New("node number has used up its session ids: give the node another number")

// Epoch is the moment from which ids count milliseconds: 2026-01-01 UTC.
func Epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// MS returns the milliseconds from Epoch to t, 0 for an earlier t (O1 ids from the log).
func MS(t time.Time) uint64 { return uint64(max(t.Sub(Epoch()).Milliseconds(), 0)) }

// TimeOfMS is the inverse of MS.
func TimeOfMS(ms uint64) time.Time {
	return Epoch().Add(time.Duration(min(ms, MaxMS)) * time.Millisecond)
}

// NextID returns the id for an open that node received at ms milliseconds since Epoch (O1). mark is the highest id ever
// used for the node number. Whatever the clocks do, the id is above mark.
func NextID(mark ID, node Node, ms uint64) (ID, error) {
	if !node.Valid() {
		return 0, &FieldError{Field: "node", Limit: "1 to 254"}
	}
	if ms > MaxMS {
		return 0, &FieldError{Field: "ms", Limit: "0 to 2^40 - 1"}
	}
	id := max(mark+1, ID(node)<<nodeShift|ID(ms)<<msShift)
	if id.Node() != node {
		return 0, ErrIDsUsedUp
	}
	return id, nil
}

// Node returns the number of the node that received the open.
func (id ID) Node() Node { return Node(id >> nodeShift) }

// MS returns the id's milliseconds since Epoch.
func (id ID) MS() uint64 { return uint64(id) >> msShift & MaxMS }

// Time returns the moment in the id. It can be later than the open: the counter may have carried, and the node's clock
// may have been set back.
func (id ID) Time() time.Time { return TimeOfMS(id.MS()) }

// Counter returns the id's low 16 bits.
func (id ID) Counter() uint16 { return uint16(id) }

// String returns 0x and 16 hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("0x%016x", uint64(id)) }

// ParseID parses the text of [ID.String], also without leading zeros, without 0x, and with capitals. The error is a
// [FieldError].
func ParseID(s string) (ID, error) {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || v == 0 {
		return 0, &FieldError{Field: "session_id", Limit: "0x and 1 to 16 hexadecimal digits, not zero"}
	}
	return ID(v), nil
}

// MaxClaim bounds the ids that one [ClaimIDs] takes: the ids of one millisecond.
const MaxClaim = 1 << msShift

// CheckClaim returns a [FieldError] when count is out of range.
func CheckClaim(count uint32) error {
	if count < 1 || count > MaxClaim {
		return &FieldError{Field: "count", Limit: fmt.Sprintf("1 to %d", MaxClaim)}
	}
	return nil
}

// NextBlock returns the first and the last of count consecutive ids above mark, for a claim that node received at ms
// milliseconds since Epoch (O3 id blocks). Its errors are those of [NextID]; it returns [ErrIDsUsedUp] also when fewer
// than count ids are left.
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
