package tree

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/tree"
)

// versionFlag is the flag --version, the version that an entry must have.
type versionFlag struct{ version uint64 }

func (f *versionFlag) add(cmd *cobra.Command, what string) {
	cmd.Flags().Var(arg.Whole(&f.version, tree.MaxIndex, 0, tree.MaxIndex), "version",
		"only if "+what+" has this version")
	cmd.Flags().Lookup("version").DefValue = "any"
}

func (f *versionFlag) option() client.WriteOption {
	if f.version == tree.MaxIndex {
		return client.Version(tree.Any)
	}
	return client.Version(int64(f.version)) //nolint:gosec // at most MaxIndex
}

// changeView is the result of a write, in JSON.
type changeView struct {
	Path  string    `json:"path"`
	Stamp string    `json:"stamp"`
	Stat  *statView `json:"stat,omitempty"`
	// Removed counts the entries that were removed.
	Removed int `json:"removed,omitempty"`
}

// setFlags are the flags of "set".
type setFlags struct {
	version versionFlag
}

func newSet(env *cli.Env) *cobra.Command {
	var f setFlags
	cmd := &cobra.Command{
		Use: "set PATH DATA|-|@FILE", Short: "Replace the data of an entry of the tree", Args: pathAndData,
		Long: "Replace the data of an entry of the tree, and print its new version.\n\n" + dataHelp + "\n\n" + cli.WriteHelp,
		Example: `  holdfast set /app/config 'threads = 8'
  holdfast set /app/config @config.toml --version 3`,
		RunE: cli.Run(env, &f, runSet),
	}
	f.version.add(cmd, "the entry")
	return cmd
}

func runSet(ctx context.Context, env *cli.Env, f *setFlags, args []string) error {
	data, err := readArgument(ctx, args[1], env.Stdin)
	if err != nil {
		return err
	}
	return env.Write(ctx, func(ctx context.Context, t *client.Tree) error {
		changed, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Changed, error) {
			return t.Set(ctx, args[0], data, f.version.option())
		})
		if err != nil {
			return err
		}
		v := changeView{Path: args[0], Stamp: changed.Stamp.String(), Stat: viewStat(changed.Stat)}
		return env.Out.Print(v, func() string { return fmt.Sprintf("version %d", changed.Stat.Version) })
	})
}

// pathAndData checks the arguments of "set".
func pathAndData(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return cli.Usage("%q takes a PATH and DATA, not %d arguments", cmd.CommandPath(), len(args))
	}
	return cli.CheckPath(args[0])
}
