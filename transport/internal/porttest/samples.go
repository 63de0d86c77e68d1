package porttest

import (
	"context"
	"errors"
	"testing"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"holdfast/session"
	"holdfast/test/fuzz/bound"
	"holdfast/tree"
)

// Sleep waits for d, or returns the error of ctx when ctx ends first.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Grant returns the grant of a session of node 1.
func Grant(id session.ID) session.Grant {
	return session.Grant{
		Session: session.Session{
			ID: id, Spec: session.Spec{Timeout: 4 * time.Second, Labels: session.Labels{{Key: "a", Value: "b"}}},
			Owner: 1, Attachment: 9,
			OpenedIndex: 3, OpenedAt: session.TimeOfMS(5),
		},
		Token:   session.Token{ID: id, Credential: session.Credential{1, 2}, Attachment: 9},
		SafeFor: 3 * time.Second,
	}
}

// Certificate returns the certificate of an expired session.
func Certificate(id session.ID) session.Certificate {
	return session.Certificate{
		ID: id, Cause: session.CauseExpired, LastTouchAge: 4 * time.Second, Owner: 2, Term: 3, Index: 4,
		Credited: time.Second, EndedAt: session.TimeOfMS(77),
		Left: session.Left{Applied: 9, Floor: 8, Instance: 1 << 63, Ephemerals: 7, Will: tree.WillRefused},
	}
}

// WantField fails unless err is a FieldError of field that names the range.
func WantField(t *testing.T, err error, field string) {
	t.Helper()
	f, ok := errors.AsType[*session.FieldError](err)
	if !ok || f.Field != field || f.Limit == "" {
		t.Errorf("got %v, want a FieldError of %q", err, field)
	}
}

// RefusedBy returns the LimitError in err, and fails unless its retry time is valid.
func RefusedBy(t *testing.T, err error) *session.LimitError {
	t.Helper()
	limit, ok := errors.AsType[*session.LimitError](err)
	if !ok {
		t.Fatalf("got %v, want a limit", err)
	}
	if limit.RetryAfter <= 0 || limit.RetryAfter > session.MaxRetryAfter {
		t.Errorf("%v asks to come back after %v", err, limit.RetryAfter)
	}
	return limit
}

// BadDuration returns a duration that protocol buffers do not allow.
func BadDuration() *durationpb.Duration { return &durationpb.Duration{Seconds: 1, Nanos: -1} }

// OfMessage returns the memory that one message may need: its forms in protocol buffers and in the domain, and an
// answer.
func OfMessage() bound.Cost { return bound.Cost{PerByte: 1 << 10, Fixed: 512 << 10} }

// StateOf returns the state of a read-only node at an index.
func StateOf(index uint64) session.NodeState {
	return session.NodeState{Node: 3, Mode: session.ModeReadOnly, Index: index}
}
