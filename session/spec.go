package session

import (
	"slices"
	"time"
)

// Spec is what a client asks for when it opens a session. The session keeps its spec for life, and the certificate of
// its end has it too. Code between the client and the certificate passes a spec whole, so a new field changes this
// file, the functions that encode a spec, and what shows sessions to people. TestEachFieldOfASpecIsCarried names a
// field that an encoding loses.
type Spec struct {
	// Timeout is the requested timeout in an [OpenRequest], and the negotiated timeout everywhere else. It never
	// changes (K-06).
	Timeout time.Duration
	// Labels are shared and must not be changed.
	Labels Labels
}

// SameSpec reports whether s and o are equal.
func (s *Spec) SameSpec(o *Spec) bool {
	return s.Timeout == o.Timeout && slices.Equal(s.Labels, o.Labels)
}

// OnlyTimeout reports whether s has a timeout but no labels, as most specs do. Such specs have shorter encodings.
func (s *Spec) OnlyTimeout() bool { return len(s.Labels) == 0 }

// CheckSpec returns a [FieldError] when a field other than the timeout is out of range. [Limits] negotiate the timeout.
func (s *Spec) CheckSpec() error { return s.Labels.Check() }

// SpecBytes returns the memory that a node needs for s in addition to [SessionBytes].
func (s *Spec) SpecBytes() uint64 { return s.Labels.Bytes() }
