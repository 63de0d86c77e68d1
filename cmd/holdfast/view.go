package main

import (
	"time"

	"holdfast/session"
)

// idText is a session id that JSON shows as text: some JSON readers round numbers of 64 bits.
type idText session.ID

// MarshalText writes 0x and 16 hexadecimal digits.
func (id idText) MarshalText() ([]byte, error) { //nolint:unparam // encoding.TextMarshaler has an error
	return []byte(session.ID(id).String()), nil
}

// UnmarshalText reads what MarshalText writes.
func (id *idText) UnmarshalText(b []byte) error {
	v, err := session.ParseID(string(b))
	*id = idText(v)
	return err
}

// sessionView is a session in JSON.
type sessionView struct {
	ID          idText            `json:"id"`
	TimeoutMS   int64             `json:"timeout_ms"`
	Owner       session.Node      `json:"owner"`
	Attachment  uint64            `json:"attachment"`
	Labels      map[string]string `json:"labels,omitempty"`
	OpenedIndex uint64            `json:"opened_index"`
	OpenedAt    time.Time         `json:"opened_at"`
	Local       bool              `json:"local,omitempty"`
	// RemainingMS is absent when unknown.
	RemainingMS *int64 `json:"remaining_ms,omitempty"`
}

func viewSession(s session.Session, remaining time.Duration) sessionView {
	v := sessionView{
		ID: idText(s.ID), TimeoutMS: s.Timeout.Milliseconds(), Owner: s.Owner, Attachment: s.Attachment,
		OpenedIndex: s.OpenedIndex, OpenedAt: s.OpenedAt, Local: s.Local,
	}
	for _, l := range s.Labels {
		if v.Labels == nil {
			v.Labels = make(map[string]string, len(s.Labels))
		}
		v.Labels[l.Key] = l.Value
	}
	if remaining >= 0 {
		v.RemainingMS = new(remaining.Milliseconds())
	}
	return v
}

// certificateView is a certificate in JSON.
type certificateView struct {
	ID    idText `json:"id"`
	Cause string `json:"cause"`
	// LastTouchAgeMS is absent when no touch was known.
	LastTouchAgeMS *int64       `json:"last_touch_age_ms,omitempty"`
	Owner          session.Node `json:"owner"`
	Term           uint64       `json:"term"`
	Index          uint64       `json:"index"`
	CreditedMS     int64        `json:"credited_ms"`
	EndedAt        time.Time    `json:"ended_at"`
	// Ephemerals counts the entries of the tree that went with the session.
	Ephemerals uint64 `json:"ephemerals,omitempty"`
}

func viewCertificate(c session.Certificate) certificateView {
	v := certificateView{
		ID: idText(c.ID), Cause: c.Cause.String(), Owner: c.Owner, Term: c.Term, Index: c.Index,
		CreditedMS: c.Credited.Milliseconds(), EndedAt: c.EndedAt, Ephemerals: c.Left.Ephemerals,
	}
	if c.LastTouchAge >= 0 {
		v.LastTouchAgeMS = new(c.LastTouchAge.Milliseconds())
	}
	return v
}
