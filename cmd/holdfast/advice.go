package main

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/client/recipes"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
)

// notClientPort is the text about an address whose server is not the client port of a node.
const notClientPort = "not a client port; clients use 7400 unless set otherwise"

// notClientPortError says that the server at an endpoint is not the client port of a node. It is a
// [client.ErrUnreachable].
type notClientPortError struct{ endpoint string }

func (e *notClientPortError) Error() string {
	return fmt.Sprintf("%v: %s is %s", client.ErrUnreachable, e.endpoint, notClientPort)
}

// Is makes e a [client.ErrUnreachable].
func (*notClientPortError) Is(target error) bool { return target == client.ErrUnreachable }

// foreign reports whether a call failed because a server is not the client port of a node: it speaks HTTP/1, or it is a
// gRPC server, such as a node's peer port, that lacks the services of every release. A server that hangs up is not
// foreign: a node hangs up on connections above its limit.
func (t *target) foreign(err error) bool {
	if errors.Is(err, session.ErrTLS) {
		return false // an answer in HTTP/1 is how a node refuses to speak, or not to speak, TLS
	}
	_, known := errors.AsType[*notClientPortError](err)
	return known || errors.Is(err, client.ErrUnreachable) && t.dialer.saw(errHTTP1) || lacksServices(err)
}

// lacksServices reports whether a gRPC server answered that it lacks a service that every release has. Only the text
// tells: the code UNIMPLEMENTED stands for an unknown service and for an unknown method, which a node of another
// release may answer. The SDK also returns the end of a stream as text, without its code.
func lacksServices(err error) bool {
	if err == nil {
		return false
	}
	said := err.Error()
	return strings.Contains(said, "unknown service "+holdfastv1.SessionService_ServiceDesc.ServiceName) ||
		strings.Contains(said, "unknown service "+holdfastv1.ClusterService_ServiceDesc.ServiceName)
}

// hungUp reports whether no node answered and a server ended its connection before it sent anything.
func (t *target) hungUp(err error) bool {
	return errors.Is(err, client.ErrUnreachable) && t.dialer.saw(errHungUp)
}

// brief returns the innermost cause of a failed call to one endpoint, for a cell of the endpoint's row.
func (t *target) brief(endpoint string, err error) string {
	if _, ok := errors.AsType[*notClientPortError](err); ok {
		return notClientPort
	}
	if refused, ok := errors.AsType[*session.TLSError](err); ok {
		return refused.Fault + ": " + refused.Advice
	}
	if failure := t.dialer.failure(endpoint); failure != nil && errors.Is(err, client.ErrUnreachable) {
		err = failure
	}
	if dns, ok := errors.AsType[*net.DNSError](err); ok {
		return dns.Err // without the name, which the row shows, and the name server
	}
	for inner := err; inner != nil; inner = errors.Unwrap(inner) {
		err = inner
	}
	if st, ok := status.FromError(err); ok {
		return st.Message()
	}
	return err.Error()
}

// advice says what the user can do about a failed command; it is empty when the error says enough.
func (t *target) advice(err error) string {
	switch {
	case errors.Is(err, session.ErrMoved):
		return "Use the session's newest token. Or take the session over from its present holder: " +
			"\"holdfast session hold --token-file FILE\" resumes it with an older token too."
	case errors.Is(err, session.ErrUnauthenticated):
		return "Give a token with --auth-token-file or " + authTokenFileVariable + ". Is it in the node's auth_file, and " +
			"has it not expired? \"holdfast auth token verify\" says so."
	case errors.As(err, new(ledError)):
		return "\"holdfast elect show NAME\" says who leads."
	case errors.Is(err, recipes.ErrBusy):
		return "\"holdfast lock show NAME\" says who holds a lock."
	case errors.Is(err, session.ErrLagging):
		return "Ask again a little later, or ask other nodes with --endpoints. If the error stays, this cluster did " +
			"not issue the token: use the newest token as it was printed."
	case errors.Is(err, session.ErrTLS):
		return "docs/operations.md, section TLS, says what each error means and what to change."
	case t.foreign(err):
		which := strings.Join(t.endpoints, ",")
		if len(t.endpoints) > 1 {
			which = "One of " + which
		}
		return which + " is " + notClientPort + "."
	case t.hungUp(err):
		return "A node that hangs up before it answers may have reached its limit of connections, max_connections. " +
			"Its log and holdfast_client_connections_refused_total show refused connections."
	case errors.Is(err, client.ErrUnreachable):
		return "Is the cluster running? --endpoints or " + endpointsVariable + " names its nodes."
	case status.Code(err) == codes.Unimplemented:
		return "The server at --endpoints is a node of a release without this call, or it is not the client port of " +
			"a node, which is 7400 unless set otherwise."
	default:
		return treeAdvice(err)
	}
}
