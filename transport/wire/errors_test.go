package wire

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/transport/internal/porttest"
)

// TestErrorsRoundTrip holds the table of errors, [Mappings], both ways.
func TestErrorsRoundTrip(t *testing.T) {
	c := porttest.Certificate(5)
	tests := []struct {
		err    error
		is     error
		code   codes.Code
		reason holdfastv1.Reason
	}{
		{session.ErrExpired, session.ErrExpired, codes.NotFound, holdfastv1.Reason_REASON_SESSION_EXPIRED},
		{
			&session.ExpiredError{ID: 5, Certificate: &c}, session.ErrExpired, codes.NotFound,
			holdfastv1.Reason_REASON_SESSION_EXPIRED,
		},
		{&session.ExpiredError{ID: 5}, session.ErrExpired, codes.NotFound, holdfastv1.Reason_REASON_SESSION_EXPIRED},
		{
			&session.ExpiredError{ID: 5, LocalTo: 7}, session.ErrExpired, codes.NotFound,
			holdfastv1.Reason_REASON_SESSION_EXPIRED,
		},
		{
			session.ErrBadCredential, session.ErrBadCredential, codes.Unauthenticated,
			holdfastv1.Reason_REASON_BAD_CREDENTIAL,
		},
		{session.ErrMoved, session.ErrMoved, codes.FailedPrecondition, holdfastv1.Reason_REASON_SESSION_MOVED},
		{
			&session.MovedError{Attachment: 7, Instance: 1 << 63}, session.ErrMoved, codes.FailedPrecondition,
			holdfastv1.Reason_REASON_SESSION_MOVED,
		},
		{
			&session.MovedError{Attachment: 7, Local: true}, session.ErrMoved, codes.FailedPrecondition,
			holdfastv1.Reason_REASON_SESSION_MOVED,
		},
		{session.ErrClosing, session.ErrClosing, codes.Unavailable, holdfastv1.Reason_REASON_CLOSING},
		{session.ErrLagging, session.ErrLagging, codes.Unavailable, holdfastv1.Reason_REASON_LAGGING},
		{session.ErrNotLeader, session.ErrNotLeader, codes.FailedPrecondition, holdfastv1.Reason_REASON_NOT_LEADER},
		{
			&session.NotLeaderError{Leader: 3, Address: "n3:7400"}, session.ErrNotLeader, codes.FailedPrecondition,
			holdfastv1.Reason_REASON_NOT_LEADER,
		},
		{session.ErrNoLeader, session.ErrNoLeader, codes.Unavailable, holdfastv1.Reason_REASON_NO_LEADER},
		{session.ErrStopping, session.ErrStopping, codes.Unavailable, holdfastv1.Reason_REASON_STOPPING},
		{session.ErrReadOnly, session.ErrReadOnly, codes.FailedPrecondition, holdfastv1.Reason_REASON_READ_ONLY},
		{
			session.ErrOutcomeUnknown, session.ErrOutcomeUnknown, codes.Unavailable,
			holdfastv1.Reason_REASON_OUTCOME_UNKNOWN,
		},
		{session.ErrLimit, session.ErrLimit, codes.ResourceExhausted, holdfastv1.Reason_REASON_LIMIT},
		{
			&session.LimitError{Name: "n", Limit: "9 of them"}, session.ErrLimit, codes.ResourceExhausted,
			holdfastv1.Reason_REASON_LIMIT,
		},
		{
			&session.LimitError{Name: "n", Limit: "8 of them", RetryAfter: 70}, session.ErrLimit, codes.ResourceExhausted,
			holdfastv1.Reason_REASON_LIMIT,
		},
		{session.ErrIDsUsedUp, session.ErrIDsUsedUp, codes.ResourceExhausted, holdfastv1.Reason_REASON_LIMIT},
		{session.ErrInvalid, session.ErrInvalid, codes.InvalidArgument, holdfastv1.Reason_REASON_INVALID_ARGUMENT},
		{
			&session.FieldError{Field: "f", Limit: "1 to 2"}, session.ErrInvalid, codes.InvalidArgument,
			holdfastv1.Reason_REASON_INVALID_ARGUMENT,
		},
		{
			session.ErrWrongCluster, session.ErrWrongCluster, codes.FailedPrecondition,
			holdfastv1.Reason_REASON_WRONG_CLUSTER,
		},
		{context.DeadlineExceeded, context.DeadlineExceeded, codes.DeadlineExceeded, 0},
		{context.Canceled, context.Canceled, codes.Canceled, 0},
		{session.ErrClosed, context.Canceled, codes.Canceled, 0},
	}
	for _, tt := range tests {
		t.Run(fmt.Sprintf("%T %v", tt.err, tt.err), func(t *testing.T) {
			wrapped := fmt.Errorf("raft at 10.0.0.1: %w", tt.err)
			st := Status(wrapped)
			if got := status.Code(st); got != tt.code {
				t.Errorf("code %v, want %v", got, tt.code)
			}
			if got := Detail(wrapped).GetReason(); got != tt.reason {
				t.Errorf("reason %v, want %v", got, tt.reason)
			}
			if text := status.Convert(st).Message(); strings.Contains(text, "10.0.0.1") || text == internalText {
				t.Errorf("text %q", text)
			}
			for how, back := range map[string]error{
				"Domain":      Domain(st),
				"FailedError": FailedError(FailedProto(1, wrapped)),
			} {
				if !errors.Is(back, tt.is) {
					t.Errorf("%s: %v is not %v", how, back, tt.is)
				}
				if back.Error() != status.Convert(st).Message() {
					t.Errorf("%s: text %q, want %q", how, back.Error(), status.Convert(st).Message())
				}
				sameTyped(t, back, tt.err)
			}
		})
	}
}

