// Package wire converts the vocabulary to protocol buffers and back. It validates every field of every message before
// other code sees the message. Only this package converts domain errors to statuses and statuses to domain errors.
package wire

import (
	"math"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// Unknown is the domain's value for an unknown duration: negative.
const Unknown time.Duration = -1

// SessionProto returns s in protocol buffers.
func SessionProto(s session.Session) *holdfastv1.Session {
	p := &holdfastv1.Session{
		Id:          uint64(s.ID),
		Owner:       uint32(s.Owner),
		Attachment:  s.Attachment,
		OpenedIndex: s.OpenedIndex,
		OpenedAt:    timeProto(s.OpenedAt),
		Local:       s.Local,
	}
	p.Timeout, p.Labels = SpecProto(&s.Spec)
	return p
}

// SessionFrom returns the session in p. The error is a [session.FieldError] of "session".
func SessionFrom(p *holdfastv1.Session) (session.Session, error) {
	if p == nil {
		return session.Session{}, &session.FieldError{Field: "session", Limit: session.Missing}
	}
	owner, err := NodeFrom("session.owner", p.GetOwner())
	if err != nil {
		return session.Session{}, err
	}
	spec, err := specFrom("session", p)
	if err != nil {
		return session.Session{}, err
	}
	at, err := timeFrom("session.opened_at", p.GetOpenedAt())
	if err != nil {
		return session.Session{}, err
	}
	if p.GetId() == 0 {
		return session.Session{}, &session.FieldError{Field: "session.id", Limit: notZero}
	}
	return session.Session{
		ID:          session.ID(p.GetId()),
		Spec:        spec,
		Owner:       owner,
		Attachment:  p.GetAttachment(),
		OpenedIndex: p.GetOpenedIndex(),
		OpenedAt:    at,
		Local:       p.GetLocal(),
	}, nil
}

// TokenProto returns t in protocol buffers.
func TokenProto(t session.Token) *holdfastv1.Token {
	return &holdfastv1.Token{
		SessionId: uint64(t.ID), Credential: t.Credential[:], Attachment: t.Attachment,
		Local: t.Local,
	}
}

// TokenFrom returns the token in p. The error is a [session.FieldError] of "token".
func TokenFrom(p *holdfastv1.Token) (session.Token, error) { return tokenFrom("token", p) }

func tokenFrom(field string, p *holdfastv1.Token) (session.Token, error) {
	switch {
	case p == nil:
		return session.Token{}, &session.FieldError{Field: field, Limit: session.Missing}
	case p.GetSessionId() == 0:
		return session.Token{}, &session.FieldError{Field: field + ".session_id", Limit: notZero}
	case len(p.GetCredential()) != len(session.Credential{}):
		return session.Token{}, &session.FieldError{Field: field + ".credential", Limit: "16 bytes"}
	case p.GetAttachment() == 0:
		return session.Token{}, &session.FieldError{Field: field + ".attachment", Limit: notZero}
	}
	return session.Token{
		ID:         session.ID(p.GetSessionId()),
		Credential: session.Credential(p.GetCredential()),
		Attachment: p.GetAttachment(),
		Local:      p.GetLocal(),
	}, nil
}

// CertificateProto returns c in protocol buffers.
func CertificateProto(c session.Certificate) *holdfastv1.Certificate {
	p := &holdfastv1.Certificate{
		SessionId:    uint64(c.ID),
		Cause:        causeProto(c.Cause),
		LastTouchAge: PromiseProto(c.LastTouchAge),
		Owner:        uint32(c.Owner),
		Term:         c.Term,
		Credited:     durationpb.New(c.Credited),
		Index:        c.Index,
		EndedAt:      timeProto(c.EndedAt),
		Applied:      c.Left.Applied,
		Floor:        c.Left.Floor,
		Instance:     c.Left.Instance,
		Ephemerals:   c.Left.Ephemerals,
		Will:         holdfastv1.WillFate(c.Left.Will),
	}
	storyProto(p, &c)
	return p
}

// storyProto adds the story of c. A c from a Gone has none.
func storyProto(p *holdfastv1.Certificate, c *session.Certificate) {
	s := &c.Story
	if s.Timeout == 0 {
		return
	}
	p.Timeout, p.Labels = SpecProto(&s.Spec)
	p.OpenedAt, p.By, p.Why = timeProto(s.OpenedAt), s.By, s.Why
	if c.Cause != session.CauseExpired {
		return
	}
	p.Late, p.Credit = durationpb.New(s.Late), durationpb.New(s.Credit)
	if s.Silent > 0 {
		p.OwnerSilent = durationpb.New(s.Silent)
	}
}

// storyFrom returns the story in p. It is zero in a Gone, unless an operator ended the session.
func storyFrom(p *holdfastv1.Certificate) (session.Story, error) {
	if d, err := DurationFrom("certificate.timeout", p.GetTimeout(), NotNegative); err != nil || d == 0 {
		return session.Story{}, err
	}
	s := session.Story{By: p.GetBy(), Why: p.GetWhy()}
	var err error
	if s.Spec, err = specFrom("certificate", p); err != nil {
		return s, err
	}
	if s.OpenedAt, err = timeFrom("certificate.opened_at", p.GetOpenedAt()); err != nil {
		return s, err
	}
	if s.Late, err = DurationFrom("certificate.late", p.GetLate(), NotNegative); err != nil {
		return s, err
	}
	if s.Credit, err = DurationFrom("certificate.credit", p.GetCredit(), NotNegative); err != nil {
		return s, err
	}
	s.Silent, err = DurationFrom("certificate.owner_silent", p.GetOwnerSilent(), NotNegative)
	return s, err
}

// CertificateFrom returns the certificate in p. The error is a [session.FieldError] of "certificate".
func CertificateFrom(p *holdfastv1.Certificate) (session.Certificate, error) {
	if p.GetSessionId() == 0 {
		return session.Certificate{}, &session.FieldError{Field: "certificate.session_id", Limit: notZero}
	}
	owner, err := NodeFrom("certificate.owner", p.GetOwner())
	if err != nil {
		return session.Certificate{}, err
	}
	age, err := OptionalDurationFrom("certificate.last_touch_age", p.GetLastTouchAge())
	if err != nil {
		return session.Certificate{}, err
	}
	credited, err := DurationFrom("certificate.credited", p.GetCredited(), NotNegative)
	if err != nil {
		return session.Certificate{}, err
	}
	at, err := timeFrom("certificate.ended_at", p.GetEndedAt())
	if err != nil {
		return session.Certificate{}, err
	}
	story, err := storyFrom(p)
	if err != nil {
		return session.Certificate{}, err
	}
	return session.Certificate{
		Story:        story,
		ID:           session.ID(p.GetSessionId()),
		Cause:        CauseFrom(p.GetCause()),
		LastTouchAge: age,
		Owner:        owner,
		Term:         p.GetTerm(),
		Index:        p.GetIndex(),
		Credited:     credited,
		EndedAt:      at,
		Left: session.Left{
			Applied: p.GetApplied(), Floor: p.GetFloor(), Instance: p.GetInstance(), Ephemerals: p.GetEphemerals(),
			Will: willFrom(p.GetWill()),
		},
	}, nil
}

// GrantFrom returns the grant of an answer to an open or a resume. The error is a [session.FieldError].
func GrantFrom(s *holdfastv1.Session, t *holdfastv1.Token, safeFor *durationpb.Duration) (session.Grant, error) {
	opened, err := SessionFrom(s)
	if err != nil {
		return session.Grant{}, err
	}
	token, err := TokenFrom(t)
	if err != nil {
		return session.Grant{}, err
	}
	safe, err := OptionalDurationFrom("safe_for", safeFor)
	if err != nil {
		return session.Grant{}, err
	}
	return session.Grant{Session: opened, Token: token, SafeFor: safe}, nil
}

// RegainedFrom returns the grant of the answer to a resume. The error is a [session.FieldError].
func RegainedFrom(p *holdfastv1.Resumed) (session.Grant, error) {
	g, err := GrantFrom(p.GetSession(), p.GetToken(), p.GetSafeFor())
	switch {
	case err != nil:
		return session.Grant{}, err
	case p.GetFloor() > p.GetApplied():
		return session.Grant{}, &session.FieldError{Field: "floor", Limit: "not above applied"}
	}
	g.Applied, g.Floor = p.GetApplied(), p.GetFloor()
	return g, nil
}

// PromiseProto returns a duration that may be unknown: negative in the domain, absent on the wire.
func PromiseProto(d time.Duration) *durationpb.Duration {
	if d < 0 {
		return nil
	}
	return durationpb.New(d)
}

// PromiseFrom is the inverse of [PromiseProto]. An invalid duration is no promise: the result is negative too.
func PromiseFrom(p *durationpb.Duration) time.Duration {
	d, err := OptionalDurationFrom("safe_for", p)
	if err != nil {
		return Unknown
	}
	return d
}

func causeProto(c session.Cause) holdfastv1.Cause {
	switch c {
	case session.CauseClosed:
		return holdfastv1.Cause_CAUSE_CLOSED
	case session.CauseExpired:
		return holdfastv1.Cause_CAUSE_EXPIRED
	case session.CauseKilled:
		return holdfastv1.Cause_CAUSE_KILLED
	default:
		return holdfastv1.Cause_CAUSE_UNSPECIFIED
	}
}

// CauseFrom returns the cause in p; 0 for an unknown cause.
func CauseFrom(p holdfastv1.Cause) session.Cause {
	switch p {
	case holdfastv1.Cause_CAUSE_CLOSED:
		return session.CauseClosed
	case holdfastv1.Cause_CAUSE_EXPIRED:
		return session.CauseExpired
	case holdfastv1.Cause_CAUSE_KILLED:
		return session.CauseKilled
	case holdfastv1.Cause_CAUSE_UNSPECIFIED:
		return 0
	default:
		return 0
	}
}

// timeProto returns nil for the zero time.
func timeProto(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

func timeFrom(field string, p *timestamppb.Timestamp) (time.Time, error) {
	if p == nil {
		return time.Time{}, nil
	}
	if p.CheckValid() != nil {
		return time.Time{}, &session.FieldError{Field: field, Limit: "a valid google.protobuf.Timestamp"}
	}
	return p.AsTime(), nil
}

// NodeFrom returns a node number, which must be valid.
func NodeFrom(field string, n uint32) (session.Node, error) {
	if n > math.MaxUint8 || !session.Node(n).Valid() {
		return 0, &session.FieldError{Field: field, Limit: "1 to 254"}
	}
	return session.Node(n), nil
}

// lowest is the lower bound of a duration.
type lowest time.Duration

const (
	// NotNegative allows 0.
	NotNegative lowest = 0
	// Positive refuses 0.
	Positive lowest = 1
)

const notZero = "not 0"

func (l lowest) String() string {
	if l == Positive {
		return "positive"
	}
	return "not negative"
}

// DurationFrom returns a duration that must be valid and at least l; an absent one is 0. Durations above 292 years
// become 292 years.
func DurationFrom(field string, p *durationpb.Duration, l lowest) (time.Duration, error) {
	if p != nil && p.CheckValid() != nil {
		return 0, &session.FieldError{Field: field, Limit: "a valid google.protobuf.Duration"}
	}
	d := p.AsDuration()
	if d < time.Duration(l) {
		return 0, &session.FieldError{Field: field, Limit: l.String()}
	}
	return d, nil
}

// OptionalDurationFrom returns a negative duration for an absent one.
func OptionalDurationFrom(field string, p *durationpb.Duration) (time.Duration, error) {
	if p == nil {
		return Unknown, nil
	}
	return DurationFrom(field, p, NotNegative)
}
