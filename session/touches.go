package session

import (
	"encoding/binary"
	"errors"
	"time"
)

// Touch is one session's newest touch on its way to the leader. Age is the time from the touch to the sending.
type Touch struct {
	ID  ID
	Age time.Duration
}

// ErrCorruptTouches says that bytes were not written by [AppendTouches].
var ErrCorruptTouches = errors.New("packed touches are corrupt")

// AppendTouches appends packed touches to dst and returns it. touches must be sorted by id. Ids are delta-coded in two
// parts, high (the 48 bits of node and milliseconds) and counter (16 bits), because an id mostly has its neighbour's
// high part, or a counter of zero:
//
//	uvarint  (high - previous high) << 1 | 1 if a counter follows
//	uvarint  counter, minus the previous counter when high is the same; absent when that is 0
//	uvarint  age in milliseconds, rounded down: an age too small makes a deadline later, never early (I1 never early)
func AppendTouches(dst []byte, touches []Touch) []byte {
	var prev ID
	for _, t := range touches {
		dst = appendTouch(dst, prev, t)
		prev = t.ID
	}
	return dst
}

func appendTouch(dst []byte, prev ID, t Touch) []byte {
	high, low := uint64(t.ID)>>msShift-uint64(prev)>>msShift, uint64(t.ID.Counter())
	if high == 0 {
		low -= uint64(prev.Counter())
	}
	if low == 0 {
		dst = binary.AppendUvarint(dst, high<<1)
	} else {
		dst = binary.AppendUvarint(dst, high<<1|1)
		dst = binary.AppendUvarint(dst, low)
	}
	return binary.AppendUvarint(dst, uint64(max(t.Age, 0)/time.Millisecond))
}

// Touches reads packed touches one by one:
//
//	for r := (Touches{Bytes: b}); ; {
//		t, ok, err := r.Next()
//	}
type Touches struct {
	// Bytes are the unread bytes.
	Bytes []byte
	prev  ID
}

// Next returns the next touch, false at the end. It returns [ErrCorruptTouches] when an id does not rise, and when a
// number is cut off or too large.
func (r *Touches) Next() (Touch, bool, error) {
	if len(r.Bytes) == 0 {
		return Touch{}, false, nil
	}
	head, ok := r.uvarint()
	if !ok || head>>1 > 1<<48-1 {
		return Touch{}, false, ErrCorruptTouches
	}
	high, low := uint64(r.prev)>>msShift+head>>1, uint64(0)
	if head&1 == 1 {
		if low, ok = r.uvarint(); !ok || low == 0 || low > 1<<16-1 {
			return Touch{}, false, ErrCorruptTouches
		}
	}
	if head>>1 == 0 {
		low += uint64(r.prev.Counter())
	}
	ms, ok := r.uvarint()
	id := ID(high<<msShift | low)
	if !ok || high > 1<<48-1 || low > 1<<16-1 || id <= r.prev || ms > uint64(maxAge/time.Millisecond) {
		return Touch{}, false, ErrCorruptTouches
	}
	r.prev = id
	return Touch{ID: id, Age: time.Duration(ms) * time.Millisecond}, true, nil
}

// maxAge bounds an age on the wire: a year.
const maxAge = 366 * 24 * time.Hour

func (r *Touches) uvarint() (uint64, bool) {
	v, n := binary.Uvarint(r.Bytes)
	if n <= 0 {
		return 0, false
	}
	r.Bytes = r.Bytes[n:]
	return v, true
}
