package wire

import (
	"errors"

	"google.golang.org/grpc/codes"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// refusals is the table of the tree's refusals (W2 the state decides), in the order of their codes.
func refusals() [11]mapping {
	return [...]mapping{
		tree.NoNode:          {nil, codes.NotFound, holdfastv1.Reason_REASON_NO_NODE},
		tree.NoParent:        {nil, codes.FailedPrecondition, holdfastv1.Reason_REASON_NO_PARENT},
		tree.NodeExists:      {nil, codes.AlreadyExists, holdfastv1.Reason_REASON_NODE_EXISTS},
		tree.NotEmpty:        {nil, codes.FailedPrecondition, holdfastv1.Reason_REASON_NOT_EMPTY},
		tree.BadVersion:      {nil, codes.FailedPrecondition, holdfastv1.Reason_REASON_BAD_VERSION},
		tree.EphemeralParent: {nil, codes.FailedPrecondition, holdfastv1.Reason_REASON_EPHEMERAL_PARENT},
		tree.NoPermission:    {nil, codes.PermissionDenied, holdfastv1.Reason_REASON_NO_PERMISSION},
		tree.OverQuota:       {nil, codes.ResourceExhausted, holdfastv1.Reason_REASON_QUOTA},
		tree.OverLimit:       {nil, codes.ResourceExhausted, holdfastv1.Reason_REASON_LIMIT},
		tree.Reserved:        {nil, codes.PermissionDenied, holdfastv1.Reason_REASON_RESERVED},
	}
}

// classifyTree returns the code and reason of an error of the tree; false for another error.
func classifyTree(err error) (codes.Code, holdfastv1.Reason, bool) {
	if refused, ok := errors.AsType[*tree.RefusedError](err); ok {
		if table := refusals(); refused.Code >= tree.NoNode && int(refused.Code) < len(table) {
			return table[refused.Code].code, table[refused.Code].reason, true
		}
		return codes.FailedPrecondition, holdfastv1.Reason_REASON_UNSPECIFIED, true
	}
	if _, ok := errors.AsType[*tree.GapError](err); ok {
		return codes.FailedPrecondition, holdfastv1.Reason_REASON_GAP, true
	}
	if _, ok := errors.AsType[*tree.WindowError](err); ok {
		return codes.ResourceExhausted, holdfastv1.Reason_REASON_WINDOW, true
	}
	switch {
	case errors.Is(err, session.ErrLocalSession):
		return codes.FailedPrecondition, holdfastv1.Reason_REASON_LOCAL_SESSION, true
	case errors.Is(err, session.ErrNoInstance):
		return codes.FailedPrecondition, holdfastv1.Reason_REASON_NO_INSTANCE, true
	}
	return 0, 0, false
}

// treeText returns the text of an error of the tree; "" for another error.
func treeText(err error) string {
	if refused, ok := errors.AsType[*tree.RefusedError](err); ok {
		return refused.Error()
	}
	if gap, ok := errors.AsType[*tree.GapError](err); ok {
		return gap.Error()
	}
	if window, ok := errors.AsType[*tree.WindowError](err); ok {
		return window.Error()
	}
	for _, known := range []error{session.ErrLocalSession, session.ErrNoInstance} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return ""
}

// addTree adds the fields of a tree's error to its detail.
func addTree(d *holdfastv1.ErrorDetail, err error) {
	if refused, ok := errors.AsType[*tree.RefusedError](err); ok {
		d.Refusal = &holdfastv1.Refusal{
			Path: sendable(refused.Path), Operation: refused.Verb, Detail: sendable(refused.Detail),
		}
		if write, is := errors.AsType[*tree.WriteError](err); is {
			d.Refusal.At, d.Refusal.Stamp = int32(write.At), uint64(write.Stamp)
		}
		return
	}
	if gap, ok := errors.AsType[*tree.GapError](err); ok {
		d.ExpectedNumber = gap.Expected
	}
	if window, ok := errors.AsType[*tree.WindowError](err); ok {
		d.Limit = window.Limit
	}
}

// refusedFrom returns the tree's refusal in a detail; false for none.
func refusedFrom(d *holdfastv1.ErrorDetail) (*tree.RefusedError, bool) {
	p := d.GetRefusal()
	for code, m := range refusals() {
		if code != 0 && m.reason == d.GetReason() && p != nil {
			return &tree.RefusedError{
				Code: tree.Code(code), Verb: p.GetOperation(), Path: p.GetPath(), Detail: p.GetDetail(),
			}, true
		}
	}
	return nil, false
}

// typedTree returns the tree's error in a detail; nil for none.
func typedTree(d *holdfastv1.ErrorDetail) error {
	switch d.GetReason() { //nolint:exhaustive // other reasons are refusals, or not the tree's
	case holdfastv1.Reason_REASON_GAP:
		return &tree.GapError{Expected: d.GetExpectedNumber()}
	case holdfastv1.Reason_REASON_WINDOW:
		return &tree.WindowError{Limit: d.GetLimit()}
	case holdfastv1.Reason_REASON_LOCAL_SESSION:
		return session.ErrLocalSession
	case holdfastv1.Reason_REASON_NO_INSTANCE:
		return session.ErrNoInstance
	}
	refused, ok := refusedFrom(d)
	switch {
	case !ok:
		return nil
	case d.GetRefusal().GetStamp() == 0:
		return refused
	}
	return &tree.WriteError{
		Refused: refused, At: int(d.GetRefusal().GetAt()), Stamp: tree.Stamp(d.GetRefusal().GetStamp()),
	}
}
