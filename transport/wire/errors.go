package wire

import (
	"context"
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// mapping is how an error of the domain goes over the wire. error.proto says what a client does for each reason.
type mapping struct {
	Sentinel error
	code     codes.Code
	reason   holdfastv1.Reason
}

// Mappings returns the table of errors. An error with two sentinels is matched from the top. ErrOutcomeUnknown is
// first: the only harmful mistake is to hide that a request may have taken effect.
func Mappings() [20]mapping {
	return [...]mapping{
		{session.ErrOutcomeUnknown, codes.Unavailable, holdfastv1.Reason_REASON_OUTCOME_UNKNOWN},
		{session.ErrExpired, codes.NotFound, holdfastv1.Reason_REASON_SESSION_EXPIRED},
		{session.ErrBadCredential, codes.Unauthenticated, holdfastv1.Reason_REASON_BAD_CREDENTIAL},
		{session.ErrMoved, codes.FailedPrecondition, holdfastv1.Reason_REASON_SESSION_MOVED},
		{session.ErrClosing, codes.Unavailable, holdfastv1.Reason_REASON_CLOSING},
		{session.ErrLagging, codes.Unavailable, holdfastv1.Reason_REASON_LAGGING},
		{session.ErrNotLeader, codes.FailedPrecondition, holdfastv1.Reason_REASON_NOT_LEADER},
		{session.ErrNoLeader, codes.Unavailable, holdfastv1.Reason_REASON_NO_LEADER},
		{session.ErrStopping, codes.Unavailable, holdfastv1.Reason_REASON_STOPPING},
		{session.ErrReadOnly, codes.FailedPrecondition, holdfastv1.Reason_REASON_READ_ONLY},
		{session.ErrIDsUsedUp, codes.ResourceExhausted, holdfastv1.Reason_REASON_LIMIT},
		{session.ErrLimit, codes.ResourceExhausted, holdfastv1.Reason_REASON_LIMIT},
		{session.ErrInvalid, codes.InvalidArgument, holdfastv1.Reason_REASON_INVALID_ARGUMENT},
		{session.ErrWrongCluster, codes.FailedPrecondition, holdfastv1.Reason_REASON_WRONG_CLUSTER},
		{session.ErrUnauthenticated, codes.Unauthenticated, holdfastv1.Reason_REASON_UNAUTHENTICATED},
		{session.ErrForbidden, codes.PermissionDenied, holdfastv1.Reason_REASON_PERMISSION_DENIED},
		{session.ErrDraining, codes.Unavailable, holdfastv1.Reason_REASON_DRAINING},
		{session.ErrMemberRefused, codes.FailedPrecondition, holdfastv1.Reason_REASON_MEMBER_REFUSED},
		{session.ErrDrainRefused, codes.FailedPrecondition, holdfastv1.Reason_REASON_DRAIN_REFUSED},
		{session.ErrNoConnection, codes.NotFound, holdfastv1.Reason_REASON_NO_CONNECTION},
	}
}

// internalText is the text of an error outside the domain for clients: the error's own text may not be meant for them.
const internalText = "internal error: the node's log says more"

// idsLimit is the name of the limit in ErrIDsUsedUp.
const idsLimit = "session_ids_of_node"

// classify returns the code and reason of err. An error outside the domain has no reason.
func classify(err error) (codes.Code, holdfastv1.Reason) {
	for _, m := range Mappings() {
		if errors.Is(err, m.Sentinel) {
			return m.code, m.reason
		}
	}
	if code, reason, ok := classifyTree(err); ok {
		return code, reason
	}
	switch {
	case err == nil:
		return codes.OK, holdfastv1.Reason_REASON_UNSPECIFIED
	case errors.Is(err, context.DeadlineExceeded):
		return codes.DeadlineExceeded, holdfastv1.Reason_REASON_UNSPECIFIED
	case errors.Is(err, context.Canceled), errors.Is(err, session.ErrClosed):
		return codes.Canceled, holdfastv1.Reason_REASON_UNSPECIFIED
	default:
		return codes.Internal, holdfastv1.Reason_REASON_UNSPECIFIED
	}
}

// Code returns the status code of a domain error: OK for nil, DEADLINE_EXCEEDED or CANCELED for a context's error,
// INTERNAL for an error outside the domain.
func Code(err error) codes.Code {
	code, _ := classify(err)
	return code
}

// Status returns the gRPC status error of a domain error, with an ErrorDetail; nil for nil. The status has only the
// domain error's own text: texts that wrap it stay in the node, and an error outside the domain shows nothing.
func Status(err error) error {
	if err == nil {
		return nil
	}
	st := status.New(Code(err), Text(err))
	if d := Detail(err); d.GetReason() != holdfastv1.Reason_REASON_UNSPECIFIED {
		// WithDetails fails only on an OK status and on a detail that cannot be marshaled.
		if with, detailErr := st.WithDetails(d); detailErr == nil {
			st = with
		}
	}
	return st.Err()
}

// Text returns the text of err for a client: the domain error's own text, without texts that wrap it.
func Text(err error) string { return sendable(domainText(err)) }

// sendable returns text as valid UTF-8, because messages carry only that. An error may quote other bytes.
func sendable(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }

func domainText(err error) string {
	var (
		expired *session.ExpiredError
		leader  *session.NotLeaderError
		limit   *session.LimitError
		field   *session.FieldError
		access  *session.AccessError
		refused *session.DrainRefusedError
		member  *session.MemberRefusedError
	)
	switch {
	case errors.As(err, &member):
		return member.Error()
	case errors.As(err, &refused):
		return refused.Error()
	case errors.As(err, &access):
		return access.Error()
	case errors.As(err, &expired) && (expired.ID != 0 || expired.Certificate != nil):
		return expired.Error()
	case errors.As(err, &leader):
		return leader.Error()
	case errors.Is(err, session.ErrIDsUsedUp):
		return session.ErrIDsUsedUp.Error()
	case errors.As(err, &limit):
		return limit.Error()
	case errors.As(err, &field):
		return field.Error()
	default:
		return plainText(err)
	}
}

func plainText(err error) string {
	for _, m := range Mappings() {
		if errors.Is(err, m.Sentinel) {
			return m.Sentinel.Error()
		}
	}
	if text := treeText(err); text != "" {
		return text
	}
	for _, known := range []error{context.DeadlineExceeded, context.Canceled, session.ErrClosed} {
		if errors.Is(err, known) {
			return known.Error()
		}
	}
	return internalText
}

// Detail returns the ErrorDetail of err; nil for nil. An error outside the domain has a detail without a reason, so
// that a message that carries only the detail still shows that there was an error.
func Detail(err error) *holdfastv1.ErrorDetail {
	if err == nil {
		return nil
	}
	_, reason := classify(err)
	d := &holdfastv1.ErrorDetail{Reason: reason}
	var (
		expired *session.ExpiredError
		moved   *session.MovedError
		leader  *session.NotLeaderError
		limit   *session.LimitError
		field   *session.FieldError
	)
	switch {
	case reason == holdfastv1.Reason_REASON_SESSION_MOVED && errors.As(err, &moved):
		d.Attachment, d.Local, d.Instance = moved.Attachment, moved.Local, moved.Instance
	case reason == holdfastv1.Reason_REASON_SESSION_EXPIRED && errors.As(err, &expired) && expired.Certificate != nil:
		d.Certificate = CertificateProto(*expired.Certificate)
	case reason == holdfastv1.Reason_REASON_SESSION_EXPIRED && errors.As(err, &expired):
		d.LocalTo = uint32(expired.LocalTo)
	case reason == holdfastv1.Reason_REASON_NOT_LEADER && errors.As(err, &leader):
		d.Leader, d.LeaderAddress = uint32(leader.Leader), leader.Address
	case errors.Is(err, session.ErrIDsUsedUp):
		d.Field, d.Limit = idsLimit, session.ErrIDsUsedUp.Error()
	case reason == holdfastv1.Reason_REASON_LIMIT && errors.As(err, &limit):
		d.Field, d.Limit = limit.Name, limit.Limit
		if limit.RetryAfter > 0 {
			d.RetryAfter = durationpb.New(limit.RetryAfter)
		}
	case reason == holdfastv1.Reason_REASON_INVALID_ARGUMENT && errors.As(err, &field):
		d.Field, d.Limit = field.Field, field.Limit
	}
	if access, ok := errors.AsType[*session.AccessError](err); ok {
		d.Access = &holdfastv1.Access{
			NeedsRoles: access.Needs, HasRoles: access.Has, Caller: access.Who, Shown: access.Shown,
		}
	}
	addDrain(d, err)
	addTree(d, err)
	d.Field, d.Limit = sendable(d.GetField()), sendable(d.GetLimit())
	return d
}

// Domain returns the domain error for an error of a gRPC call. errors.Is finds session's sentinels and the context's
// errors, errors.As the typed errors. An error without a reason, such as a lost connection, is returned unchanged, so
// that status.Code works on it. UNAVAILABLE then leaves open whether the call took effect.
func Domain(err error) error {
	st, ok := status.FromError(err)
	if err == nil || !ok {
		return err
	}
	for _, d := range st.Details() {
		if detail, is := d.(*holdfastv1.ErrorDetail); is && Known(detail.GetReason()) {
			return FromDetail(detail, st.Message())
		}
	}
	switch st.Code() { //nolint:exhaustive // the other codes add nothing to the status
	case codes.DeadlineExceeded:
		return &remoteError{message: st.Message(), err: errors.Join(context.DeadlineExceeded, err)}
	case codes.Canceled:
		return &remoteError{message: st.Message(), err: errors.Join(context.Canceled, err)}
	case codes.Unauthenticated: // such as an answer of a proxy, or an error of the client's token source
		return &remoteError{message: st.Message(), err: errors.Join(session.ErrUnauthenticated, err)}
	case codes.PermissionDenied:
		return &remoteError{message: st.Message(), err: errors.Join(session.ErrForbidden, err)}
	case codes.ResourceExhausted:
		return &remoteError{
			message: st.Message(), err: errors.Join(&session.LimitError{Name: "message", Limit: st.Message()}, err),
		}
	default:
		return err
	}
}

// FromDetail returns the domain error for a detail. message is its text, if not empty. A nil detail, or one with an
// unknown reason, gives an error without a sentinel.
func FromDetail(d *holdfastv1.ErrorDetail, message string) error {
	err := typed(d)
	switch {
	case err == nil && message == "":
		return errors.New("refused without a reason that this version knows")
	case err == nil:
		return errors.New(message)
	case message == "" && Text(err) == err.Error(), message == err.Error():
		return err
	case message == "":
		return &remoteError{message: Text(err), err: err}
	default:
		return &remoteError{message: message, err: err}
	}
}

// typed returns the error for d's reason; nil for an unknown reason. It omits a certificate that is out of range.
func typed(d *holdfastv1.ErrorDetail) error {
	if err := typedTree(d); err != nil {
		return err
	}
	switch reason := d.GetReason(); {
	case reason == holdfastv1.Reason_REASON_SESSION_EXPIRED:
		e := &session.ExpiredError{}
		if c, err := CertificateFrom(d.GetCertificate()); err == nil {
			e.ID, e.Certificate = c.ID, &c
		}
		if n, err := NodeFrom("local_to", d.GetLocalTo()); err == nil && e.Certificate == nil {
			e.LocalTo = n
		}
		return e
	case reason == holdfastv1.Reason_REASON_SESSION_MOVED && d.GetAttachment() != 0:
		return &session.MovedError{Attachment: d.GetAttachment(), Local: d.GetLocal(), Instance: d.GetInstance()}
	case reason == holdfastv1.Reason_REASON_NOT_LEADER:
		e := &session.NotLeaderError{}
		if n, err := NodeFrom("leader", d.GetLeader()); err == nil {
			e.Leader, e.Address = n, d.GetLeaderAddress()
		}
		return e
	case reason == holdfastv1.Reason_REASON_LIMIT && d.GetField() == idsLimit:
		return session.ErrIDsUsedUp
	case reason == holdfastv1.Reason_REASON_LIMIT:
		return &session.LimitError{
			Name: d.GetField(), Limit: d.GetLimit(), RetryAfter: max(d.GetRetryAfter().AsDuration(), 0),
		}
	case reason == holdfastv1.Reason_REASON_INVALID_ARGUMENT:
		return &session.FieldError{Field: d.GetField(), Limit: d.GetLimit()}
	case reason == holdfastv1.Reason_REASON_DRAINING:
		return &session.DrainingError{Try: tryFrom(d.GetTry())}
	case reason == holdfastv1.Reason_REASON_DRAIN_REFUSED:
		return &session.DrainRefusedError{Why: d.GetLimit()}
	case reason == holdfastv1.Reason_REASON_MEMBER_REFUSED:
		return &session.MemberRefusedError{
			Node: session.Node(min(d.GetNode(), 255)), Cause: session.MemberCause(d.GetField()), Why: d.GetLimit(),
		}
	case reason == holdfastv1.Reason_REASON_UNAUTHENTICATED:
		return &session.AccessError{Needs: d.GetAccess().GetNeedsRoles(), Shown: d.GetAccess().GetShown()}
	case reason == holdfastv1.Reason_REASON_PERMISSION_DENIED && d.GetAccess().GetCaller() != "":
		a := d.GetAccess()
		return &session.AccessError{Who: a.GetCaller(), Has: a.GetHasRoles(), Needs: a.GetNeedsRoles()}
	default:
		return sentinel(reason)
	}
}

// sentinel returns the sentinel of a reason; nil for an unknown reason.
func sentinel(reason holdfastv1.Reason) error {
	for _, m := range Mappings() {
		if m.reason == reason {
			return m.Sentinel
		}
	}
	return nil
}

// Known reports whether a reason is that of a domain error.
func Known(reason holdfastv1.Reason) bool {
	return reason != 0 && typed(&holdfastv1.ErrorDetail{Reason: reason, Refusal: &holdfastv1.Refusal{}}) != nil
}

// FailedProto returns the answer to a failed request of a Connect stream.
func FailedProto(seq uint64, err error) *holdfastv1.Failed {
	return &holdfastv1.Failed{Seq: seq, Code: int32(Code(err)), Message: Text(err), Error: Detail(err)}
}

// FailedError returns the domain error of a Failed, as [Domain] does for a status.
func FailedError(f *holdfastv1.Failed) error {
	if Known(f.GetError().GetReason()) {
		return FromDetail(f.GetError(), f.GetMessage())
	}
	code := codes.Code(max(f.GetCode(), 0))
	if code == codes.OK {
		code = codes.Unknown
	}
	return Domain(status.Error(code, f.GetMessage()))
}

// remoteError is a domain error with the other side's text.
type remoteError struct {
	message string
	err     error
}

func (e *remoteError) Error() string { return e.message }
func (e *remoteError) Unwrap() error { return e.err }
