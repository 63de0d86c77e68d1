package session

import (
	"errors"
	"strings"
)

// Errors about who may do what. See [AccessError].
var (
	// ErrUnauthenticated says that the node does not know who calls.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrForbidden says that the caller's roles do not allow the call.
	ErrForbidden = errors.New("permission denied")
)

// AccessError is [ErrForbidden] for a caller with a name, and [ErrUnauthenticated] for one without.
type AccessError struct {
	// Who is the verified name of the caller, empty when the node does not know it. Has are the caller's roles.
	Who string
	Has []string
	// Needs are the roles of which the call needs one.
	Needs []string
	// Shown says that the caller showed a token or a certificate, which this node does not take. The node does not tell
	// a stranger why: its log does.
	Shown bool
}

// Error says which role is needed, and what the caller has.
func (e *AccessError) Error() string {
	text := e.sentinel().Error()
	if len(e.Needs) > 0 {
		text += ": the call needs the role " + strings.Join(e.Needs, " or ")
	}
	switch {
	case e.Who != "" && len(e.Has) > 0:
		return text + ", and " + e.Who + " has " + strings.Join(e.Has, " and ")
	case e.Who != "":
		return text + ", and " + e.Who + " has none"
	case e.Shown:
		return text + ", and this node does not take the token or certificate that was shown"
	default:
		return text + ", and no token or certificate was shown"
	}
}

// Is makes e one of the two sentinels.
func (e *AccessError) Is(target error) bool { return target == e.sentinel() }

func (e *AccessError) sentinel() error {
	if e.Who != "" {
		return ErrForbidden
	}
	return ErrUnauthenticated
}
