package session

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// Errors of the domain. Test for them with errors.Is. The typed errors below carry details.
var (
	// ErrExpired: the session is unknown, closed or expired. A client must open a new session. See [ExpiredError].
	ErrExpired = errors.New("session is unknown, closed or expired")
	// ErrBadCredential: a client stops.
	ErrBadCredential = errors.New("credential does not belong to the session")
	// ErrMoved: the session was resumed through another connection. A client drops this connection. See [MovedError].
	ErrMoved = errors.New("session was resumed through another connection")
	// ErrClosing: a close or an expiry of the session is in flight and undecided. A client retries the same call a
	// little later.
	ErrClosing = errors.New("session is being closed")
	// ErrLagging: the node has not yet applied the token's attachment, or the index that the client has seen; or it no
	// longer has the tree between two writes that a read must show (G3 order in a session). A client retries, or tries
	// another node.
	ErrLagging = errors.New("node is behind the state that the client has seen")
	// ErrNotLeader: see [NotLeaderError].
	ErrNotLeader = errors.New("node is not the leader")
	// ErrNoLeader: the node knows no leader, and did nothing. A client backs off with jitter and tries another node.
	ErrNoLeader = errors.New("no leader is known")
	// ErrStopping: the node is stopping, and did nothing. A client tries another node.
	ErrStopping = errors.New("node is stopping")
	// ErrReadOnly: the node is read-only, and did nothing. A client tries other nodes. An earlier attempt of the same
	// request whose outcome is unknown may still take effect.
	ErrReadOnly = errors.New("node is read-only")
	// ErrOutcomeUnknown: the request may or may not take effect. A client retries with the same request id, or resumes.
	ErrOutcomeUnknown = errors.New("outcome is unknown")
	// ErrNoInstance: no client process is known for the session, which therefore may not write. A client resumes it
	// once (X5 the opener's instance).
	ErrNoInstance = errors.New("session has no client process: resume it once before its first write")
	// ErrLimit: see [LimitError].
	ErrLimit = errors.New("over a limit")
	// ErrInvalid: see [FieldError].
	ErrInvalid = errors.New("invalid argument")
	// ErrWrongCluster: the peer belongs to another cluster, or is not a member of this cluster.
	ErrWrongCluster = errors.New("peer is not a member of this cluster")
	// ErrClusterChanged: the client's earlier state is of another cluster. It is the reason why events of watches may
	// be missing, and why one-shot watches have ended.
	ErrClusterChanged = errors.New("the nodes belong to another cluster than before: the cluster was recreated or " +
		"restored, or an address now belongs to another cluster")
	// ErrLocalSession: the session is local, and may not be upgraded to write (U4 the first write upgrades).
	ErrLocalSession = errors.New("session is local, and this cluster does not upgrade local sessions")
	// ErrTLS: the two sides of a connection do not agree on TLS, or one does not accept the other's certificate. See
	// [TLSError].
	ErrTLS = errors.New("no agreement on TLS")
	// ErrNoConnection: the session may nevertheless live, at another node or without a connection.
	ErrNoConnection = errors.New("no connection of this node serves the session")
	// ErrClosed: the caller has closed the object.
	ErrClosed = errors.New("closed")
)

// ExpiredError is [ErrExpired] with the session's certificate, when that is still known.
type ExpiredError struct {
	ID ID
	// Certificate is nil when unknown.
	Certificate *Certificate
	// LocalTo is the only node that can know the session, when it may be a local session (L6 unknown local sessions);
	// otherwise 0.
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
	if c := e.Certificate; c.Cause == CauseKilled {
		text := "session " + e.ID.String() + " was ended by an operator"
		if c.Story.Why != "" {
			text += ": " + c.Story.Why
		}
		return text
	}
	return "session " + e.ID.String() + " has " + e.Certificate.Cause.String()
}

// Is makes e an [ErrExpired].
func (e *ExpiredError) Is(target error) bool { return target == ErrExpired }

// MovedError is [ErrMoved] with the session's present attachment, when that is known.
type MovedError struct {
	// Attachment is the present attachment. A resume by another process than Instance takes the session over if it names
	// this attachment, and is refused otherwise (M1 a resume is a move).
	Attachment uint64
	// Local says that Attachment belongs to a local session (L5 local attachments).
	Local bool
	// Instance is the client process whose resume made Attachment; 0 when no process has resumed the session.
	Instance uint64
}

// MovedTo returns the error for a request that does not name the present attachment of session now.
func MovedTo(now Session) error {
	return &MovedError{Attachment: now.Attachment, Local: now.Local, Instance: now.Instance}
}

func (*MovedError) Error() string { return ErrMoved.Error() }

// Is makes e an [ErrMoved].
func (*MovedError) Is(target error) bool { return target == ErrMoved }

// NotLeaderError is [ErrNotLeader] with the leader, when the node knows it.
type NotLeaderError struct {
	// Leader is 0 when unknown.
	Leader Node
	// Address is the leader's client address.
	Address string
}

func (e *NotLeaderError) Error() string {
	if e.Leader == 0 {
		return "node is not the leader, and knows no leader"
	}
	return "node is not the leader; the leader is at " + e.Address
}

// Is makes e an [ErrNotLeader].
func (e *NotLeaderError) Is(target error) bool { return target == ErrNotLeader }

// LimitError is [ErrLimit] with the limit's name and value.
type LimitError struct {
	// Name is the name of the setting or constant, such as "sessions_per_connection".
	Name string
	// Limit is the limit's value, with units.
	Limit string
	// RetryAfter is the minimum time that a client should wait before it sends the same request again. It is 0 when the
	// time is unknown, and never negative.
	RetryAfter time.Duration
}

func (e *LimitError) Error() string { return "over the limit " + e.Name + " (" + e.Limit + ")" }

// Is makes e an [ErrLimit].
func (e *LimitError) Is(target error) bool { return target == ErrLimit }

// AppliedError is the error of a read that a read-only node answered from its applied state, without asking a leader
// (N3 stale reads). That state may be old, even if the node is no longer read-only when the client gets the error.
type AppliedError struct {
	// Err is an [ExpiredError], as of the applied state.
	Err error
}

func (e *AppliedError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the applied state.
func (e *AppliedError) Unwrap() error { return e.Err }

// Missing is the [FieldError.Limit] of a field that must be set.
const Missing = "set"

// FieldError is [ErrInvalid] with the field of the request and its range.
type FieldError struct {
	// Field is the field's name in the request message.
	Field string
	// Limit describes the valid values, so that a person can act on it. It is a range such as "1 to 254", [Missing], a
	// text that begins with "not" or "no", or a whole predicate that begins with "must".
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
