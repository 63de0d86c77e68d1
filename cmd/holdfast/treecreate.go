package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/tree"
)

// createFlags are the flags of create.
type createFlags struct {
	ephemeral, container, sequential, parents, hold bool

	ttl, linger time.Duration
	acl         []string
	token       tokenFlag
	open        openFlags
}

func (c *treeCommands) treeCreate() *cobra.Command {
	var f createFlags
	cmd := &cobra.Command{
		Use: "create PATH [DATA|-|@FILE]", Short: "Make an entry of the tree", Args: createArgs(&f),
		Long: `Make an entry of the tree, and print its path. Without DATA the entry has no data.

` + dataHelp + `

` + writeHelp + `

An ephemeral entry ends with its session, so it needs one that lasts: --hold opens a session and
keeps it alive until Ctrl-C, which closes it. --token-file takes the session of a token over from
its present holder, writes, and leaves the session to expire: "holdfast session hold
--token-file" keeps it alive again.`,
		Example: `  holdfast create /app/config 'threads = 4' --parents
  holdfast create /app/members/web1 10.0.0.7:80 --ephemeral --hold --timeout 5s
  holdfast create /app/jobs/job- @job.json --sequential`,
		RunE: func(cmd *cobra.Command, args []string) error {
			create, err := f.create(cmd.Context(), c, args)
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), c, create)
		},
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.ephemeral, "ephemeral", "e", false, "the entry ends with its session")
	flags.BoolVar(&f.container, "container", false, "the entry ends a minute after its last child")
	flags.BoolVarP(&f.sequential, "sequential", "s", false, "append ten digits that grow with each child to PATH")
	flags.BoolVarP(&f.parents, "parents", "p", false, "make missing entries above too")
	flags.Var(arg.NotNegative(&f.ttl, 0), "ttl", "the entry ends this long after its last change of data")
	flags.Var(arg.NotNegative(&f.linger, 0), "linger",
		"an ephemeral entry stays this long after its session has expired: the lock-delay, at most 1m")
	flags.StringArrayVar(&f.acl, "acl", nil, "grant of the entry's access list, "+grantForm+"; may be repeated")
	flags.BoolVar(&f.hold, "hold", false, "open a session for the entry, and keep it alive until Ctrl-C")
	f.token.add(cmd)
	f.open.add(cmd)
	cmd.MarkFlagsMutuallyExclusive("ephemeral", "container", "ttl")
	for _, other := range []string{"hold", "timeout", "label", "local"} {
		cmd.MarkFlagsMutuallyExclusive("token-file", other)
	}
	return c.ofTree(cmd)
}

// createArgs checks the arguments and flags of create.
func createArgs(f *createFlags) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if len(args) != 1 && len(args) != 2 {
			return usage("%q takes a PATH and DATA, not %d arguments", cmd.CommandPath(), len(args))
		}
		for _, ofNew := range []string{"timeout", "label", "local"} {
			if cmd.Flags().Changed(ofNew) && !f.hold {
				return usage("--%s is for the session of --hold", ofNew)
			}
		}
		switch {
		case f.ephemeral && !f.hold && !f.token.given():
			return usage("--ephemeral: the entry ends with its session: want --hold, or --token-file for a session " +
				"that lives")
		case f.linger > 0 && !f.ephemeral:
			return usage("--linger is for --ephemeral")
		case !f.sequential:
			return pathGiven(args[0])
		}
		if err := tree.CheckPrefix(args[0]); err != nil {
			return usageError{err}
		}
		return nil
	}
}

// creation makes an entry.
type creation func(ctx context.Context, t *client.Tree) (client.Created, error)

// create returns what the arguments and flags ask for.
func (f *createFlags) create(ctx context.Context, c *treeCommands, args []string) (creation, error) {
	o := client.CreateOptions{
		Kind: tree.Persistent, Sequential: f.sequential, Parents: f.parents, TTL: f.ttl, Linger: f.linger,
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
		if data, err = dataGiven(ctx, args[1], c.stdin); err != nil {
			return nil, err
		}
	}
	if err := tree.CheckOp(tree.Create{
		Path: args[0], Sequential: f.sequential, Data: data, Kind: o.Kind, TTL: f.ttl, Linger: f.linger,
	}); err != nil {
		return nil, usageError{err}
	}
	return func(ctx context.Context, t *client.Tree) (client.Created, error) {
		return limited(ctx, c.target, func(ctx context.Context) (client.Created, error) {
			return t.Create(ctx, args[0], data, o)
		})
	}, nil
}

// run makes the entry, in the session that the flags say.
func (f *createFlags) run(ctx context.Context, c *treeCommands, create creation) error {
	switch {
	case f.hold:
		h := holder{
			target: c.target, out: c.out, get: f.open.open, end: (*client.Session).Close,
			first: func(ctx context.Context, s *client.Session) error {
				return c.created(ctx, s.Tree(), create)
			},
		}
		return h.hold(ctx)
	case f.token.given():
		token, err := f.token.token(ctx, c.stdin)
		if err != nil {
			return err
		}
		return c.target.with(func(cl *client.Client) error {
			s, err := limited(ctx, c.target, func(ctx context.Context) (*client.Session, error) {
				return cl.Resume(ctx, token)
			})
			if err != nil {
				return err
			}
			return c.created(ctx, s.Tree(), create)
		})
	default:
		return c.writing(ctx, func(ctx context.Context, t *client.Tree) error { return c.created(ctx, t, create) })
	}
}

// created makes an entry and prints its path.
func (c *treeCommands) created(ctx context.Context, t *client.Tree, create creation) error {
	done, err := create(ctx, t)
	if err != nil {
		return err
	}
	v := changeView{Path: done.Path, Stamp: done.Stamp.String(), Stat: viewStat(done.Stat)}
	return c.out.printLine(v, escaped(done.Path))
}

// leave closes a session whose first write was refused.
func (h *holder) leave(ctx context.Context, s *client.Session, err error) error {
	closing, cancel := h.target.bounded(context.WithoutCancel(ctx))
	defer cancel()
	if closeErr := s.Close(closing); closeErr != nil && !errors.Is(closeErr, session.ErrExpired) {
		return fmt.Errorf("%w; then close the session: %w", err, closeErr)
	}
	return err
}
