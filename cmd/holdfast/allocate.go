package main

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// blockView is a block of ids in JSON.
type blockView struct {
	First idText `json:"first"`
	Last  idText `json:"last"`
	Count uint32 `json:"count"`
}

func (c *cli) idAllocate() *cobra.Command {
	var count uint32
	cmd := &cobra.Command{
		Use: "allocate", Short: "Get ids that are unique across the cluster", Args: noArgs,
		Long: `Get a block of consecutive ids that are unique across the cluster for ever. The cluster gives them
to no other caller and to no session, not even after restarts. Each call gets another block.
Blocks of different nodes have no order in time.`,
		Example: "  holdfast id allocate --count 100 -o json | jq -r .first",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				first, err := cl.AllocateIDs(ctx, count)
				if err != nil {
					return err
				}
				last := first + session.ID(count) - 1
				return c.out.print(blockView{idText(first), idText(last), count}, func() string {
					return properties([][]string{
						{"first", first.String()}, {"last", last.String()}, {"count", number(uint64(count))},
					})
				})
			})
		},
	}
	cmd.Flags().Var(arg.Whole(&count, 1, 1, session.MaxClaim), "count",
		fmt.Sprintf("number of ids, 1 to %d", session.MaxClaim))
	return cmd
}
