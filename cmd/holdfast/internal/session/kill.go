package session

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// killFlags are the flags of "session kill".
type killFlags struct {
	labels      []string
	caller      string
	owner       uint8
	scope       string
	reason      string
	yes, dryRun bool
}

func newKill(env *cli.Env) *cobra.Command {
	var f killFlags
	cmd := &cobra.Command{
		Use: "kill [ID]...", Short: "Kill sessions of any client",
		Args: cobra.ArbitraryArgs,
		Long: `Kill sessions: those with the IDs, or those that match --label, --owner and --scope, or those of a
--principal. Their clients learn at once that an operator killed them; ephemeral entries of the tree
are removed, and wills for an expiry are carried out. A kill cannot be undone.

The command lists the sessions that match, asks, and kills only sessions of that list. --yes skips
the question, and --dry-run kills none. Sessions are killed in batches; when one cannot be killed,
the command continues with the next. The outcome "unknown" means that a node received the request
and did not answer: the session may have ended. It is safe to run the command again. The exit code
is 1 if a session lives on, or may live on.

With --principal the command asks every member for the connections of a caller: the name of a token,
of a certificate as "holdfast cluster connections" shows it, or a principal such as ip:10.0.0.7. The
whole name must match, and a node must have verified it. A client that makes single calls, or that
is disconnected, has no connection: select its sessions by label.

A local session is known to its own node alone. The command asks every member for its local sessions
that match. When a member does not answer, a line on the standard error names it, its local sessions
are missing, and the exit code is 1. --scope global skips local sessions.`,
		Example: `  holdfast session kill 0x01004f2a3c5d0001 --reason "stuck since the deploy"
  holdfast session kill --label service=web --dry-run
  holdfast session kill --label service=web --yes
  holdfast session kill --principal uri:holdfast://prod/client/web --dry-run`,
		RunE: cli.Run(env, &f, runKill),
	}
	cli.AddOwnerFlag(cmd, &f.owner)
	cli.AddScopeFlag(cmd, &f.scope)
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, cli.SelectLabelHelp)
	flags.StringVar(&f.caller, "principal", "", "verified name of the client, or one of its principals")
	flags.StringVar(&f.reason, "reason", "", fmt.Sprintf("reason for the death certificates, at most %d bytes",
		session.MaxWhy))
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list the sessions, and kill none")
	return cmd
}

func runKill(ctx context.Context, env *cli.Env, f *killFlags, args []string) error {
	return env.Cluster.Connect(func(cl *client.Client) error {
		found, err := selectSessions(ctx, env, cl, f, args)
		if err != nil {
			return err
		}
		if f.dryRun || len(found.ids) == 0 {
			if err := printWouldKill(env, found.ids); err != nil {
				return err
			}
			return found.missing()
		}
		if !f.yes {
			if err := confirm(ctx, env, found.ids); err != nil {
				return err
			}
		}
		if err := killAll(ctx, env, cl, found.ids, f.reason); err != nil {
			return err
		}
		return found.missing()
	})
}

// printWouldKill prints the sessions that the command would kill.
func printWouldKill(env *cli.Env, ids []session.ID) error {
	views := make([]killedView, len(ids))
	for i, id := range ids {
		views[i] = killedView{ID: view.ID(id), Outcome: outcomeWould}
	}
	return env.Out.Print(views, func() string {
		return strings.TrimLeft(idLines(ids)+fmt.Sprintf("\n%d sessions would be killed", len(ids)), "\n")
	})
}

func idLines(ids []session.ID) string {
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = id.String()
	}
	return strings.Join(lines, "\n")
}

// shownIDs is how many ids the question shows.
const shownIDs = 10

// confirm asks the user whether to kill sessions.
func confirm(ctx context.Context, env *cli.Env, ids []session.ID) error {
	env.Out.Messagef("%s\n", idLines(ids[:min(len(ids), shownIDs)]))
	if more := len(ids) - shownIDs; more > 0 {
		env.Out.Messagef("and %d more\n", more)
	}
	env.Out.Messagef("Kill %d sessions? This cannot be undone. Type yes: ", len(ids))
	answer, err := arg.Answer(ctx, env.Stdin)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer != "yes" {
		return errors.New("not confirmed: no session was killed (--yes skips the question)")
	}
	return nil
}
