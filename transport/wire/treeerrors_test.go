package wire

import (
	"errors"
	"fmt"
	"reflect"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// TestTreeErrorsRoundTrip holds the errors of the tree, both ways, as statuses and as details.
func TestTreeErrorsRoundTrip(t *testing.T) {
	refused := func(code tree.Code) *tree.RefusedError {
		return &tree.RefusedError{Code: code, Verb: "create", Path: "/a", Detail: "some detail"}
	}
	for _, one := range []struct {
		err    error
		code   codes.Code
		reason holdfastv1.Reason
	}{
		{refused(tree.NoNode), codes.NotFound, holdfastv1.Reason_REASON_NO_NODE},
		{refused(tree.NoParent), codes.FailedPrecondition, holdfastv1.Reason_REASON_NO_PARENT},
		{refused(tree.NodeExists), codes.AlreadyExists, holdfastv1.Reason_REASON_NODE_EXISTS},
		{refused(tree.NotEmpty), codes.FailedPrecondition, holdfastv1.Reason_REASON_NOT_EMPTY},
		{refused(tree.BadVersion), codes.FailedPrecondition, holdfastv1.Reason_REASON_BAD_VERSION},
		{refused(tree.EphemeralParent), codes.FailedPrecondition, holdfastv1.Reason_REASON_EPHEMERAL_PARENT},
		{refused(tree.NoPermission), codes.PermissionDenied, holdfastv1.Reason_REASON_NO_PERMISSION},
		{refused(tree.OverQuota), codes.ResourceExhausted, holdfastv1.Reason_REASON_QUOTA},
		{refused(tree.OverLimit), codes.ResourceExhausted, holdfastv1.Reason_REASON_LIMIT},
		{refused(tree.Reserved), codes.PermissionDenied, holdfastv1.Reason_REASON_RESERVED},
		{
			&tree.WriteError{Refused: refused(tree.OverLimit), At: -1, Stamp: 9 << 16}, codes.ResourceExhausted,
			holdfastv1.Reason_REASON_LIMIT,
		},
		{&tree.GapError{Expected: 1<<64 - 1}, codes.FailedPrecondition, holdfastv1.Reason_REASON_GAP},
		{&tree.WindowError{Limit: "256 results"}, codes.ResourceExhausted, holdfastv1.Reason_REASON_WINDOW},
		{session.ErrLocalSession, codes.FailedPrecondition, holdfastv1.Reason_REASON_LOCAL_SESSION},
		{session.ErrNoInstance, codes.FailedPrecondition, holdfastv1.Reason_REASON_NO_INSTANCE},
	} {
		wrapped := fmt.Errorf("create a node: %w", one.err)
		st := Status(wrapped)
		if status.Code(st) != one.code || Detail(wrapped).GetReason() != one.reason || !Known(one.reason) {
			t.Errorf("%v became %v with %v", one.err, st, Detail(wrapped))
		}
		for _, got := range []error{
			Domain(st), FromDetail(Detail(wrapped), ""), FailedError(overWire(t, FailedProto(1, wrapped))),
		} {
			if got.Error() != one.err.Error() || !isSame(got, one.err) {
				t.Errorf("got %#v (%v), want %v", got, got, one.err)
			}
		}
	}
}

// isSame reports whether got is want, or wraps it.
func isSame(got error, want any) bool {
	for ; got != nil; got = errors.Unwrap(got) {
		if reflect.DeepEqual(any(got), want) {
			return true
		}
	}
	return false
}

// Every reason that a client may get stands for an error.
func TestEveryReasonIsKnown(t *testing.T) {
	for number, name := range holdfastv1.Reason_name {
		if reason := holdfastv1.Reason(number); Known(reason) == (number == 0) {
			t.Errorf("%s is known: %v", name, Known(reason))
		}
	}
}

// What may have happened comes first: an unknown outcome stays one, whatever else the error says.
func TestUnknownOutcomeComesFirst(t *testing.T) {
	err := errors.Join(&tree.GapError{Expected: 7}, session.ErrOutcomeUnknown)
	if d := Detail(err); d.GetReason() != holdfastv1.Reason_REASON_OUTCOME_UNKNOWN {
		t.Errorf("got %v", d)
	}
}
