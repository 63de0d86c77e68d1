package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// lateError is the end of the time that a call may take. It is a [context.DeadlineExceeded], which the SDK goes by.
type lateError struct{ limit time.Duration }

func (e lateError) Error() string { return fmt.Sprintf("not done within --call-timeout %v", e.limit) }

// Is makes e a [context.DeadlineExceeded].
func (lateError) Is(target error) bool { return target == context.DeadlineExceeded }

// flagRefused makes a mistake in a flag's value a usage error in the words of all others.
func flagRefused(err error) error {
	if r, ok := arg.Refused(err); ok {
		return usage("%s %q: want %s", r.Flag, r.Given, r.Want)
	}
	return err
}

// foreign reports whether what answered is no client port of a node: another gRPC server, as at a node's port for its
// peers, which lacks the services that every release has, or a server of HTTP/1. gRPC tells both in words alone. One
// that hangs up may be a node: it does so to connections above its limit.
func foreign(err error) bool {
	if err == nil {
		return false
	}
	said := err.Error()
	return strings.Contains(said, "looked like an HTTP/1.1 header") ||
		strings.Contains(said, "unknown service "+holdfastv1.SessionService_ServiceDesc.ServiceName) ||
		strings.Contains(said, "unknown service "+holdfastv1.ClusterService_ServiceDesc.ServiceName)
}

// hungUp reports whether what answered ended the connection before it said anything. gRPC tells that in words alone.
func hungUp(err error) bool {
	said := err.Error()
	return strings.Contains(said, "connection reset by peer") ||
		strings.Contains(said, "error reading server preface: EOF")
}

// brief is the cause at the end of what an error about an endpoint says, for a cell of the endpoint's row.
func brief(endpoint, said string) string {
	if i := strings.LastIndex(said, ": "); i >= 0 {
		said = said[i+len(": "):]
	}
	return strings.TrimPrefix(strings.Trim(said, `"`), endpoint+" is ") // gRPC quotes what a connection failed of
}

// advice says what can be done about a failure of what was asked at endpoints; empty when it says enough itself.
func advice(err error, endpoints []string) string {
	switch {
	case errors.Is(err, session.ErrMoved):
		return `Take the newest token of the session, or take it over from who has that: "holdfast session hold --token-file FILE" resumes it with an older one too.`
	case errors.Is(err, session.ErrLagging):
		return "Ask again a little later, or other nodes with --endpoints. If it stays so, the token was not given " +
			"by this cluster: take the newest token as it was printed."
	case foreign(err):
		which := strings.Join(endpoints, ",")
		if len(endpoints) > 1 {
			which = "One of " + which
		}
		return which + " is not a client port; clients use 7400 unless set otherwise."
	case errors.Is(err, client.ErrUnreachable) && hungUp(err):
		return "A node that hangs up before it says anything may have no place for another connection: its log and " +
			"holdfast_client_connections_refused_total tell, " +
			"and max_connections is the limit."
	case errors.Is(err, client.ErrUnreachable):
		return "Is the cluster running? Its nodes are named by --endpoints or " + endpointsVariable + "."
	case status.Code(err) == codes.Unimplemented:
		return "What answers at --endpoints is a node of a release that does not know this call, or not the client " +
			"port of a node, which is 7400 unless set otherwise."
	default:
		return ""
	}
}
