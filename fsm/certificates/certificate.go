package certificates

import (
	"encoding/binary"
	"time"

	"holdfast/fsm/codec"
	"holdfast/fsm/digest"
	logv1 "holdfast/proto/holdfast/log/v1"
	"holdfast/session"
	"holdfast/tree"
)

// Certificate is the certificate of an ended session. It never changes.
//
// A new field needs a place in Session, Canonical, Encode and Decode, all in this file. TestI6EveryFieldIsKept names a
// field that one of them leaves out.
type Certificate struct {
	ID session.ID
	// Number is the position of the certificate among all that were ever issued, from 0.
	Number     uint64
	Term       uint64
	Index      uint64
	CreditedMS uint64
	MS         uint64        // the leader's wall clock, since session.Epoch
	Clock      time.Duration // the log clock
	AgeMS      uint32        // the age of the last touch, as codec.AgeMS returns it
	Owner      session.Node
	Cause      session.Cause
	// Left is what the session left in the tree, or nil when all its fields are 0.
	Left  *session.Left
	Story *session.Story
}

// Cost returns the bytes that the certificate counts against the bound of certificates (O4 state limits).
func (c *Certificate) Cost() uint64 { return session.CertificateBytes + c.Story.Bytes() }

// Session returns the certificate as readers see it.
func (c *Certificate) Session() session.Certificate {
	certificate := session.Certificate{
		ID:           c.ID,
		Cause:        c.Cause,
		LastTouchAge: codec.AgeOf(c.AgeMS),
		Owner:        c.Owner,
		Term:         c.Term,
		Index:        c.Index,
		Credited:     codec.CreditedOf(c.CreditedMS),
		EndedAt:      session.TimeOfMS(c.MS),
		Story:        *c.Story,
	}
	if c.Left != nil {
		certificate.Left = *c.Left
	}
	return certificate
}

// Canonical returns the bytes that the digest has of the certificate. It overwrites b.
func (c *Certificate) Canonical(b []byte) []byte {
	b = append(b[:0], digest.KindCertificate)
	b = digest.AppendUint64s(b, uint64(c.ID), c.Number, c.Term, c.Index, c.CreditedMS, c.MS,
		uint64(c.Clock.Milliseconds()))
	b = binary.BigEndian.AppendUint32(b, c.AgeMS)
	b = append(b, byte(c.Owner), byte(c.Cause))
	if left := c.Left; left != nil {
		b = digest.AppendUint64s(append(b, byte(left.Will)), left.Applied, left.Floor, left.Instance, left.Ephemerals)
	}
	return canonicalStory(append(b, digest.KindStory), c.Story)
}

func canonicalStory(b []byte, s *session.Story) []byte {
	b = digest.AppendUint64s(b, uint64(s.Timeout.Milliseconds()), session.MS(s.OpenedAt), uint64(codec.SpanMS(s.Late)),
		uint64(codec.SpanMS(s.Credit)), uint64(codec.SpanMS(s.Silent)))
	for _, text := range []string{s.By, s.Why} {
		b = append(binary.BigEndian.AppendUint16(b, uint16(len(text))), text...)
	}
	return digest.AppendLabels(b, s.Labels)
}

// Encode returns the record of the certificate in a snapshot.
func (c *Certificate) Encode() *logv1.Certificate {
	m := &logv1.Certificate{
		Number: c.Number, Id: uint64(c.ID), Cause: logv1.Cause(c.Cause), LastTouchAgeMsPlus_1: c.AgeMS,
		Owner: uint32(c.Owner), Term: c.Term, CreditedMs: c.CreditedMS, Index: c.Index, Ms: c.MS, ClockMs: uint64(c.Clock.Milliseconds()),
	}
	if left := c.Left; left != nil {
		m.Instance, m.Applied, m.Floor = left.Instance, left.Applied, left.Floor
		m.Ephemerals, m.Will = left.Ephemerals, logv1.WillFate(left.Will)
	}
	story := c.Story
	m.TimeoutMs, m.Labels = codec.SpecProto(&story.Spec)
	m.OpenedMs, m.By, m.Why = session.MS(story.OpenedAt), story.By, story.Why
	m.LateMs, m.CreditMs, m.SilentMs = codec.SpanMS(story.Late), codec.SpanMS(story.Credit), codec.SpanMS(story.Silent)
	return m
}

// Decode is the inverse of [Certificate.Encode]. It checks the ranges of the fields.
func Decode(m *logv1.Certificate) (*Certificate, error) {
	owner, err := codec.NodeFrom("owner", m.GetOwner())
	if err != nil {
		return nil, err
	}
	cause, err := codec.CauseFrom(m.GetCause())
	if err != nil {
		return nil, err
	}
	clock, err := codec.ClockFrom(m.GetClockMs())
	if err != nil {
		return nil, err
	}
	left, err := leftFrom(m)
	if err != nil {
		return nil, err
	}
	story, err := storyFrom(m)
	return &Certificate{
		ID: session.ID(m.GetId()), Number: m.GetNumber(), Term: m.GetTerm(), Index: m.GetIndex(),
		CreditedMS: m.GetCreditedMs(), MS: m.GetMs(), Clock: clock, AgeMS: m.GetLastTouchAgeMsPlus_1(),
		Owner: owner, Cause: cause, Left: left, Story: story,
	}, err
}

// storyFrom decodes the story of a certificate.
func storyFrom(m *logv1.Certificate) (*session.Story, error) {
	spec, err := codec.SpecFrom(m)
	switch {
	case err != nil:
		return nil, err
	case m.GetTimeoutMs() == 0 || codec.DurationOf(m.GetTimeoutMs()) > session.MaxTimeout:
		return nil, codec.OutOfRange("timeout_ms", "1 ms to "+session.MaxTimeout.String())
	case m.GetOpenedMs() > session.MaxMS:
		return nil, codec.OutOfRange("opened_ms", codec.MSLimit)
	}
	if err := codec.CheckOperator(m.GetBy(), m.GetWhy()); err != nil {
		return nil, err
	}
	return &session.Story{
		Spec: spec, OpenedAt: session.TimeOfMS(m.GetOpenedMs()),
		Late: codec.DurationOf(m.GetLateMs()), Credit: codec.DurationOf(m.GetCreditMs()),
		Silent: codec.DurationOf(m.GetSilentMs()), By: m.GetBy(), Why: m.GetWhy(),
	}, nil
}

// leftFrom decodes the certificate's account of the tree. It returns nil when all fields are 0.
func leftFrom(m *logv1.Certificate) (*session.Left, error) {
	left := session.Left{
		Instance: m.GetInstance(), Applied: m.GetApplied(), Floor: m.GetFloor(), Ephemerals: m.GetEphemerals(),
		Will: tree.WillFate(m.GetWill()),
	}
	switch {
	case left == session.Left{}:
		return nil, nil //nolint:nilnil // there is nothing
	case left.Floor > left.Applied:
		return nil, codec.OutOfRange("floor", "at most applied")
	case m.GetWill() < 0 || left.Will > tree.WillDropped:
		return nil, codec.OutOfRange("will", "a fate that this program knows")
	}
	return &left, nil
}
