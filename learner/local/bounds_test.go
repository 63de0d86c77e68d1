package local

import (
	"errors"
	"strings"
	"testing"
	"time"

	"holdfast/session"
)

func TestLocalCertificatesAreBounded(t *testing.T) {
	l := tableWith(firstLocal, session.MaxClaim)
	request := func(n int) session.RequestID { return session.RequestID{byte(n), byte(n >> 8)} }
	const more = 5
	for n := range rememberedEnds + more {
		s, err := l.Open(
			session.OpenRequest{RequestID: request(n), Spec: session.Spec{Timeout: timeout}}, &conn{}, 0,
		)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Close(s, 0, time.Time{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(l.ended) != rememberedEnds || len(l.requests) != rememberedEnds || len(l.ring) != rememberedEnds ||
		len(l.order) > 1024+1 {
		t.Errorf("keeps %d ends, %d requests, %d of the order", len(l.ended), len(l.requests), len(l.order))
	}
	for n, want := range map[session.ID]bool{0: false, more - 1: false, more: true, rememberedEnds +
		more - 1: true} {
		if _, got := l.Certificate(firstLocal + n); got != want {
			t.Errorf("certificate %d is there: %v, want %v", n, got, want)
		}
	}
}

// The node forgets the oldest upgraded sessions when there are more than it remembers.
func TestUpgradedRequestsAreBounded(t *testing.T) {
	l := tableWith(firstLocal, session.MaxClaim)
	const more = 5
	c := &conn{}
	open := func(n int) (*Session, error) {
		return l.Open(
			session.OpenRequest{
				RequestID: session.RequestID{byte(n), byte(n >> 8)},
				Spec:      session.Spec{Timeout: timeout},
			}, c, 0,
		)
	}
	for n := range rememberedEnds + more {
		s, err := open(n)
		if err != nil {
			t.Fatal(err)
		}
		if !l.HandOver(s.facts.ID, c, session.ErrMoved, func(HandedOver) {}) {
			t.Fatal("not handed over")
		}
	}
	if len(l.requests) != rememberedEnds || len(l.ring) != rememberedEnds || len(l.ended) != 0 {
		t.Errorf("keeps %d requests, %d past sessions, %d ends", len(l.requests), len(l.ring), len(l.ended))
	}
	_, err := open(more)
	if global, ok := errors.AsType[*GlobalError](err); !ok || global.ID != firstLocal+more {
		t.Errorf("the repeat of a remembered open: %v, want a GlobalError", err)
	}
}

// O4: an open for which there are no bytes left is refused.
func TestO4Bytes(t *testing.T) {
	l := tableWith(firstLocal, 1)
	l.usage.Capacity.MaxBytes = session.SessionBytes
	l.usage.Bytes = 1
	_, err := l.Open(session.OpenRequest{Spec: session.Spec{Timeout: timeout}}, &conn{}, 0)
	if !errors.Is(err, session.ErrLimit) || !strings.Contains(err.Error(), "max_state_bytes") ||
		!strings.Contains(err.Error(), "for local sessions of this node") {
		t.Errorf("without bytes left: %v, want a LimitError of max_state_bytes", err)
	}
}
