package operations

import (
	"errors"

	"holdfast/session"
	"holdfast/tree"
	"holdfast/zk/jute"
)

// codeOf returns the code of a refusal; false for an error that ends the connection, which the client sees as a lost
// connection (Z6 closing). A limit that the node has reached for a moment, for all its clients together (G8 request
// bounds), ends the connection too, and the client continues at another node. A code would not help: kazoo ends for
// good with a code that it does not know, and the Java client ignores the code of a setWatches and would lose its
// watches.
func codeOf(err error) (jute.Code, bool) {
	var refused *tree.RefusedError
	switch {
	case errors.As(err, &refused):
		return codes[refused.Code], true
	case errors.Is(err, session.ErrInvalid):
		return jute.BadArguments, true
	case errors.Is(err, session.ErrReadOnly):
		return jute.NotReadOnly, true
	case errors.Is(err, session.ErrLimit):
		return jute.Throttled, !passes(err)
	default:
		return 0, false
	}
}

// passes reports whether a limit is temporary.
func passes(err error) bool {
	limit := (*session.LimitError)(nil)
	return errors.As(err, &limit) && limit.RetryAfter > 0
}

// codes has a code for each reason of the tree. A test finds a reason without a code.
//
//nolint:gochecknoglobals // a table
var codes = map[tree.Code]jute.Code{
	tree.NoNode: jute.NoNode, tree.NoParent: jute.NoNode, tree.NodeExists: jute.NodeExists,
	tree.NotEmpty: jute.NotEmpty, tree.BadVersion: jute.BadVersion, tree.EphemeralParent: jute.EphemeralParent,
	tree.NoPermission: jute.NoAuth, tree.OverQuota: jute.QuotaExceeded, tree.OverLimit: jute.QuotaExceeded,
	tree.Reserved: jute.BadArguments,
}

// readCode returns the code of an answer to a read. An error ends the connection, also for a global session at a node
// that has become read-only: in a moment the node ends such a connection by itself (Z9 read-only).
func (h *Handler) readCode(a *session.TreeAnswer) (jute.Code, error) {
	if a.Err == nil {
		return jute.OK, nil
	}
	code, ok := codeOf(a.Err)
	if !ok || code == jute.NotReadOnly && !h.token.Local {
		return 0, a.Err
	}
	return code, nil
}
