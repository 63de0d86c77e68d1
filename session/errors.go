package session

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of the domain. Test for them with errors.Is; what they carry is in the typed errors below.
var (
	// ErrExpired: the session is unknown, closed or expired. A client must open a new one. See [ExpiredError].
	ErrExpired = errors.New("session is unknown, closed or expired")
	// ErrBadCredential: a client stops.
	ErrBadCredential = errors.New("credential does not belong to the session")
	// ErrMoved: the session was resumed through another connection. A client drops this one. See [MovedError].
	ErrMoved = errors.New("session was resumed through another connection")
	// ErrClosing: the session's end is under way and not decided. A client retries the same call a little later.
	ErrClosing = errors.New("session is being closed")
	// ErrLagging: this node has not caught up with the token, or with what the client has seen. A client retries, or
	// tries another node.
	ErrLagging = errors.New("node has not caught up with what the client has seen")
	// ErrNotLeader: see [NotLeaderError].
	ErrNotLeader = errors.New("node does not lead")
	// ErrNoLeader: a client backs off with jitter and tries another node. Nothing was done.
	ErrNoLeader = errors.New("no leader is known")
	// ErrStopping: the node stops. A client tries another one. Nothing was done.
	ErrStopping = errors.New("node is stopping")
	// ErrReadOnly: a client looks for a read-write node. The call that was refused did nothing; of a former try whose
	// outcome is unknown it says nothing.
	ErrReadOnly = errors.New("node is read-only")
	// ErrOutcomeUnknown: the request may or may not take effect. A client retries with the same request id, or resumes.
	ErrOutcomeUnknown = errors.New("outcome is unknown")
	// ErrLimit: see [LimitError].
	ErrLimit = errors.New("over a limit")
	// ErrInvalid: see [FieldError].
	ErrInvalid = errors.New("invalid argument")
	// ErrWrongCluster: the peer belongs to another cluster, or is no member of this one.
	ErrWrongCluster = errors.New("peer is not of this cluster")
	// ErrClosed: what is used has been closed by its user.
	ErrClosed = errors.New("closed")
)

// ExpiredError is [ErrExpired] with the certificate, when it is still known.
type ExpiredError struct {
	ID ID
	// Certificate is nil when unknown.
	Certificate *Certificate
	// LocalTo is the node that alone can know more, when the session may be a local one (L6); else 0.
	LocalTo Node
}

func (e *ExpiredError) Error() string {
	switch {
	case e.Certificate != nil:
	case e.LocalTo != 0:
		return fmt.Sprintf("session %v is not known here: it is local to node %d, or has ended", e.ID, e.LocalTo)
	default:
		return "session " + e.ID.String() + " is unknown, closed or expired"
	}
	return "session " + e.ID.String() + " has " + e.Certificate.Cause.String()
}

// Is makes e an [ErrExpired].
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// MovedError is [ErrMoved] with what the session has now, when that is known.
type MovedError struct {
	// Attachment is the session's present one. A resume by another process than Instance takes the session over when
	// it names this attachment, and is refused when it names another (M1).
	Attachment uint64
	// Local says that Attachment is one of a local session (L5).
	Local bool
	// Instance is the client process whose resume made Attachment; 0 when none has resumed the session.
	Instance uint64
}

// MovedTo returns the error for whoever names another attachment of a session than the present one.
func MovedTo(now Session) error {
	return &MovedError{Attachment: now.Attachment, Local: now.Local, Instance: now.Instance}
}

func (*MovedError) Error() string { return ErrMoved.Error() }

// Is makes e an [ErrMoved].
func (*MovedError) Is(target error) bool { return target == ErrMoved }

// NotLeaderError is [ErrNotLeader] with the leader, when one is known.
type NotLeaderError struct {
	// Leader is 0 when unknown.
	Leader Node
	// Address is where clients reach it.
	Address string
}

func (e *NotLeaderError) Error() string {
	if e.Leader == 0 {
		return "node does not lead, and knows no leader"
	}
	return "node does not lead; the leader is at " + e.Address
}

// Is makes e an [ErrNotLeader].
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// LimitError is [ErrLimit] with the limit's name and value.
type LimitError struct {
	// Name is that of the setting or constant, such as "sessions_per_connection".
	Name string
	// Limit is its value, with units.
	Limit string
	// RetryAfter is how long a client is to wait, at least, before it sends the same request again; 0 when nothing is
	// known of that, negative never.
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return "over the limit " + e.Name + " (" + e.Limit + ")" }

// Is makes e an [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// AppliedError is the error of a read that a read-only node answered from the state it had applied, without a leader's
// word (N3): what it says may have been overtaken long ago, whatever the node is by the time it is told.
type AppliedError struct {
	// Err is what the state says, an [ExpiredError].
	Err error
}

func (e *AppliedError) Error() string { return e.Err.Error() }

// Unwrap returns what the state says.
func (e *AppliedError) Unwrap() error { return e.Err }

// Missing is the limit of a field that must be there.
const Missing = "set"

// FieldError is [ErrInvalid] with the field of the request and its range.
type FieldError struct {
	// Field is its name in the request message.
	Field string
	// Limit is what the field must be, in words a person can act on: a range such as "1 to 254", [Missing], something
	// that begins with "not" or "no", or a whole predicate that begins with "must".
	Limit string
}

func (e *FieldError) Error() string {
	rest, not := strings.CutPrefix(e.Limit, "not ")
	switch {
	case e.Limit == Missing:
		return e.Field + " is missing"
	case strings.HasPrefix(e.Limit, "must "):
		return e.Field + " " + e.Limit
	case strings.HasPrefix(e.Limit, "no "):
		return e.Field + " must have " + e.Limit
	case not:
		return e.Field + " must not be " + rest
	default:
		return e.Field + " must be " + e.Limit
	}
}

// Is makes e an [ErrInvalid].
func (e *FieldError) Is(target error) bool { return target == ErrInvalid }
