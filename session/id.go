package session

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// ID names a session, for ever: it is never used again (I7). Its layout is ZooKeeper's (spec section 3):
//
//	bit 63      56 55                              16 15          0
//	   +----------+----------------------------------+------------+
//	   |   node   | milliseconds since 2026-01-01 UTC |  counter   |
//	   +----------+----------------------------------+------------+
//
// The counter carries into the milliseconds. Zero is no session.
type ID uint64

const (
	nodeShift = 56
	msShift   = 16
	msBits    = nodeShift - msShift

	// MaxMS is the largest number of milliseconds an id holds: 34.8 years after Epoch.
	MaxMS = 1<<msBits - 1
)

// Node is the number of a node, 1 to 254: 0 is none, and 255 would make ids that ZooKeeper reads as TTL owners (I-32).
type Node uint8

// MaxNode is the largest node number.
const MaxNode Node = 254

// Valid reports whether n is a node number.
func (n Node) Valid() bool { return n >= 1 && n <= MaxNode }

// ErrIDsUsedUp says that a node number has used its 56 bits: 34.8 years of ids. Another node number goes on.
var ErrIDsUsedUp = errors.New("node number has used up its session ids: give the node another number")

// Epoch is the moment ids count milliseconds from: 2026-01-01 UTC.
func Epoch() time.Time { return time.Date(2026, time.January, 1, 0, 0, 0, 0, time.UTC) }

// MS returns the milliseconds from Epoch to t, 0 for an earlier t (O1).
func MS(t time.Time) uint64 { return uint64(max(t.Sub(Epoch()).Milliseconds(), 0)) }

// TimeOfMS is the inverse of MS.
func TimeOfMS(ms uint64) time.Time {
	return Epoch().Add(time.Duration(min(ms, MaxMS)) * time.Millisecond)
}

// NextID returns the id after mark, the highest one ever used of a node number, for an open that the node took at ms
// milliseconds since Epoch (O1). Whatever the clocks do, it is above mark.
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

// Node returns the number of the node that took the open.
func (id ID) Node() Node { return Node(id >> nodeShift) }

// MS returns the id's milliseconds since Epoch.
func (id ID) MS() uint64 { return uint64(id) >> msShift & MaxMS }

// Time returns the id's moment. It is at or after the open when opens of the node carried, or its clock was set back.
func (id ID) Time() time.Time { return TimeOfMS(id.MS()) }

// Counter returns the id's low 16 bits.
func (id ID) Counter() uint16 { return uint16(id) }

// String returns 0x and 16 hexadecimal digits.
func (id ID) String() string { return fmt.Sprintf("0x%016x", uint64(id)) }

// ParseID reads what String writes; leading zeros may be left out, and digits without 0x are hexadecimal too.
func ParseID(s string) (ID, error) {
	digits := strings.TrimPrefix(strings.ToLower(s), "0x")
	v, err := strconv.ParseUint(digits, 16, 64)
	if err != nil || v == 0 {
		return 0, &FieldError{Field: "session_id", Limit: "0x and 1 to 16 hexadecimal digits, not zero"}
	}
	return ID(v), nil
}
