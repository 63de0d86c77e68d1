package id

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// blockView is a block of ids in JSON.
type blockView struct {
	First view.ID `json:"first"`
	Last  view.ID `json:"last"`
	Count uint32  `json:"count"`
}

// allocateFlags are the flags of "allocate".
type allocateFlags struct {
	count uint32
}

func newAllocate(env *cli.Env) *cobra.Command {
	var f allocateFlags
	cmd := &cobra.Command{
		Use: "allocate", Short: "Get ids that are unique across the cluster", Args: cli.NoArgs,
		Long: `Get a block of consecutive ids that are unique across the cluster for ever. The cluster gives them
to no other caller and to no session, not even after restarts. Each call gets another block.
Blocks of different nodes have no order in time.`,
		Example: "  holdfast id allocate --count 100 -o json | jq -r .first",
		RunE:    cli.Run(env, &f, runAllocate),
	}
	cmd.Flags().Var(arg.Whole(&f.count, 1, 1, session.MaxClaim), "count",
		fmt.Sprintf("number of ids, 1 to %d", session.MaxClaim))
	return cmd
}

func runAllocate(ctx context.Context, env *cli.Env, f *allocateFlags, _ []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		first, err := cl.AllocateIDs(ctx, f.count)
		if err != nil {
			return err
		}
		last := first + session.ID(f.count) - 1
		return env.Out.Print(blockView{view.ID(first), view.ID(last), f.count}, func() string {
			return cli.Properties([][]string{
				{"first", first.String()}, {"last", last.String()}, {"count", cli.Number(uint64(f.count))},
			})
		})
	})
}
