package lock

import (
	"context"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
)

// electionsPath is the entry above the elections that are given by name.
const electionsPath = "/elections"

// electionHelp is part of the help of every command that takes the name of an election.
const electionHelp = `NAME means the entry ` + electionsPath + `/NAME of the tree, unless it begins with a slash.`

// electFlags are the flags of "elect".
type electFlags struct {
	program programFlags
	value   string
}

func newElect(env *cli.Env) *cobra.Command {
	var f electFlags
	cmd := &cobra.Command{
		Use: "elect NAME -- COMMAND [ARGUMENT...]", Short: "Run a program while being the leader", Args: programArgs,
		Long: `Campaign in an election, run a program while this command is the leader, and resign. Candidates
become leader in the order in which they came. Other clients see the candidate's --value. With
--wait 0 the command fails if there is a leader already.

` + electionHelp + `
An election with the name show must be given by its path.

` + programHelp,
		Example: `  holdfast elect scheduler --value 10.0.0.7:80 -- ./scheduler
  holdfast elect show scheduler`,
		RunE: cli.Run(env, &f, runElect),
	}
	f.program.register(cmd, "the leadership")
	cmd.Flags().StringVar(&f.value, "value", "", "data of the candidate for other clients, such as its address")
	cmd.AddCommand(newElectShow(env))
	return cmd
}

func runElect(ctx context.Context, env *cli.Env, f *electFlags, args []string) error {
	path, err := pathOf(electionsPath, args[0])
	if err != nil {
		return err
	}
	r := runner{env: env, flags: &f.program, work: "elect", command: args[1:]}
	r.acquire = func(ctx context.Context, s *client.Session) (hold, error) {
		e := recipes.NewElection(s, path, recipes.WithLockDelay(f.program.lockDelay))
		campaign := e.Campaign
		if f.program.tries() {
			campaign = e.TryCampaign
			limited, cancel := env.Cluster.WithTimeout(ctx)
			defer cancel()
			ctx = limited
		}
		l, err := campaign(ctx, []byte(f.value))
		if err != nil {
			return hold{}, withBusyHint(err, "\"holdfast elect show NAME\" shows the leader.")
		}
		return hold{Hold: l, path: l.Path(), token: l.Token(), lost: l.Err, release: l.Resign}, nil
	}
	return r.run(ctx)
}

func newElectShow(env *cli.Env) *cobra.Command {
	var f showFlags
	cmd := &cobra.Command{
		Use: "show NAME", Short: "Show the leader and the candidates of an election", Args: arg.One("NAME"),
		Long: `Show the leader and the candidates of an election, in their order. VALUE is the --value of each. The
exit code is 0 also without a leader.

` + electionHelp,
		RunE: cli.Run(env, &f, runElectShow),
	}
	f.reads.Register(cmd, env.Cluster)
	return cmd
}

func runElectShow(ctx context.Context, env *cli.Env, f *showFlags, args []string) error {
	return printContenders(ctx, env, f, electionsPath, args[0], "VALUE")
}
