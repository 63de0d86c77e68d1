package session

import (
	"fmt"
	"time"
)

// Capacity bounds the state of a cluster, the same on every node (O4 state limits). The zero value is no bound.
type Capacity struct {
	// MaxSessions bounds the number of sessions.
	MaxSessions uint64
	// MaxBytes bounds the bytes of sessions and remembered request ids, as [Usage] counts them.
	MaxBytes uint64
}

// certificateShare is the share of MaxBytes that certificates may use in addition.
const certificateShare = 8

// CertificateBytes bounds the bytes of certificates. The oldest certificates are dropped for new ones: no open is
// refused because of them.
func (c Capacity) CertificateBytes() uint64 {
	return max(c.MaxBytes, MinCapacityBytes) / certificateShare
}

// Bounds of a [Capacity] that is set. The smallest number of bytes suffices for about 100,000 sessions, and in addition
// for about 30,000 certificates.
const (
	MaxCapacitySessions = 100_000_000
	MinCapacityBytes    = 64 << 20
	MaxCapacityBytes    = 1 << 40
)

// FullRetryAfter is the time that a client is asked to wait when its open exceeds the capacity. In that time a few
// sessions should be closed or expire.
const FullRetryAfter = 2 * time.Second

// The cost of each item in the state for a node, in bytes of live memory. These figures decide which opens are refused,
// so all nodes must use the same: a release with other figures would give another meaning to the log, and its state
// would differ from the others'.
const (
	// SessionBytes is the cost of one session without labels, on a node that owns it and leads. About 400 were
	// measured.
	SessionBytes = 512
	// CertificateBytes is the cost of one certificate with its story, without labels and texts. RequestBytes is the
	// cost of one remembered request id.
	CertificateBytes = 256
	RequestBytes     = 96
	// labelsBytes is the cost of having labels, labelBytes the cost of each label, without its texts.
	labelsBytes = 24
	labelBytes  = 36
	// textUnit is the unit of allocation for a text.
	textUnit = 16
)

// Bytes returns the cost of the labels for a node.
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

// Bytes returns the cost of the story's spec and texts for a node.
func (s *Story) Bytes() uint64 { return s.SpecBytes() + textBytes(s.By) + textBytes(s.Why) }

func textBytes(s string) uint64 { return uint64((len(s) + textUnit - 1) / textUnit * textUnit) }

// Usage is the use of a [Capacity] by a state.
type Usage struct {
	// Bytes are the bytes of sessions and remembered request ids, CertificateBytes those of certificates.
	Sessions, Bytes, CertificateBytes uint64
	Capacity                          Capacity
}

// CheckCapacity returns nil when a session of this cost may be added. Otherwise it returns a [LimitError] with the name
// of the bound, its value, and the present use.
func (u Usage) CheckCapacity(cost uint64) error {
	switch c := u.Capacity; {
	case c.MaxSessions != 0 && u.Sessions >= c.MaxSessions:
		return full("max_sessions", "%d sessions, %d open", c.MaxSessions, u.Sessions)
	case c.MaxBytes != 0 && u.Bytes+cost > c.MaxBytes:
		return full("max_state_bytes", "%d bytes, %d used, %d more needed", c.MaxBytes, u.Bytes, cost)
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
