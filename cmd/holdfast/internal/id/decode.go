package id

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session/ids"
)

func newDecode(env *cli.Env) *cobra.Command {
	var flags layoutFlags
	cmd := &cobra.Command{
		Use: "decode ID...", Short: "Show the parts of ids, such as node, time and counter", Args: arg.Some("ID"),
		Example: `  holdfast id decode 0x0100000000010000
  holdfast id decode --layout zookeeper 0x10000295bb80000
  holdfast id decode --layout snowflake 1541815603606036480`,
		RunE: cli.Run(env, &flags, runDecode),
	}
	flags.register(cmd, ids.HoldfastLayout().Name())
	return cmd
}

func runDecode(_ context.Context, env *cli.Env, flags *layoutFlags, args []string) error {
	l, err := flags.layout()
	if err != nil {
		return err
	}
	views := make([]idView, 0, len(args))
	for _, text := range args {
		if err := cli.RefuseToken(text); err != nil {
			return err
		}
		id, err := l.read(text)
		if err != nil {
			return cli.Usage("ID %q: %w", text, err)
		}
		view, err := l.view(id)
		if err != nil {
			return cli.Usage("ID %q: %w", text, err)
		}
		views = append(views, view)
	}
	return env.Out.Print(views, func() string { return l.table(views) })
}
