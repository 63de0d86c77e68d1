package cli

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// Environment variables that give defaults to flags.
const (
	EndpointsVariable  = "HOLDFAST_ENDPOINTS"
	ClientNameVariable = "HOLDFAST_CLIENT_NAME"
	caVariable         = "HOLDFAST_CACERT"
	certVariable       = "HOLDFAST_CERT"
	keyVariable        = "HOLDFAST_KEY"
	serverVariable     = "HOLDFAST_SERVER_NAME"
	// AuthTokenVariable has the bearer token, AuthTokenFileVariable the name of a file with it.
	AuthTokenVariable     = "HOLDFAST_AUTH_TOKEN"      //nolint:gosec // a name
	AuthTokenFileVariable = "HOLDFAST_AUTH_TOKEN_FILE" //nolint:gosec // a name
	// DigestVariable has a name and a password for access lists.
	DigestVariable = "HOLDFAST_DIGEST"

	defaultEndpoints = "localhost:7400"
)

// Cluster is the cluster that the command line names, and the way to call it. The flags set its fields before a command
// runs.
type Cluster struct {
	Endpoints []string
	// CallTimeout bounds one call.
	CallTimeout time.Duration
	// ReadOnly allows answers of read-only nodes, for commands that have the flag.
	ReadOnly bool

	clientName string
	// digests are the credentials for access lists of the tree. Without the flag, digest counts, of the environment.
	digests []string
	digest  string
	// tokenFile has the bearer token of this client. Without the flag, token counts, of the environment. tokenWithoutTLS
	// allows the token on connections without TLS.
	tokenFile, token string
	tokenWithoutTLS  bool
	// tls are the files for TLS; all empty, the client speaks no TLS.
	tls client.TLS
	// dialer makes all connections of the command. It remembers why connections failed, for hints.
	dialer dialer
}

// register adds the flags that all commands share; the environment gives defaults.
func (c *Cluster) register(root *cobra.Command, getenv func(string) string) {
	flags := root.PersistentFlags()
	flags.StringSliceVar(&c.Endpoints, "endpoints", splitEndpoints(getenv(EndpointsVariable)),
		"client addresses, host:port, of nodes of the cluster, separated by commas (environment: "+
			EndpointsVariable+")")
	flags.StringVar(&c.clientName, "client-name", getenv(ClientNameVariable),
		"name of this client; clients of the same name share one rate limit, and nodes do not verify the name "+
			"(environment: "+ClientNameVariable+")")
	for _, f := range []struct {
		to                   *string
		name, help, variable string
	}{
		{&c.tls.CACert, "cacert", "speak TLS with nodes whose certificates these CAs sign, a PEM file", caVariable},
		{&c.tls.Cert, "cert", "speak TLS with this client certificate, a PEM file", certVariable},
		{&c.tls.Key, "key", "private key of --cert, a PEM file", keyVariable},
		{
			&c.tls.ServerName, "server-name", "name that the nodes' certificates must have (default: the endpoint's host)",
			serverVariable,
		},
	} {
		flags.StringVar(f.to, f.name, getenv(f.variable), f.help+" (environment: "+f.variable+")")
	}
	flags.StringVar(&c.tokenFile, "auth-token-file", getenv(AuthTokenFileVariable),
		"file with the bearer token of this client (environment: "+AuthTokenFileVariable+", or "+
			AuthTokenVariable+" with the token itself)")
	flags.BoolVar(&c.tokenWithoutTLS, "token-without-tls", false,
		"send the bearer token without TLS too: anyone on the network path can read it")
	c.token, c.digest = getenv(AuthTokenVariable), getenv(DigestVariable)
	flags.Var(arg.Positive(&c.CallTimeout, 5*time.Second, 0), "call-timeout",
		"time limit of a call, failed attempts included")
}

// AddReadOnlyFlag adds the flag of commands that read-only nodes may answer.
func (c *Cluster) AddReadOnlyFlag(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.ReadOnly, "read-only", false, "accept a read-only node when no other node answers")
}

// AddDigestFlag adds the flag of commands that use the tree.
func (c *Cluster) AddDigestFlag(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&c.digests, "digest", nil,
		"NAME:PASSWORD by which access lists know this client; may be repeated (environment, which other users "+
			"of the machine cannot see: "+DigestVariable+")")
}

func splitEndpoints(s string) []string {
	if strings.TrimSpace(s) == "" {
		s = defaultEndpoints
	}
	endpoints := strings.Split(s, ",")
	for i := range endpoints {
		endpoints[i] = strings.TrimSpace(endpoints[i])
	}
	return endpoints
}

