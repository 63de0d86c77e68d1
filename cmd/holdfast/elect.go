package main

import (
	"context"
	"errors"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/internal/arg"
)

// electionsPath is where elections are that are given by name.
const electionsPath = "/elections"

// electionHelp is part of the help of every command that takes the name of an election.
const electionHelp = `NAME stands for the entry ` + electionsPath + `/NAME of the tree, unless it begins with a slash.`

func (c holds) elect() *cobra.Command {
	var flags underFlags
	var value string
	cmd := &cobra.Command{
		Use: "elect NAME -- COMMAND [ARGUMENT...]", Short: "Run a program while this command leads", Args: programArgs,
		Long: `Stand for election, run a program while this command leads, and resign. Candidates come to lead in
the order in which they came. Others see the candidate's --value. With --wait 0 the command fails if
somebody leads.

` + electionHelp + ` An election with the name show is given by its path.

` + underHelp,
		Example: `  holdfast elect scheduler --value 10.0.0.7:80 -- ./scheduler
  holdfast elect show scheduler`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := below(electionsPath, args[0])
			if err != nil {
				return err
			}
			u := under{holds: c, flags: &flags, label: "elect", command: args[1:]}
			u.take = func(ctx context.Context, s *client.Session) (held, error) {
				e := recipes.NewElection(s, path, recipes.WithLinger(flags.linger))
				return c.campaign(ctx, &flags, e, []byte(value))
			}
			return u.run(cmd.Context())
		},
	}
	flags.add(cmd, "the leadership")
	cmd.Flags().StringVar(&value, "value", "", "what others see of the candidate, such as its address")
	cmd.AddCommand(c.contendersShow(electionsPath, "VALUE", &cobra.Command{
		Use: "show NAME", Short: "Show who leads and who stands for election", Args: arg.One("NAME"),
		Long: `Show who leads and who stands for election, in their order. VALUE is the --value of each. The exit
code is 0 also when nobody leads.

` + electionHelp,
	}))
	return c.ofTree(cmd)
}

// ledError is a [recipes.ErrBusy] of an election.
type ledError struct{ error }

// Unwrap returns the cause.
func (e ledError) Unwrap() error { return e.error }

// campaign waits to lead, in the way that the flags say.
func (c holds) campaign(ctx context.Context, f *underFlags, e *recipes.Election, value []byte) (held, error) {
	campaign := e.Campaign
	if f.tries() {
		campaign = e.TryCampaign
		bounded, cancel := c.target.bounded(ctx)
		defer cancel()
		ctx = bounded
	}
	l, err := campaign(ctx, value)
	if errors.Is(err, recipes.ErrBusy) {
		return held{}, ledError{err}
	}
	if err != nil {
		return held{}, err
	}
	return held{Hold: l, path: l.Path(), token: l.Token(), lost: l.Err, giveUp: l.Resign}, nil
}
