package session

import (
	"fmt"
	"time"
)

// Capacity bounds what a cluster keeps, the same on every node (O4). The zero value is no bound.
type Capacity struct {
	// MaxSessions bounds the number of sessions.
	MaxSessions uint64
	// MaxBytes bounds the bytes of sessions and remembered request ids, as [Usage] counts them.
	MaxBytes uint64
}

// certificateShare is the share of MaxBytes that certificates may take besides.
const certificateShare = 8

// CertificateBytes bounds the bytes of certificates. The oldest ones make room: no open is refused for them.
func (c Capacity) CertificateBytes() uint64 {
	return max(c.MaxBytes, MinCapacityBytes) / certificateShare
}

// Bounds of a [Capacity] that is set. The smallest number of bytes has room for about 100,000 sessions, and besides for
// about 30,000 certificates.
const (
	MaxCapacitySessions = 100_000_000
	MinCapacityBytes    = 64 << 20
	MaxCapacityBytes    = 1 << 40
)

// FullRetryAfter is how long a client is asked to wait when its open finds no room. In that time a few sessions should
// be closed or expire.
const FullRetryAfter = 2 * time.Second

// What each thing in the state costs a node, in bytes of live memory. These figures decide which opens are refused, so
// all nodes must use the same: a release with other figures would read another meaning in the log, and its state would
// differ from the others'.
const (
	// SessionBytes is the cost of one session without labels, at a node that owns it and leads. About 400 were
	// measured.
	SessionBytes = 512
	// CertificateBytes is the cost of one certificate with its story, whose labels and texts come on top. RequestBytes is
	// that of one remembered request id.
	CertificateBytes = 256
	RequestBytes     = 96
	// labelsBytes is the cost of having labels, labelBytes that of each label; its texts come on top.
	labelsBytes = 24
	labelBytes  = 36
	// textUnit is the unit in which memory for a text is allocated.
	textUnit = 16
)

// Bytes returns what the labels cost a node.
func (l Labels) Bytes() uint64 {
	if len(l) == 0 {
		return 0
	}
	n := uint64(labelsBytes)
	for _, label := range l {
		n += labelBytes + textBytes(label.Key) + textBytes(label.Value)
	}
	return n
}

// Bytes returns what the labels and texts of the story cost a node.
func (s *Story) Bytes() uint64 { return s.Labels.Bytes() + textBytes(s.By) + textBytes(s.Why) }

func textBytes(s string) uint64 { return uint64((len(s) + textUnit - 1) / textUnit * textUnit) }

// Usage is what a state holds of the things that a [Capacity] bounds.
type Usage struct {
	// Bytes are those of sessions and remembered request ids, CertificateBytes those of certificates.
	Sessions, Bytes, CertificateBytes uint64
	Capacity                          Capacity
}

// Room returns nil when a session of this cost may be added. Otherwise it returns a [LimitError] with the name of the
// bound, its value, and what the state holds now.
func (u Usage) Room(cost uint64) error {
	switch c := u.Capacity; {
	case c.MaxSessions != 0 && u.Sessions >= c.MaxSessions:
		return full("max_sessions", "%d sessions, of which there are %d", c.MaxSessions, u.Sessions)
	case c.MaxBytes != 0 && u.Bytes+cost > c.MaxBytes:
		return full("max_state_bytes", "%d bytes, of which %d are taken and %d are needed", c.MaxBytes, u.Bytes, cost)
	default:
		return nil
	}
}

func full(name, format string, args ...any) error {
	return &LimitError{Name: name, Limit: fmt.Sprintf(format, args...), RetryAfter: FullRetryAfter}
}

// Share returns the larger of the used shares of sessions and bytes. It is 0 without a capacity, 1 when a bound is
// reached, and higher when the state was above the bound when it was set.
func (u Usage) Share() float64 {
	return max(share(u.Sessions, u.Capacity.MaxSessions), share(u.Bytes, u.Capacity.MaxBytes))
}

func share(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
