package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
)

const (
	endpointsVariable = "HOLDFAST_ENDPOINTS"
	principalVariable = "HOLDFAST_PRINCIPAL"
	defaultEndpoints  = "localhost:7400"
)

// usageError is a mistake in the command line that only its command can find.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// cli is what all commands share.
type cli struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	// started: the command line was understood, and its command runs; other errors than usageErrors are no longer about
	// usage.
	started   bool
	endpoints []string
	principal string
	output    string
	timeout   time.Duration
	// readOnly has read-only nodes do, of the commands that have the flag.
	readOnly bool
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{stdin: stdin, stdout: stdout, stderr: stderr}
	root := c.root() //nolint:contextcheck // the commands get ctx from ExecuteContextC
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	arg.Completion(root)
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	complain(stderr, "holdfast: %v\n", oneLine(err))
	_, isUsage := errors.AsType[usageError](err)
	if isUsage || !c.started {
		complain(stderr, "See %q.\n", cmd.CommandPath()+" --help")
		return exitUsage
	}
	if next := advice(err, c.endpoints); next != "" {
		complain(stderr, "%s\n", next)
	}
	if foreign(err) || errors.Is(err, client.ErrUnreachable) {
		return exitUnreachable
	}
	return exitFailed
}

// complain writes to the person; there is nobody to tell when that fails.
func complain(w io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(w, format, args...) }

// oneLine is what an error says, which a server may have said, for a terminal. It may repeat an argument, and a person
// may have given a token where another was wanted.
func oneLine(err error) string {
	return withoutSecrets(escaped(strings.ReplaceAll(err.Error(), "\n", ": ")))
}

// version is set by the linker: see the Makefile.
var version string

// buildVersion returns what the Makefile said, or else what Go knows of the build.
func buildVersion() string {
	if info, ok := debug.ReadBuildInfo(); version == "" && ok {
		return cmp.Or(info.Main.Version, "unknown")
	}
	return cmp.Or(version, "unknown")
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Keep sessions alive in a Holdfast cluster",
		Long: `Keep sessions alive in a Holdfast cluster, and look at them.

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no node of the cluster reachable.`,
		Example: `  holdfast session hold --timeout 10s --label service=web
  holdfast session ls --label service=web
  holdfast cluster status --endpoints localhost:7400,localhost:7410,localhost:7420`,
		Version:       buildVersion(),
		SilenceErrors: true, SilenceUsage: true,
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.check() },
	}
	flags := root.PersistentFlags()
	flags.StringSliceVar(&c.endpoints, "endpoints", splitEndpoints(os.Getenv(endpointsVariable)),
		"client addresses, host:port, of nodes of the cluster (environment: "+endpointsVariable+")")
	flags.StringVar(&c.principal, "principal", os.Getenv(principalVariable),
		"name of this client, which shares one budget with all of that name; nobody verifies it (environment: "+
			principalVariable+")")
	flags.StringVarP(&c.output, "output", "o", "table", "output: table or json")
	flags.Var(arg.Positive(&c.timeout, 5*time.Second, 0), "call-timeout",
		"how long a call may take, failed attempts included")
	completeWords(root, "output", "table", "json")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return flagRefused(err) })
	root.AddCommand(group("session", "Open, keep alive, show and close sessions",
		c.sessionOpen(), c.sessionHold(), c.sessionTouch(), c.sessionUpgrade(), c.sessionClose(), c.sessionList(),
		c.sessionShow()),
		group("cluster", "Show the nodes of the cluster", c.clusterStatus(), c.clusterMembers()),
		c.ping(),
		group("id", "Take ids apart and put them together", c.idDecode(), c.idEncode(), c.idNew(), c.idZXID(),
			c.idAllocate()))
	c.watch(root)
	return root
}

// watch has every command below parent note that it runs.
func (c *cli) watch(parent *cobra.Command) {
	for _, cmd := range parent.Commands() {
		runE := cmd.RunE
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			c.started = true
			return runE(cmd, args)
		}
		c.watch(cmd)
	}
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

// check looks at the flags that all commands share.
func (c *cli) check() error {
	if c.output != "table" && c.output != "json" {
		return usage("-o %q: want table or json", c.output)
	}
	return nil
}

// group is a command that only has others below it.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: name, Short: short, Args: cobra.ArbitraryArgs,
		RunE: func(_ *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, isToken) {
				return usage(tokenAsID)
			}
			if len(args) > 0 {
				return usage("unknown command %q for %q", args[0], "holdfast "+name)
			}
			return usage("%q needs a command", "holdfast "+name)
		},
	}
	g.AddCommand(commands...)
	return g
}

// completeWords completes the values of a flag; it fails only for a flag that does not exist.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// withClient runs f with a client and the time that calls may take.
func (c *cli) withClient(ctx context.Context, f func(ctx context.Context, cl *client.Client) error) error {
	return c.withClientFor(func(cl *client.Client) error { return c.timed(ctx, cl, f) })
}

// checkEndpoints looks at what only commands that need a cluster use.
func (c *cli) checkEndpoints() error {
	if slices.ContainsFunc(c.endpoints, malformed) || len(c.endpoints) == 0 {
		return usage("--endpoints %q: want host:port of nodes, with commas between, as in "+
			"localhost:7400,localhost:7410 (or %s)",
			strings.Join(c.endpoints, ","), endpointsVariable)
	}
	return nil
}

// newClient returns a client with what all commands have in common.
func (c *cli) newClient(cfg client.Config) (*client.Client, error) {
	if err := c.checkEndpoints(); err != nil {
		return nil, err
	}
	cfg.Principal = c.principal
	cl, err := client.New(cfg)
	if err != nil {
		return nil, usageError{err}
	}
	return cl, nil
}

func malformed(endpoint string) bool {
	_, port, err := net.SplitHostPort(endpoint)
	return err != nil || port == ""
}

// withClientFor runs f with a client, for several calls: what one has seen, the next does not go behind.
func (c *cli) withClientFor(f func(cl *client.Client) error) error {
	cl, err := c.newClient(client.Config{Endpoints: c.endpoints, ReadOnly: c.readOnly})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	return f(cl)
}

// timed gives f the time that calls may take.
func (c *cli) timed(ctx context.Context, cl *client.Client,
	f func(ctx context.Context, cl *client.Client) error,
) error {
	ctx, cancel := c.bounded(ctx)
	defer cancel()
	return f(ctx, cl)
}

// bounded returns ctx for one call.
func (c *cli) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithTimeoutCause(ctx, c.timeout, lateError{c.timeout})
}
