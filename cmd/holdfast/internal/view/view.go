// Package view has the JSON of sessions, certificates and connections, which several groups of commands print. Scripts
// read this JSON: a field never changes its name or meaning.
package view

import (
	"time"

	"holdfast/client"
	"holdfast/session"
	"holdfast/tree"
)

// ID is a session id as text: some JSON readers round numbers of 64 bits.
type ID session.ID

// MarshalText writes 0x and 16 hexadecimal digits.
func (id ID) MarshalText() ([]byte, error) {
	return []byte(session.ID(id).String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (id *ID) UnmarshalText(b []byte) error {
	v, err := session.ParseID(string(b))
	*id = ID(v)
	return err
}

// Spec is the client's request when it opened a session.
type Spec struct {
	TimeoutMS int64             `json:"timeout_ms"`
	Labels    map[string]string `json:"labels,omitempty"`
}

func newSpec(s *session.Spec) Spec {
	v := Spec{TimeoutMS: s.Timeout.Milliseconds()}
	if len(s.Labels) > 0 {
		v.Labels = make(map[string]string, len(s.Labels))
		for _, l := range s.Labels {
			v.Labels[l.Key] = l.Value
		}
	}
	return v
}

// Session is a session.
type Session struct {
	ID ID `json:"id"`
	Spec
	Owner       session.Node `json:"owner"`
	Attachment  uint64       `json:"attachment"`
	OpenedIndex uint64       `json:"opened_index"`
	OpenedAt    time.Time    `json:"opened_at"`
	Local       bool         `json:"local,omitempty"`
	// RemainingMS is absent when unknown.
	RemainingMS *int64 `json:"remaining_ms,omitempty"`
}

// NewSession returns the view of a session; a negative remaining time is unknown.
func NewSession(s session.Session, remaining time.Duration) Session {
	return Session{
		ID: ID(s.ID), Spec: newSpec(&s.Spec), Owner: s.Owner, Attachment: s.Attachment,
		OpenedIndex: s.OpenedIndex, OpenedAt: s.OpenedAt, Local: s.Local,
		RemainingMS: Millis(remaining),
	}
}

// Certificate is the certificate of a session's end.
type Certificate struct {
	ID    ID     `json:"id"`
	Cause string `json:"cause"`
	// LastTouchAgeMS is absent when no touch was known.
	LastTouchAgeMS *int64       `json:"last_touch_age_ms,omitempty"`
	Owner          session.Node `json:"owner"`
	Term           uint64       `json:"term"`
	Index          uint64       `json:"index"`
	CreditedMS     int64        `json:"credited_ms"`
	EndedAt        time.Time    `json:"ended_at"`
	// Ephemerals counts the entries of the tree that were removed with the session.
	Ephemerals uint64 `json:"ephemerals,omitempty"`
	// Will is the outcome of the session's will, absent without a will.
	Will string `json:"will,omitempty"`
	Spec
	OpenedAt      *time.Time `json:"opened_at,omitempty"`
	LateMS        *int64     `json:"late_ms,omitempty"`
	CreditMS      int64      `json:"credit_ms,omitempty"`
	OwnerSilentMS int64      `json:"owner_silent_ms,omitempty"`
	By            string     `json:"by,omitempty"`
	Why           string     `json:"why,omitempty"`
}

// NewCertificate returns the view of a certificate.
func NewCertificate(c session.Certificate) Certificate {
	s := &c.Story
	v := Certificate{
		ID: ID(c.ID), Cause: c.Cause.String(), Owner: c.Owner, Term: c.Term, Index: c.Index,
		CreditedMS: c.Credited.Milliseconds(), EndedAt: c.EndedAt, Ephemerals: c.Left.Ephemerals,
		LastTouchAgeMS: Millis(c.LastTouchAge), Will: will(c.Left.Will),
		Spec: newSpec(&s.Spec), OpenedAt: Time(s.OpenedAt),
		CreditMS: s.Credit.Milliseconds(), OwnerSilentMS: s.Silent.Milliseconds(), By: s.By, Why: s.Why,
	}
	if c.Cause == session.CauseExpired {
		v.LateMS = new(s.Late.Milliseconds())
	}
	return v
}

// will names the outcome of a will, "" without a will.
func will(w tree.WillFate) string {
	switch w {
	case tree.WillCarriedOut:
		return "carried out"
	case tree.WillRefused:
		return "refused"
	case tree.WillDropped:
		return "dropped"
	default:
		return ""
	}
}

// Connection is a connection of a client.
type Connection struct {
	Address    string   `json:"address"`
	Protocol   string   `json:"protocol"`
	Name       string   `json:"name,omitempty"`
	Verified   bool     `json:"verified"`
	Principals []string `json:"principals,omitempty"`
	Since      string   `json:"since"`
	Sessions   uint64   `json:"sessions"`
	Watches    uint64   `json:"watches"`
	Requests   uint64   `json:"requests"`
	Rate       float64  `json:"requests_per_second"`
	RateOverMS int64    `json:"rate_over_ms"`
	Unsent     uint64   `json:"unsent_bytes"`
}

// NewConnection returns the view of a connection.
func NewConnection(c *client.ClientConnection) Connection {
	return Connection{
		Address: c.Address, Protocol: c.Protocol, Name: c.Name, Verified: c.Verified, Principals: c.Principals,
		Since: c.Since.UTC().Format(time.RFC3339Nano), Sessions: c.Sessions, Watches: c.Watches, Requests: c.Requests,
		Rate: c.Rate, RateOverMS: c.Over.Milliseconds(), Unsent: c.Unsent,
	}
}

// Time returns t without its monotonic reading, nil for the zero time.
func Time(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return new(t.Round(0))
}

// Millis returns a duration in milliseconds, nil for a negative duration, which is unknown.
func Millis(d time.Duration) *int64 {
	if d < 0 {
		return nil
	}
	return new(d.Milliseconds())
}
