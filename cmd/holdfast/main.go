// Holdfast is the command line for people and scripts: sessions of a cluster, the tree, locks, and the cluster itself.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/auth"
	"holdfast/cmd/holdfast/internal/backup"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/cluster"
	"holdfast/cmd/holdfast/internal/id"
	"holdfast/cmd/holdfast/internal/lock"
	"holdfast/cmd/holdfast/internal/session"
	"holdfast/cmd/holdfast/internal/tree"
	"holdfast/cmd/internal/about"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // the first signal interrupts the command, the second kills the process
	env := cli.NewEnv(os.Stdin, os.Stdout, os.Stderr)
	os.Exit(cli.Main(ctx, env, root(env), os.Args[1:]))
}

// root returns the program's commands.
func root(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "holdfast",
		Short: "Sessions, locks and the tree of a Holdfast cluster",
		Long: `Keep sessions alive in a Holdfast cluster, use its locks and its tree of entries, and operate it.

Exit codes: 0 done, 1 refused or failed, 2 usage, 3 no node of the cluster reachable.`,
		Example: `  holdfast session keep-alive --timeout 10s --label service=web
  holdfast session ls --label service=web
  holdfast create /services/web1 10.0.0.7:80 --parents --ephemeral --keep-alive
  holdfast watch --recursive /services
  holdfast lock backup -- ./backup.sh
  holdfast cluster status --endpoints localhost:7400,localhost:7410,localhost:7420`,
	}
	for _, group := range []func(*cli.Env) []*cobra.Command{
		session.New, cluster.New, tree.New, lock.New, backup.New, auth.New, id.New,
	} {
		cmd.AddCommand(group(env)...)
	}
	cmd.AddCommand(about.Command(func(_ *cobra.Command, b about.Build, text string) error {
		return env.Out.Print(b, func() string { return text })
	}))
	return cmd
}
