package session

import (
	"fmt"
	"time"
)

// Capacity bounds what a cluster keeps, the same on every node (O4). The zero value is no bound.
type Capacity struct {
	// MaxSessions is the number of sessions that may exist.
	MaxSessions uint64
	// MaxBytes is what they, the certificates and the request ids that are remembered may take, as [Usage] counts.
	MaxBytes uint64
}

// SetCapacity is the [Command] that bounds what opens and upgrades may add to the state from now on (O4). Who is there
// stays, however many they are.
type SetCapacity struct{ Capacity Capacity }

func (SetCapacity) command() {}

// Bounds of a [Capacity] that is set. The smallest number of bytes has room for all certificates, and for as many
// sessions again.
const (
	MaxCapacitySessions = 100_000_000
	MinCapacityBytes    = 64 << 20
	MaxCapacityBytes    = 1 << 40
)

// FullRetryAfter is what clients are asked to wait that find no room: as long as a few sessions take to end, by closes
// or expiry.
const FullRetryAfter = 2 * time.Second

// What things cost a node, in bytes of live memory. They decide which opens are refused, so that all nodes must count
// alike: another figure is another meaning of the log, and a release with other figures parts from those before it.
const (
	// SessionBytes is one session without labels: at its owner, where the leader's tracker is as well. Measured are
	// some 400.
	SessionBytes = 512
	// CertificateBytes is one certificate, RequestBytes one request id that is remembered.
	CertificateBytes = 128
	RequestBytes     = 96
	// labelsBytes is what labels cost beside themselves, labelBytes what each costs beside its texts.
	labelsBytes = 24
	labelBytes  = 36
	// textUnit is what memory for a text comes in.
	textUnit = 16
)

// Bytes returns what labels cost a node.
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

func textBytes(s string) uint64 { return uint64((len(s) + textUnit - 1) / textUnit * textUnit) }

// Usage is how much there is of what a [Capacity] bounds.
type Usage struct {
	Sessions, Bytes uint64
	Capacity        Capacity
}

// Room returns nil when a session that costs so many bytes may be added, else a [LimitError] that names the bound which
// is reached, its value, and how much there is now.
func (u Usage) Room(cost uint64) error {
	switch c := u.Capacity; {
	case c.MaxSessions != 0 && u.Sessions >= c.MaxSessions:
		return full("max_sessions", fmt.Sprintf("%d sessions, of which there are %d", c.MaxSessions, u.Sessions))
	case c.MaxBytes != 0 && u.Bytes+cost > c.MaxBytes:
		return full("max_state_bytes", fmt.Sprintf("%d bytes, of which %d are taken and %d are needed", c.MaxBytes,
			u.Bytes, cost))
	default:
		return nil
	}
}

func full(name, limit string) error {
	return &LimitError{Name: name, Limit: limit, RetryAfter: FullRetryAfter}
}

// Share returns how full it is, from 0 to 1 and above: the larger one of sessions and bytes. 0 without a capacity.
func (u Usage) Share() float64 {
	return max(part(u.Sessions, u.Capacity.MaxSessions), part(u.Bytes, u.Capacity.MaxBytes))
}

func part(n, of uint64) float64 {
	if of == 0 {
		return 0
	}
	return float64(n) / float64(of)
}
