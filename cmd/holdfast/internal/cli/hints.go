package cli

import (
	"errors"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	holdfastv1 "holdfast/proto/holdfast/v1"
	"holdfast/session"
	"holdfast/tree"
)

// hintRule is a row of the table of next steps.
type hintRule struct {
	applies func(c *Cluster, err error) bool
	hint    func(c *Cluster, err error) string
}

// hint returns what the user can do about an error of a command, a sentence; "" when the error says enough. The first
// rule that applies counts.
func (c *Cluster) hint(err error) string {
	if own, ok := errors.AsType[hintError](err); ok {
		return own.hint
	}
	for _, rule := range hintRules() {
		if rule.applies(c, err) {
			return rule.hint(c, err)
		}
	}
	return ""
}

func hintRules() []hintRule {
	return []hintRule{
		{is(session.ErrMoved), say("Use the session's newest token, or take the session over from its current holder: " +
			"\"holdfast session keep-alive --token-file FILE\" also accepts an older token.")},
		{is(session.ErrUnauthenticated), say("Pass a bearer token with --auth-token-file or " + AuthTokenFileVariable +
			". \"holdfast auth token verify\" tells whether an auth_file has the token and whether the token has expired.")},
		{is(session.ErrLagging), say("Retry a little later, or name other nodes with --endpoints. If the error persists, " +
			"another cluster issued the token: use the newest token as it was printed.")},
		{is(session.ErrTLS), say("docs/operations/security.md, section TLS errors, explains each error and what to change.")},
		{(*Cluster).notHoldfast, (*Cluster).notHoldfastHint},
		{(*Cluster).hungUp, say("A node that hangs up before it answers may have reached max_connections. Its log and the " +
			"metric holdfast_client_connections_refused_total show refused connections.")},
		{is(client.ErrUnreachable), say("Is the cluster running? --endpoints or " + EndpointsVariable + " names its nodes.")},
		{unimplemented, say("The server at --endpoints is a node of a release without this call, or not the client port " +
			"of a node. The client port is 7400 unless configured otherwise.")},
		{refused(tree.NoParent), sayPath("Create PATH first, or pass --parents to \"holdfast create\".")},
		{refused(tree.NodeExists), sayPath("\"holdfast set PATH\" replaces its data.")},
		{refused(tree.NotEmpty), sayPath("\"holdfast rm -r PATH\" removes the entry and all below it.")},
		{refused(tree.BadVersion), sayPath("\"holdfast get --stat PATH\" shows its present versions.")},
		{refused(tree.NoPermission), sayPath("\"holdfast acl get PATH\" shows its access list. Pass your credentials with " +
			"--digest or " + DigestVariable + ".")},
		{refused(tree.OverQuota), say("\"holdfast quota get PATH\" shows a quota and its use.")},
	}
}

func is(target error) func(*Cluster, error) bool {
	return func(_ *Cluster, err error) bool { return errors.Is(err, target) }
}

func refused(code tree.Code) func(*Cluster, error) bool {
	return is(&tree.RefusedError{Code: code})
}

func unimplemented(_ *Cluster, err error) bool { return status.Code(err) == codes.Unimplemented }

func say(text string) func(*Cluster, error) string {
	return func(*Cluster, error) string { return text }
}

// sayPath puts the path of a refused operation into a text.
func sayPath(text string) func(*Cluster, error) string {
	return func(_ *Cluster, err error) string {
		refused, _ := errors.AsType[*tree.RefusedError](err)
		return strings.ReplaceAll(text, "PATH", Escape(refused.Path))
	}
}

// notClientPort is the text about an address whose server is not the client port of a node.
const notClientPort = "not a client port; clients use 7400 unless configured otherwise"

// notClientPortError reports that the server at an endpoint is not the client port of a node. It is a
// [client.ErrUnreachable].
type notClientPortError struct{ endpoint string }

func (e *notClientPortError) Error() string {
	return client.ErrUnreachable.Error() + ": " + e.endpoint + " is " + notClientPort
}

// Is makes e a [client.ErrUnreachable].
func (*notClientPortError) Is(target error) bool { return target == client.ErrUnreachable }

// notHoldfast reports whether a call failed because a server is not the client port of a node: the server speaks
// HTTP/1, or it is a gRPC server, such as a node's peer port, that lacks the services of every release. A server that
// hangs up may be a node: a node hangs up on connections above its limit.
func (c *Cluster) notHoldfast(err error) bool {
	if errors.Is(err, session.ErrTLS) {
		return false // a node that refuses to speak, or not to speak, TLS answers in HTTP/1
	}
	_, known := errors.AsType[*notClientPortError](err)
	return known || errors.Is(err, client.ErrUnreachable) && c.dialer.saw(errHTTP1) || LacksServices(err)
}

func (c *Cluster) notHoldfastHint(error) string {
	which := strings.Join(c.Endpoints, ",")
	if len(c.Endpoints) > 1 {
		which = "One of " + which
	}
	return which + " is " + notClientPort + "."
}

// hungUp reports whether no node answered and a server ended its connection before it sent anything.
func (c *Cluster) hungUp(err error) bool {
	return errors.Is(err, client.ErrUnreachable) && c.dialer.saw(errHungUp)
}

// LacksServices reports whether a gRPC server answered that it lacks a service that every release has. Only the text
// tells: the code UNIMPLEMENTED can mean an unknown service or an unknown method, and a node of another release
// may answer the latter. The SDK also returns the end of a stream as text, without its code.
func LacksServices(err error) bool {
	if err == nil {
		return false
	}
	text := err.Error()
	return strings.Contains(text, "unknown service "+holdfastv1.SessionService_ServiceDesc.ServiceName) ||
		strings.Contains(text, "unknown service "+holdfastv1.ClusterService_ServiceDesc.ServiceName)
}