// CheckEndpoints returns a usage error unless all endpoints are host:port. Commands that use no cluster do not call it.
func (c *Cluster) CheckEndpoints() error {
	if slices.ContainsFunc(c.Endpoints, malformed) || len(c.Endpoints) == 0 {
		return Usage("--endpoints %q: want host:port of nodes, with commas between, as in "+
			"localhost:7400,localhost:7410 (or %s)",
			strings.Join(c.Endpoints, ","), EndpointsVariable)
	}
	return nil
}

func malformed(endpoint string) bool {
	_, port, err := net.SplitHostPort(endpoint)
	return err != nil || port == ""
}

// NewClient returns a client with cfg and the settings that all commands share.
func (c *Cluster) NewClient(cfg client.Config) (*client.Client, error) {
	if err := c.CheckEndpoints(); err != nil {
		return nil, err
	}
	cfg.ClientName = c.clientName
	cfg.Token, cfg.TokenWithoutTLS = c.BearerToken(), c.tokenWithoutTLS
	cfg.Dial = c.dialer.dial
	if c.tls != (client.TLS{}) {
		cfg.TLS = &c.tls
	}
	cfg.Digests = c.digests
	if len(c.digests) == 0 && c.digest != "" {
		cfg.Digests = []string{c.digest}
	}
	cfg.Resolve = net.DefaultResolver.LookupHost // with a Dial, the SDK has no resolver by default
	cl, err := client.New(cfg)
	if err != nil {
		return nil, Usage("%w", err)
	}
	return cl, nil
}

// BearerToken returns the source of the bearer token, nil when the user gave none.
func (c *Cluster) BearerToken() client.TokenSource {
	switch {
	case c.tokenFile != "":
		return client.TokenFile(c.tokenFile)
	case c.token != "":
		return client.StaticToken(strings.TrimSpace(c.token))
	default:
		return nil
	}
}

// Connect runs f with a client of all endpoints. The calls of one client never see older state than an earlier call (N4
// seen index).
func (c *Cluster) Connect(f func(cl *client.Client) error) error {
	cl, err := c.NewClient(client.Config{Endpoints: c.Endpoints, OnlyEndpoints: true, ReadOnly: c.ReadOnly})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	return f(cl)
}

// Call runs f with a client of all endpoints and the time limit of one call.
func (c *Cluster) Call(ctx context.Context, f func(ctx context.Context, cl *client.Client) error) error {
	return c.Connect(func(cl *client.Client) error {
		limited, cancel := c.WithTimeout(ctx)
		defer cancel()
		return f(limited, cl)
	})
}

// WithTimeout returns ctx with the time limit of one call.
func (c *Cluster) WithTimeout(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.CallTimeout, c.TimeoutError())
}

// Timed runs one call with its time limit. Commands that make several calls use it with [Cluster.Connect].
func Timed[R any](ctx context.Context, c *Cluster, call func(context.Context) (R, error)) (R, error) {
	ctx, cancel := c.WithTimeout(ctx)
	defer cancel()
	return call(ctx)
}

// TimeoutError returns the error of a call that took longer than --call-timeout. The error is a
// [context.DeadlineExceeded], because the SDK looks for that.
func (c *Cluster) TimeoutError() error { return timeoutError{c.CallTimeout} }

type timeoutError struct{ limit time.Duration }

func (e timeoutError) Error() string {
	return fmt.Sprintf("not done within --call-timeout %v", e.limit)
}

// Is makes e a [context.DeadlineExceeded].
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// StatusOf asks one node for its status. The error about a server that is not the client port of a node says so. Every
// release of a node answers this call, so a server without it is not a node.
func (c *Cluster) StatusOf(ctx context.Context, cl *client.Client, endpoint string) (client.Status, error) {
	st, err := cl.Status(ctx, endpoint)
	speaksHTTP := errors.Is(c.dialer.failure(endpoint), errHTTP1) && !errors.Is(err, session.ErrTLS)
	if status.Code(err) == codes.Unimplemented || err != nil && speaksHTTP {
		err = &notClientPortError{endpoint}
	}
	return st, err
}

// MayHaveSent reports whether any server has spoken to this command, so that a server may have received a request.
func (c *Cluster) MayHaveSent() bool { return c.dialer.anyAnswered() }

// Cause returns the innermost cause of a failed call to one endpoint, for the row of the endpoint in a table.
func (c *Cluster) Cause(endpoint string, err error) string {
	if _, ok := errors.AsType[*notClientPortError](err); ok {
		return notClientPort
	}
	if refused, ok := errors.AsType[*session.TLSError](err); ok {
		return refused.Fault + ": " + refused.Advice
	}
	if failure := c.dialer.failure(endpoint); failure != nil && errors.Is(err, client.ErrUnreachable) {
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
