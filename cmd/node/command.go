package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	"holdfast/cmd/internal/about"
	"holdfast/cmd/internal/arg"
	"holdfast/console"
	"holdfast/node"
	"holdfast/node/config"
)

// Exit codes.
const (
	exitDone   = 0
	exitFailed = 1
	exitUsage  = 2
)

// failure is the error of a command that was understood but did not work.
type failure struct{ error }

// Unwrap returns the cause.
func (f failure) Unwrap() error { return f.error }

// run runs the program with its arguments, and returns the exit code. It returns soon after ctx ends.
func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) int {
	root := &cobra.Command{
		Use:           "node",
		Short:         "Holdfast server: one node of a cluster that keeps sessions",
		SilenceUsage:  true,
		SilenceErrors: true,
		Args:          arg.Command,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	//nolint:contextcheck // cobra passes the context to commands: ExecuteContext
	root.AddCommand(runCommand(environ), devCommand(environ), healthCommand(environ), restoreCommand(), recoverCommand(),
		about.Command(func(cmd *cobra.Command, _ about.Build, text string) error {
			_, err := fmt.Fprintln(cmd.OutOrStdout(), text)
			return err
		}))
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error { return flagRefused(arg.Flag(cmd, err)) })
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	arg.Completion(root)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitDone
	}
	//nolint:errcheck // the output is where errors go
	fmt.Fprintln(stderr, "node: "+strings.ReplaceAll(err.Error(), "\n", "\n  "))
	if errors.As(err, &failure{}) {
		return exitFailed
	}
	return exitUsage
}

// flagRefused phrases a refused flag like node run phrases a refused setting.
func flagRefused(err error) error {
	if r, ok := arg.Refused(err); ok {
		return &config.SettingError{Setting: r.Flag, Value: r.Given, Limit: "must be " + r.Want}
	}
	return err
}

func runCommand(environ []string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run one node until SIGTERM or Ctrl-C (a second signal ends it at once)",
		Long: "Run one node until SIGTERM or Ctrl-C (a second signal ends it at once).\n\n" +
			"Every flag can be given as an environment variable, --min-timeout as HOLDFAST_MIN_TIMEOUT, and in the " +
			"YAML file that\n" +
			"--config names, as min_timeout. Flags come before the environment, the environment before the file.\n" +
			"Peers are written NODE=HOST[:RAFT_PORT[:PEER_PORT]][@CLIENT_HOST:PORT], separated by commas, an IPv6 " +
			"host in brackets.",
		Args: arg.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(cmd.Flags(), environ)
			if err != nil {
				return fmt.Errorf("the configuration cannot work:\n%w", err)
			}
			memory, err := limitMemory(cfg.Resources.MemoryLimit, environ, os.DirFS("/"))
			if err != nil {
				return failure{fmt.Errorf("finding the limit of memory: %w: set memory_limit", err)}
			}
			logger, audit := newLoggers(cmd.ErrOrStderr(), cfg.Log.Level, cfg.Log.Format)
			return runNode(cmd.Context(), cfg, node.Options{
				Logger: logger, Audit: audit, Version: about.Version(), Memory: memory,
				Console: console.ForNode, Origins: config.Origins(cmd.Flags(), environ),
			})
		},
	}
	config.RegisterFlags(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

func runNode(ctx context.Context, cfg config.Config, o node.Options) error {
	//nolint:contextcheck // Run ends what New starts
	n, err := node.New(cfg, o)
	if err != nil {
		return failure{err}
	}
	var notifying sync.WaitGroup
	telling, cancel := context.WithCancel(context.WithoutCancel(ctx))
	notifying.Go(func() { notifySystemd(ctx, telling, n.Stalled, o.Logger) })
	err = n.Run(ctx)
	cancel()
	notifying.Wait()
	if err != nil {
		return failure{err}
	}
	return nil
}

func newLogger(to io.Writer, level, format string) hclog.Logger {
	logger, _ := newLoggers(to, level, format)
	return logger
}

// newLoggers returns a logger, and an audit logger of the same form for operators' actions: audit lines are written at
// every level but off.
func newLoggers(to io.Writer, level, format string) (logger, audit hclog.Logger) {
	options := hclog.LoggerOptions{
		Name:       "node",
		Level:      hclog.LevelFromString(level),
		Output:     to,
		JSONFormat: format == "json",
		Mutex:      new(sync.Mutex),
	}
	logger = hclog.New(&options)
	if logger.IsInfo() || options.Level == hclog.Off {
		return logger, logger
	}
	options.Level = hclog.Info
	return logger, hclog.New(&options)
}
