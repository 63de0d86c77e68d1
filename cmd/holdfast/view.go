package main

import (
	"time"

	"holdfast/session"
	"holdfast/tree"
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
	v.Labels = viewLabels(s.Labels)
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
	// Will is what became of the session's will, absent without one.
	Will          string            `json:"will,omitempty"`
	TimeoutMS     int64             `json:"timeout_ms"`
	OpenedAt      *time.Time        `json:"opened_at,omitempty"`
	Labels        map[string]string `json:"labels,omitempty"`
	LateMS        *int64            `json:"late_ms,omitempty"`
	CreditMS      int64             `json:"credit_ms,omitempty"`
	OwnerSilentMS int64             `json:"owner_silent_ms,omitempty"`
	By            string            `json:"by,omitempty"`
	Why           string            `json:"why,omitempty"`
}

func viewCertificate(c session.Certificate) certificateView {
	v := certificateView{
		ID: idText(c.ID), Cause: c.Cause.String(), Owner: c.Owner, Term: c.Term, Index: c.Index,
		CreditedMS: c.Credited.Milliseconds(), EndedAt: c.EndedAt, Ephemerals: c.Left.Ephemerals,
	}
	v.LastTouchAgeMS, v.Will = knownMS(c.LastTouchAge), willText(c.Left.Will)
	s := &c.Story
	v.TimeoutMS, v.OpenedAt, v.Labels = s.Timeout.Milliseconds(), moment(s.OpenedAt), viewLabels(s.Labels)
	v.CreditMS, v.OwnerSilentMS, v.By, v.Why = s.Credit.Milliseconds(), s.Silent.Milliseconds(), s.By, s.Why
	if c.Cause == session.CauseExpired {
		v.LateMS = new(s.Late.Milliseconds())
	}
	return v
}

// willText names what became of a will, "" without one.
func willText(w tree.WillFate) string {
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

func viewLabels(labels session.Labels) map[string]string {
	if len(labels) == 0 {
		return nil
	}
	all := make(map[string]string, len(labels))
	for _, l := range labels {
		all[l.Key] = l.Value
	}
	return all
}
