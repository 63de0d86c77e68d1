package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// killFlags say which sessions to end, and how.
type killFlags struct {
	labels      []string
	principal   string
	owner       uint8
	scope       string
	why         string
	yes, dryRun bool
}

func (c *cli) sessionKill() *cobra.Command {
	var f killFlags
	cmd := &cobra.Command{
		Use: "kill [ID]...", Short: "End sessions, whoever has them",
		Args: cobra.ArbitraryArgs,
		Long: `End sessions, whoever has them: those that are named, or those that match --label, --owner and
--scope, or those of a --principal. Their clients are told at once that an operator has ended them;
ephemeral entries of the tree go, and wills for an expiry are carried out. Nothing brings a session
back.

The command first lists the sessions that match, and then asks, unless --yes is given. It ends only
sessions of that list. With --dry-run it ends none. It ends them in batches, and goes on with the
next one when a session cannot be ended. The outcome "unknown" is that of a session which a node was
asked to end, without an answer: it may have ended. Run the command again then, which is safe. The
exit code is 1 if one of them lives on, or may do so.

With --principal every member is asked for the connections of a caller whom it knows by that name:
of a token, of a certificate as "holdfast cluster connections" shows it, or a principal such as
ip:10.0.0.7. The text must be the whole name. A name that a client only says is not enough. A client
that makes single calls has no connection, nor has one that is away: select by label then. The name
of who ends the sessions comes from HOLDFAST_PRINCIPAL here.

Only its own node knows a local session. So every member is asked for its local sessions that match,
and each session is ended at its own node. A line on the standard error names a member that does not
answer, whose sessions are missing. The exit code then is 1. --scope global asks for no local ones.`,
		Example: `  holdfast session kill 0x01004f2a3c5d0001 --why "stuck since the deploy"
  holdfast session kill --label service=web --dry-run
  holdfast session kill --label service=web --yes
  holdfast session kill --principal uri:holdfast://prod/client/web --dry-run`,
		RunE: func(cmd *cobra.Command, args []string) error { return c.kill(cmd.Context(), &f, args) },
	}
	flags := cmd.Flags()
	flags.StringArrayVar(&f.labels, "label", nil, "label KEY=VALUE, or KEY for any value; may be repeated")
	flags.Var(arg.Whole(&f.owner, 0, 0, uint8(session.MaxNode)), "owner",
		fmt.Sprintf("number of the node that serves the sessions, 1 to %d; 0 for any", session.MaxNode))
	flags.StringVar(&f.principal, "principal", "", "name under which the nodes know the client, or one of its principals")
	flags.StringVar(&f.scope, "scope", "any", "scope of the sessions: any, global or local")
	flags.StringVar(&f.why, "why", "", fmt.Sprintf("reason for the certificates, at most %d bytes", session.MaxWhy))
	flags.BoolVar(&f.yes, "yes", false, "do not ask")
	flags.BoolVar(&f.dryRun, "dry-run", false, "list what would be ended, and end nothing")
	completeWords(cmd, "scope", "any", "global", "local")
	return cmd
}

func (c *cli) kill(ctx context.Context, f *killFlags, given []string) error {
	return c.target.with(func(cl *client.Client) error {
		found, err := c.chosen(ctx, cl, f, given)
		if err != nil {
			return err
		}
		switch {
		case f.dryRun || len(found.ids) == 0:
			err = printWouldKill(c.out, found.ids)
		case f.yes:
			err = c.killAll(ctx, cl, found.ids, f.why)
		default:
			if err = c.confirm(ctx, found.ids); err == nil {
				err = c.killAll(ctx, cl, found.ids, f.why)
			}
		}
		if err != nil {
			return err
		}
		return found.missing()
	})
}

// printWouldKill prints the sessions that the command would end.
func printWouldKill(out *printer, ids []session.ID) error {
	views := make([]killedView, len(ids))
	for i, id := range ids {
		views[i] = killedView{ID: idText(id), Outcome: outcomeWould}
	}
	return out.print(views, func() string {
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

// shownIDs is how many of the sessions the question shows.
const shownIDs = 10

// confirm asks whether to end sessions.
func (c *cli) confirm(ctx context.Context, ids []session.ID) error {
	c.out.complain("%s\n", idLines(ids[:min(len(ids), shownIDs)]))
	if more := len(ids) - shownIDs; more > 0 {
		c.out.complain("and %d more\n", more)
	}
	c.out.complain("End %d sessions? Nothing brings them back. Type yes: ", len(ids))
	answer, err := arg.Answer(ctx, c.stdin)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if answer != "yes" {
		return errors.New("not confirmed: nothing was done (--yes skips the question)")
	}
	return nil
}
