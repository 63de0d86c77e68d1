package wire

import (
	"reflect"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

func TestVocabularyRoundTrip(t *testing.T) {
	g := porttest.Grant(7)
	got, err := GrantFrom(SessionProto(g.Session), TokenProto(g.Token), PromiseProto(g.SafeFor))
	if err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("grant %+v, %v, want %+v", got, err, g)
	}
	g.Session.Local, g.Token.Local = true, true
	got, err = GrantFrom(SessionProto(g.Session), TokenProto(g.Token), PromiseProto(g.SafeFor))
	if err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("grant of a local session %+v, %v, want %+v", got, err, g)
	}
	g.SafeFor, g.Session.Labels, g.Session.OpenedAt = Unknown, nil, time.Time{}
	got, err = GrantFrom(SessionProto(g.Session), TokenProto(g.Token), PromiseProto(-5))
	if err != nil || !reflect.DeepEqual(got, g) {
		t.Errorf("bare grant %+v, %v, want %+v", got, err, g)
	}
	for _, c := range []session.Certificate{
		porttest.Certificate(9),
		{ID: 1, Owner: 254, Cause: session.CauseClosed, LastTouchAge: Unknown},
		{ID: 1, Owner: 1},
	} {
		if got, err := CertificateFrom(CertificateProto(c)); err != nil || !reflect.DeepEqual(got, c) {
			t.Errorf("certificate %+v, %v, want %+v", got, err, c)
		}
	}
	if got := PromiseFrom(PromiseProto(0)); got != 0 {
		t.Errorf("an absent promise became %v", got)
	}
	for _, p := range []*durationpb.Duration{nil, {Seconds: -1}, {Nanos: 1e9}} {
		if got := PromiseFrom(p); got >= 0 {
			t.Errorf("promise %v became %v", p, got)
		}
	}
}

func TestFieldsOutOfRange(t *testing.T) {
	badTime, badDuration := &timestamppb.Timestamp{Nanos: -1}, &durationpb.Duration{Seconds: 1, Nanos: -1}
	sessions := map[string]func(*holdfastv1.Session){
		"session.id":        func(p *holdfastv1.Session) { p.Id = 0 },
		"session.owner":     func(p *holdfastv1.Session) { p.Owner = 255 },
		"session.timeout":   func(p *holdfastv1.Session) { p.Timeout = nil },
		"session.labels":    func(p *holdfastv1.Session) { p.Labels = map[string]string{"": ""} },
		"session.opened_at": func(p *holdfastv1.Session) { p.OpenedAt = badTime },
	}
	for field, spoil := range sessions {
		p := SessionProto(porttest.Grant(7).Session)
		spoil(p)
		_, err := SessionFrom(p)
		porttest.WantField(t, err, field)
	}
	_, err := SessionFrom(nil)
	porttest.WantField(t, err, "session")
	certificates := map[string]func(*holdfastv1.Certificate){
		"certificate.session_id":     func(p *holdfastv1.Certificate) { p.SessionId = 0 },
		"certificate.owner":          func(p *holdfastv1.Certificate) { p.Owner = 0 },
		"certificate.last_touch_age": func(p *holdfastv1.Certificate) { p.LastTouchAge = badDuration },
		"certificate.credited": func(p *holdfastv1.Certificate) {
			p.Credited = &durationpb.Duration{Seconds: -1}
		},
		"certificate.ended_at": func(p *holdfastv1.Certificate) { p.EndedAt = badTime },
	}
	for field, spoil := range certificates {
		p := CertificateProto(porttest.Certificate(7))
		spoil(p)
		_, err = CertificateFrom(p)
		porttest.WantField(t, err, field)
	}
	g := porttest.Grant(7)
	_, err = GrantFrom(nil, TokenProto(g.Token), nil)
	porttest.WantField(t, err, "session")
	_, err = GrantFrom(SessionProto(g.Session), nil, nil)
	porttest.WantField(t, err, "token")
	_, err = GrantFrom(SessionProto(g.Session), TokenProto(g.Token), badDuration)
	porttest.WantField(t, err, "safe_for")
}

// An answer to a resume also says which writes were applied (X4 a new instance starts anew).
func TestRegained(t *testing.T) {
	want := porttest.Grant(7)
	want.Applied, want.Floor = 1<<64-1, 9
	p := &holdfastv1.Resumed{
		Session: SessionProto(want.Session), Token: TokenProto(want.Token), SafeFor: PromiseProto(want.SafeFor),
		Applied: want.Applied, Floor: want.Floor,
	}
	got, err := RegainedFrom(overWire(t, p))
	wantEqual(t, got, err, want)
	p.Applied = 8
	_, err = RegainedFrom(p)
	porttest.WantField(t, err, "floor")
	_, err = RegainedFrom(&holdfastv1.Resumed{})
	porttest.WantField(t, err, "session")
}
