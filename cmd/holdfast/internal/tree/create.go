package tree

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/keepalive"
	"holdfast/cmd/internal/arg"
	"holdfast/tree"
)

// createFlags are the flags of "create".
type createFlags struct {
	ephemeral, container, sequential, parents, keepAlive bool

	ttl, lockDelay time.Duration
	acl            []string
	token          cli.TokenFlag
	session        cli.SessionFlags
}

func newCreate(env *cli.Env) *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use: "create PATH [DATA|-|@FILE]", Short: "Create an entry of the tree", Args: createArgs(&f),
		Long: `Create an entry of the tree, and print its path. Without DATA the entry has no data.

` + dataHelp + `

` + cli.WriteHelp + `

An ephemeral entry is removed with its session, so it needs a session that stays: --keep-alive opens
a session and keeps it alive until Ctrl-C, which closes it. --token-file takes the session of a
token over from its current holder, writes, and leaves the session to expire: "holdfast session
keep-alive --token-file" keeps it alive again.`,
		Example: `  holdfast create /app/config 'threads = 4' --parents
  holdfast create /app/members/web1 10.0.0.7:80 --ephemeral --keep-alive --timeout 5s
  holdfast create /app/jobs/job- @job.json --sequential`,
		RunE: cli.Run(env, &f, runCreate),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.ephemeral, "ephemeral", "e", false, "remove the entry with its session")
	flags.BoolVar(&f.container, "container", false, "remove the entry a minute after its last child")
	flags.BoolVarP(&f.sequential, "sequential", "s", false, "append a sequence number of ten digits to PATH")
	flags.BoolVarP(&f.parents, "parents", "p", false, "create missing parents too")
	flags.Var(arg.NotNegative(&f.ttl, 0), "ttl", "remove the entry this long after its last change of data")
	flags.Var(arg.NotNegative(&f.lockDelay, 0), "lock-delay",
		"lock-delay: keep an ephemeral entry this long after its session has expired, at most 1m")
	flags.StringArrayVar(&f.acl, "acl", nil, "grant of the entry's access list, "+grantForm+"; may be repeated")
	flags.BoolVar(&f.keepAlive, "keep-alive", false, "open a session for the entry, and keep it alive until Ctrl-C")
	f.token.Register(cmd)
	f.session.Register(cmd)
	cmd.MarkFlagsMutuallyExclusive("ephemeral", "container", "ttl")
	for _, other := range append(f.session.Names(), "keep-alive") {
		cmd.MarkFlagsMutuallyExclusive("token-file", other)
	}
	return cmd
}

// createArgs checks the arguments and flags of create.
func createArgs(f *createFlags) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 && len(args) != 2 {
			return cli.Usage("%q takes a PATH and DATA, not %d arguments", cmd.CommandPath(), len(args))
		}
		for _, ofNew := range f.session.Names() {
			if cmd.Flags().Changed(ofNew) && !f.keepAlive {
				return cli.Usage("--%s is for the session of --keep-alive", ofNew)
			}
		}
		switch {
		case f.ephemeral && !f.keepAlive && !f.token.IsSet():
			return cli.Usage("--ephemeral: the entry is removed with its session: want --keep-alive, or --token-file for a " +
				"session that lives")
		case f.lockDelay > 0 && !f.ephemeral:
			return cli.Usage("--lock-delay is for --ephemeral")
		case !f.sequential:
			return cli.CheckPath(args[0])
		}
		if err := tree.CheckPrefix(args[0]); err != nil {
			return cli.Usage("%w", err)
		}
		return nil
	}
}

func runCreate(ctx context.Context, env *cli.Env, f *createFlags, args []string) error {
	create, err := f.creation(ctx, env, args)
	if err != nil {
		return err
	}
	switch {
	case f.keepAlive:
		return keepalive.Run(ctx, env, keepalive.Options{
			Open:  f.session.Open,
			First: func(ctx context.Context, s *client.Session) error { return create(ctx, s.Tree()) },
		})
	case f.token.IsSet():
		token, err := f.token.Token(ctx, env.Stdin)
		if err != nil {
			return err
		}
		return env.Cluster.Connect(func(cl *client.Client) error {
			s, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (*client.Session, error) {
				return cl.Resume(ctx, token)
			})
			if err != nil {
				return err
			}
			return create(ctx, s.Tree())
		})
	default:
		return env.Write(ctx, create)
	}
}

// creation returns a function that creates the entry of the arguments and flags, and prints its path.
func (f *createFlags) creation(ctx context.Context, env *cli.Env, args []string,
) (func(ctx context.Context, t *client.Tree) error, error) {
	o := client.CreateOptions{
		Kind: tree.Persistent, Sequential: f.sequential, Parents: f.parents, TTL: f.ttl, LockDelay: f.lockDelay,
	}
	switch {
	case f.ephemeral:
		o.Kind = tree.Ephemeral
	case f.container:
		o.Kind = tree.Container
	case f.ttl > 0:
		o.Kind = tree.Expiring
	}
	var err error
	if o.ACL, err = parseGrants(f.acl); err != nil {
		return nil, err
	}
	var data []byte
	if len(args) == 2 {
		if data, err = readArgument(ctx, args[1], env.Stdin); err != nil {
			return nil, err
		}
	}
	if err := tree.CheckOp(tree.Create{
		Path: args[0], Sequential: f.sequential, Data: data, Kind: o.Kind, TTL: f.ttl, LockDelay: f.lockDelay,
	}); err != nil {
		return nil, cli.Usage("%w", err)
	}
	return func(ctx context.Context, t *client.Tree) error {
		created, err := cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Created, error) {
			return t.Create(ctx, args[0], data, o)
		})
		if err != nil {
			return err
		}
		v := changeView{Path: created.Path, Stamp: created.Stamp.String(), Stat: viewStat(created.Stat)}
		return env.Out.PrintLine(v, cli.Escape(created.Path))
	}, nil
}
