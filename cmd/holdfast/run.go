package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/about"
	"holdfast/cmd/internal/arg"
)

// Exit codes.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnreachable = 3
)

// usageError is a mistake in the command line that the command itself finds, not the flag parser.
type usageError struct{ error }

func usage(format string, args ...any) error { return usageError{fmt.Errorf(format, args...)} }

// cli is one run of the program. Its methods build the commands that reach a cluster.
type cli struct {
	stdin  io.Reader
	out    *printer
	target *target
	// started is set once the command line was understood and its command runs. An error before then is about usage; a
	// later error is about usage only if it is a usageError.
	started bool
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	c := &cli{
		stdin: stdin, target: &target{},
		out: &printer{stdout: stdout, stderr: stderr, terminal: isTerminal(stdout), columns: width(stdout)},
	}
	root := c.root() //nolint:contextcheck // the commands get ctx from ExecuteContextC
	root.SetArgs(args)
	root.SetIn(stdin)
	root.SetOut(stdout)
	root.SetErr(stderr)
	arg.Completion(root)
	arg.WrapHelp(root)
	defer c.out.finish()
	cmd, err := root.ExecuteContextC(ctx)
	if err == nil {
		return exitDone
	}
	if program, ok := errors.AsType[exitError](err); ok {
		return program.code
	}
	c.out.complain("holdfast: %v\n", oneLine(err))
	_, isUsage := errors.AsType[usageError](err)
	if isUsage || !c.started {
		c.out.complain("See %q.\n", cmd.CommandPath()+" --help")
		return exitUsage
	}
	if next := c.target.advice(err); next != "" {
		c.out.complain("%s\n", next)
	}
	if c.target.foreign(err) || errors.Is(err, client.ErrUnreachable) {
		return exitUnreachable
	}
	return exitFailed
}

func (c *cli) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "holdfast",
		Short: "Sessions of a Holdfast cluster, and the tree that hangs on them",
		Long: `Keep sessions alive in a Holdfast cluster, and use the tree of entries that hang on them.

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no node of the cluster reachable.`,
		Example: `  holdfast session hold --timeout 10s --label service=web
  holdfast session ls --label service=web
  holdfast create /services/web1 10.0.0.7:80 --parents --ephemeral --hold
  holdfast watch --recursive /services
  holdfast lock backup -- ./backup.sh
  holdfast cluster status --endpoints localhost:7400,localhost:7410,localhost:7420`,
		SilenceErrors: true, SilenceUsage: true, Args: arg.Command,
		RunE:              func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		PersistentPreRunE: func(*cobra.Command, []string) error { return c.out.check() },
	}
	c.target.register(root, os.Getenv(endpointsVariable), os.Getenv(principalVariable))
	c.target.digest = os.Getenv(digestVariable)
	c.out.register(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagRefused(arg.Flag(cmd, err)) })
	root.AddCommand(group("session", "Open, keep alive, show and close sessions",
		c.sessionOpen(), c.sessionHold(), c.sessionTouch(), c.sessionUpgrade(), c.sessionClose(), c.sessionList(),
		c.sessionShow(), c.sessionWatch(), c.sessionWhy(), c.sessionDeaths(), c.sessionKill(),
		sessionExtend(c)),
		group("cluster", "Show the nodes of the cluster", c.clusterStatus(), c.clusterMembers(),
			connectionCommand{c}.command(),
			memberCommands{c}.add(), memberCommands{c}.promote(), memberCommands{c}.demote(),
			memberCommands{c}.remove(), memberCommands{c}.transfer(),
			c.clusterDrain(), c.clusterUndrain(), clusterFreeze(c), clusterThaw(c), clusterWatch(c)),
		c.snapshot(),
		group("auth", "Make and check the bearer tokens that nodes take", c.authToken()),
		c.ping(),
		group("id", "Decode, encode, make and allocate ids",
			idDecode(c.out), idEncode(c.out), idNew(c.out), idZXID(c.out), c.idAllocate()), cert(c.out))
	inTree := &treeCommands{c}
	held := holds{inTree}
	root.AddCommand(held.lock(), held.elect(), held.register())
	root.AddCommand(inTree.all()...)
	root.AddCommand(inTree.imports())
	root.AddCommand(topCommand(c))
	root.AddCommand(about.Command(func(_ *cobra.Command, b about.Build, text string) error {
		return c.out.print(b, func() string { return text })
	}))
	c.watch(root)
	return root
}

// watch makes every command below parent set started when it runs.
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

// flagRefused turns a refused flag value into a usage error in this program's words.
func flagRefused(err error) error {
	if r, ok := arg.Refused(err); ok {
		return usage("%s %q: want %s", r.Flag, r.Given, r.Want)
	}
	return err
}

// group returns a command that does nothing but hold other commands.
func group(name, short string, commands ...*cobra.Command) *cobra.Command {
	g := &cobra.Command{
		Use: name, Short: short,
		Args: func(cmd *cobra.Command, args []string) error {
			if slices.ContainsFunc(args, isToken) {
				return usage(tokenAsID)
			}
			return arg.Command(cmd, args)
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return usage("%q needs a command", cmd.CommandPath()) },
	}
	g.AddCommand(commands...)
	return g
}

// completeWords registers the values that shells offer for a flag. It panics if cmd has no such flag.
func completeWords(cmd *cobra.Command, flag string, words ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err)
	}
}

// oneLine returns the text of an error on one line, fit for a terminal and without credentials. A server may have
// written the text, or the text may repeat an argument, such as a token given in place of an id.
func oneLine(err error) string {
	return withoutSecrets(escaped(strings.ReplaceAll(err.Error(), "\n", ": ")))
}