// sameTyped fails when want is a typed error and got does not wrap an equal one.
func sameTyped(t *testing.T, got, want error) {
	t.Helper()
	var target any
	switch w := want.(type) { //nolint:errorlint // the table holds unwrapped errors
	case *session.ExpiredError:
		e := new(session.ExpiredError)
		if !errors.As(got, &e) {
			t.Errorf("%v is not a %T", got, want)
		}
		if !reflect.DeepEqual(e.Certificate, w.Certificate) {
			t.Errorf("certificate %+v, want %+v", e.Certificate, w.Certificate)
		}
		if e.LocalTo != w.LocalTo {
			t.Errorf("local to %d, want %d", e.LocalTo, w.LocalTo)
		}
		return
	case *session.NotLeaderError:
		e := new(session.NotLeaderError)
		errors.As(got, &e)
		target = e
	case *session.MovedError:
		e := new(session.MovedError)
		errors.As(got, &e)
		target = e
	case *session.LimitError:
		e := new(session.LimitError)
		errors.As(got, &e)
		target = e
	case *session.FieldError:
		e := new(session.FieldError)
		errors.As(got, &e)
		target = e
	default:
		return
	}
	if !reflect.DeepEqual(target, want) {
		t.Errorf("got %+v, want %+v", target, want)
	}
}

func TestUnknownErrorsTellNothing(t *testing.T) {
	err := errors.New("open /data/raft.db: disk on fire")
	st := status.Convert(Status(err))
	if st.Code() != codes.Internal || st.Message() != internalText || len(st.Details()) != 0 {
		t.Errorf("got %v %q %v", st.Code(), st.Message(), st.Details())
	}
	if d := Detail(err); d == nil || d.GetReason() != 0 || d.GetLimit() != "" {
		t.Errorf("detail %v, want one without a reason", d)
	}
	if f := FailedError(FailedProto(1, err)); status.Code(f) != codes.Internal {
		t.Errorf("FailedError: %v, want INTERNAL", f)
	}
}

func TestOutcomeUnknownWins(t *testing.T) {
	err := errors.Join(session.ErrNotLeader, context.DeadlineExceeded, session.ErrOutcomeUnknown)
	if got := Detail(err).GetReason(); got != holdfastv1.Reason_REASON_OUTCOME_UNKNOWN {
		t.Errorf("reason %v, want OUTCOME_UNKNOWN: a client must not believe that nothing happened", got)
	}
}

func TestDomainOfErrorsWithoutAReason(t *testing.T) {
	if Domain(nil) != nil || Status(nil) != nil || Detail(nil) != nil || Code(nil) != codes.OK {
		t.Error("nil is not nil")
	}
	plain := errors.New("x")
	if got := Domain(plain); got != plain { //nolint:errorlint // the same value, not the same sentinel
		t.Errorf("got %v, want the error itself", got)
	}
	lost := status.Error(codes.Unavailable, "connection refused")
	if got := Domain(lost); status.Code(got) != codes.Unavailable || errors.Is(got, session.ErrNoLeader) {
		t.Errorf("a lost connection became %v", got)
	}
	large := status.Error(codes.ResourceExhausted, "grpc: received message larger than max")
	if got := Domain(large); !errors.Is(got, session.ErrLimit) || status.Code(got) != codes.ResourceExhausted {
		t.Errorf("gRPC's own limit became %v", got)
	}
	for code, want := range map[codes.Code]error{
		codes.Unauthenticated: session.ErrUnauthenticated, codes.PermissionDenied: session.ErrForbidden,
	} {
		if got := Domain(status.Error(code, "says a proxy")); !errors.Is(got, want) || status.Code(got) != code ||
			got.Error() != "says a proxy" {
			t.Errorf("%v became %v", code, got)
		}
	}
	future := &holdfastv1.ErrorDetail{Reason: 99}
	if got := FromDetail(future, ""); got == nil || errors.Is(got, session.ErrInvalid) {
		t.Errorf("a reason of a later release became %v", got)
	}
	if got := FromDetail(future, "words"); got.Error() != "words" {
		t.Errorf("got %v", got)
	}
	if got := FailedError(&holdfastv1.Failed{Message: "no code"}); status.Code(got) != codes.Unknown {
		t.Errorf("a failure without a code became %v", got)
	}
	if got := FromDetail(&holdfastv1.ErrorDetail{Reason: holdfastv1.Reason_REASON_SESSION_EXPIRED},
		""); got.Error() != session.ErrExpired.Error() {
		t.Errorf("text %q, want no unknown id", got)
	}
}

// A retry time from the wire is never negative, whatever the server sends.
func TestHintFromTheWireIsNotNegative(t *testing.T) {
	for _, d := range []*durationpb.Duration{nil, durationpb.New(-time.Hour), {Seconds: -1 << 62, Nanos: 1 << 30}} {
		err := FromDetail(&holdfastv1.ErrorDetail{Reason: holdfastv1.Reason_REASON_LIMIT, Field: "n", RetryAfter: d},
			"")
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.RetryAfter != 0 {
			t.Errorf("%v: got %+v", d, limit)
		}
	}
}
