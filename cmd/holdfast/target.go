package main

import (
	"context"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
)

const (
	endpointsVariable = "HOLDFAST_ENDPOINTS"
	principalVariable = "HOLDFAST_PRINCIPAL"
	caVariable        = "HOLDFAST_CACERT"
	certVariable      = "HOLDFAST_CERT"
	keyVariable       = "HOLDFAST_KEY"
	serverVariable    = "HOLDFAST_SERVER_NAME"
	// authTokenVariable has the bearer token, authTokenFileVariable the name of a file with it.
	authTokenVariable     = "HOLDFAST_AUTH_TOKEN"      //nolint:gosec // a name
	authTokenFileVariable = "HOLDFAST_AUTH_TOKEN_FILE" //nolint:gosec // a name
	defaultEndpoints      = "localhost:7400"
)

// target is the cluster that the command line names, and the way to call it. Its flags are set before a command runs
// and constant from then on.
type target struct {
	endpoints []string
	principal string
	// timeout is the time limit of one call.
	timeout time.Duration
	// digests name this client to access lists of the tree: those of the flags, or else that of the environment.
	digests []string
	digest  string
	// tokenFile has the bearer token by which nodes know this client; without one it is token, of the environment.
	// plainToken lets it be sent without TLS.
	tokenFile, token string
	plainToken       bool
	// readOnly allows answers of read-only nodes, for commands that have the flag.
	readOnly bool
	// tls are the files with which this client speaks TLS; all empty, it does not.
	tls client.TLS
	// dialer connects all clients of the run. It knows how connections failed when a command has failed.
	dialer dialer
}

// register adds the flags that all commands share; the environment gives defaults.
func (t *target) register(root *cobra.Command, endpoints, principal string) {
	flags := root.PersistentFlags()
	flags.StringSliceVar(&t.endpoints, "endpoints", splitEndpoints(endpoints),
		"client addresses, host:port, of nodes of the cluster, separated by commas (environment: "+
			endpointsVariable+")")
	flags.StringVar(&t.principal, "principal", principal,
		"name of this client; clients of the same name share one budget, and nobody verifies the name (environment: "+
			principalVariable+")")
	for _, f := range []struct {
		to                   *string
		name, help, variable string
	}{
		{&t.tls.CACert, "cacert", "speak TLS with nodes whose certificates these CAs sign, a PEM file", caVariable},
		{&t.tls.Cert, "cert", "speak TLS with this certificate of the client, a PEM file", certVariable},
		{&t.tls.Key, "key", "private key of --cert, a PEM file", keyVariable},
		{
			&t.tls.ServerName, "server-name", "name that the nodes' certificates must have (default: the endpoint's host)",
			serverVariable,
		},
	} {
		flags.StringVar(f.to, f.name, os.Getenv(f.variable), f.help+" (environment: "+f.variable+")")
	}
	flags.StringVar(&t.tokenFile, "auth-token-file", os.Getenv(authTokenFileVariable),
		"file with the bearer token by which nodes know this client (environment: "+authTokenFileVariable+", or "+
			authTokenVariable+" with the token itself)")
	flags.BoolVar(&t.plainToken, "plain-token", false,
		"send the bearer token without TLS too, where everybody on the way can read it")
	t.token = os.Getenv(authTokenVariable)
	flags.Var(arg.Positive(&t.timeout, 5*time.Second, 0), "call-timeout",
		"time limit of a call, failed attempts included")
}

// registerReadOnly adds the flag of commands that read-only nodes may answer.
func (t *target) registerReadOnly(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&t.readOnly, "read-only", false, "accept a read-only node when no other node answers")
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

// check returns a usage error unless all endpoints are host:port. Commands that need no cluster do not call it.
func (t *target) check() error {
	if slices.ContainsFunc(t.endpoints, malformed) || len(t.endpoints) == 0 {
		return usage("--endpoints %q: want host:port of nodes, with commas between, as in "+
			"localhost:7400,localhost:7410 (or %s)",
			strings.Join(t.endpoints, ","), endpointsVariable)
	}
	return nil
}

func malformed(endpoint string) bool {
	_, port, err := net.SplitHostPort(endpoint)
	return err != nil || port == ""
}

// client returns a client with cfg and the settings that all commands share.
func (t *target) client(cfg client.Config) (*client.Client, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	cfg.Principal = t.principal
	cfg.Token, cfg.PlainToken = t.tokenSource(), t.plainToken
	cfg.Dial = t.dialer.dial
	if t.tls != (client.TLS{}) {
		cfg.TLS = &t.tls
	}
	cfg.Digests = t.digests
	if len(t.digests) == 0 && t.digest != "" {
		cfg.Digests = []string{t.digest}
	}
	cfg.Resolve = net.DefaultResolver.LookupHost // the SDK's default is no resolver beside a Dial
	cl, err := client.New(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return cl, nil
}

// tokenSource returns where the bearer token comes from, nil for nowhere.
func (t *target) tokenSource() client.TokenSource {
	switch {
	case t.tokenFile != "":
		return client.TokenFile(t.tokenFile)
	case t.token != "":
		return client.StaticToken(strings.TrimSpace(t.token))
	default:
		return nil
	}
}

// with runs f with a client of all endpoints. The calls of one client never see older state than an earlier call (N4).
func (t *target) with(f func(cl *client.Client) error) error {
	cl, err := t.client(client.Config{Endpoints: t.endpoints, OnlyEndpoints: true, ReadOnly: t.readOnly})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	return f(cl)
}

// call runs f with a client of all endpoints and the time limit of one call.
func (t *target) call(ctx context.Context, f func(ctx context.Context, cl *client.Client) error) error {
	return t.with(func(cl *client.Client) error {
		calling, cancel := t.bounded(ctx)
		defer cancel()
		return f(calling, cl)
	})
}

// bounded returns ctx with the time limit of one call.
func (t *target) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, t.timeout, lateError{t.timeout})
}

// lateError is the end of a call's time. It is a [context.DeadlineExceeded], because the SDK looks for that.
type lateError struct{ limit time.Duration }

func (e lateError) Error() string { return fmt.Sprintf("not done within --call-timeout %v", e.limit) }

// Is makes e a [context.DeadlineExceeded].
func (lateError) Is(target error) bool { return target == context.DeadlineExceeded }
