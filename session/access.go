package session

import (
	"errors"
	"strings"
)

// Errors about permissions. See [AccessError].
var (
	// ErrUnauthenticated says that the node does not know the caller.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrForbidden says that the caller's roles do not allow the call.
	ErrForbidden = errors.New("permission denied")
)

// AccessError is [ErrForbidden] for a caller with a name, and [ErrUnauthenticated] for one without.
type AccessError struct {
	// Who is the caller's verified name, empty when the node does not know it. Has are the caller's roles.
	Who string
	Has []string
	// Needs are the roles of which the call needs one.
	Needs []string
	// Shown says that the caller presented a token or a certificate that this node does not accept. The reason is in
	// the node's log only, because an unknown caller must not learn it.
	Shown bool
}

// Error names the needed role and the caller's roles.
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
