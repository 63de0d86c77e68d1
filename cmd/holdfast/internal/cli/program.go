package cli

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
)

// Main runs one command line with the commands of root, and returns the exit code.
func Main(ctx context.Context, env *Env, root *cobra.Command, args []string) int {
	Configure(env, root)
	root.SetArgs(args)
	defer env.Out.flush()
	cmd, err := root.ExecuteContextC(ctx)
	return env.report(cmd, err)
}

// Configure gives root what every command of the program has, and returns root.
func Configure(e *Env, root *cobra.Command) *cobra.Command {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.Args = arg.Command
	root.RunE = func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return e.Out.checkFormat() }
	e.Cluster.register(root, e.Getenv)
	e.Out.register(root)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return refusedFlag(arg.Flag(cmd, err)) })
	root.SetIn(e.Stdin)
	root.SetOut(e.Out.Stdout)
	root.SetErr(e.Out.Stderr)
	arg.Completion(root)
	arg.WrapHelp(root)
	return root
}

// Getenv returns the value of an environment variable, "" when it is not set.
func (e *Env) Getenv(name string) string {
	for _, one := range slices.Backward(e.Environ) {
		if value, ok := strings.CutPrefix(one, name+"="); ok {
			return value
		}
	}
	return ""
}

// report prints the error of a command with the next step, and returns the exit code.
func (e *Env) report(cmd *cobra.Command, err error) int {
	if err == nil {
		return ExitDone
	}
	if program, ok := errors.AsType[ExitError](err); ok {
		return program.Code
	}
	e.Out.Messagef("holdfast: %v\n", OneLine(err))
	if _, isUsage := errors.AsType[UsageError](err); isUsage || !e.running {
		e.Out.Messagef("See %q.\n", cmd.CommandPath()+" --help")
		return ExitUsage
	}
	if hint := e.Cluster.hint(err); hint != "" {
		e.Out.Messagef("%s\n", hint)
	}
	if e.Cluster.notHoldfast(err) || errors.Is(err, client.ErrUnreachable) {
		return ExitUnreachable
	}
	return ExitFailed
}
