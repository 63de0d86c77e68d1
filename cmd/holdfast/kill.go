package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
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
next one when a session cannot be ended. The exit code is 1 if one of them lives on.

With --principal every member is asked for the connections of a caller whom it knows by that name:
of a token, of a certificate as "holdfast cluster connections" shows it, or a principal such as
ip:10.0.0.7. The text must be the whole name. A name that a client only says is not enough. A client
that makes single calls has no connection, nor has one that is away: select by label then. The name
of who ends the sessions comes from HOLDFAST_PRINCIPAL here.

A local session is ended at its own node, which the command finds among the members.`,
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

// killedView is what became of one session, in JSON.
type killedView struct {
	ID idText `json:"id"`
	// Outcome is killed, ended (before), failed, or would be killed.
	Outcome string `json:"outcome"`
	Index   uint64 `json:"index,omitempty"`
	Error   string `json:"error,omitempty"`
}

func (c *cli) kill(ctx context.Context, f *killFlags, given []string) error {
	return c.target.with(func(cl *client.Client) error {
		ids, err := c.chosen(ctx, cl, f, given)
		if err != nil {
			return err
		}
		if f.dryRun || len(ids) == 0 {
			views := make([]killedView, len(ids))
			for i, id := range ids {
				views[i] = killedView{ID: idText(id), Outcome: "would be killed"}
			}
			return c.out.print(views, func() string {
				return strings.TrimLeft(idLines(ids)+fmt.Sprintf("\n%d sessions would be killed", len(ids)), "\n")
			})
		}
		if !f.yes {
			if err := c.confirm(ids); err != nil {
				return err
			}
		}
		return c.killAll(ctx, cl, ids, f.why)
	})
}

func idLines(ids []session.ID) string {
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = id.String()
	}
	return strings.Join(lines, "\n")
}

// chosen returns the sessions that the command line names or selects.
func (c *cli) chosen(ctx context.Context, cl *client.Client, f *killFlags, given []string) ([]session.ID, error) {
	selects := len(f.labels) > 0 || f.owner != 0
	switch {
	case f.principal != "" && (len(given) > 0 || selects || f.scope != "any"):
		return nil, usage("--principal selects by itself: leave IDs, --label, --owner and --scope away")
	case len(given) > 0 && selects:
		return nil, usage("name sessions by ID, or select them with --label and --owner: not both")
	case len(given) == 0 && !selects && f.principal == "":
		return nil, usage("name sessions by ID, or select them with --label, --owner or --principal")
	}
	switch {
	case f.principal != "":
		return ofPrincipal(ctx, c, cl, f.principal)
	case len(given) > 0:
		return namedIDs(given)
	}
	return c.selected(ctx, cl, f)
}

// namedIDs reads the ids of arguments, each once.
func namedIDs(given []string) ([]session.ID, error) {
	ids := make([]session.ID, 0, len(given))
	for _, w := range given {
		id, err := idArgument(w)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	return ids, nil
}

// selected returns the sessions that match the flags.
func (c *cli) selected(ctx context.Context, cl *client.Client, f *killFlags) ([]session.ID, error) {
	filter, err := parseLabels(f.labels)
	if err != nil {
		return nil, err
	}
	scope, known := scopes()[f.scope]
	if !known {
		return nil, usage("--scope %q: want any, global or local", f.scope)
	}
	var ids []session.ID
	o := client.ListOptions{Owner: session.Node(f.owner), Labels: filter, Scope: scope, PageSize: session.MaxPage}
	for {
		page, err := onePage(ctx, c.target, func(ctx context.Context) (client.Page, error) { return cl.List(ctx, o) })
		if err != nil {
			return nil, err
		}
		for _, l := range page.Sessions {
			ids = append(ids, l.Session.ID)
		}
		if o.PageToken = page.Next; page.Next == "" {
			return ids, nil
		}
	}
}

// shownIDs is how many of the sessions the question shows.
const shownIDs = 10

// confirm asks whether to end sessions.
func (c *cli) confirm(ids []session.ID) error {
	c.out.complain("%s\n", idLines(ids[:min(len(ids), shownIDs)]))
	if more := len(ids) - shownIDs; more > 0 {
		c.out.complain("and %d more\n", more)
	}
	c.out.complain("End %d sessions? Nothing brings them back. Type yes: ", len(ids))
	answer, err := bufio.NewReader(io.LimitReader(c.stdin, 1<<10)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w", err)
	}
	if strings.TrimSpace(answer) != "yes" {
		return errors.New("not confirmed: nothing was done (--yes skips the question)")
	}
	return nil
}

// killTries is how often a session is tried whose end or move was under way.
const killTries = 3

// killAll ends sessions in batches, each with the time limit of a call, and says how far it has come.
func (c *cli) killAll(ctx context.Context, cl *client.Client, ids []session.ID, why string) error {
	views := make([]killedView, 0, len(ids))
	failed := 0
	for batch := range slices.Chunk(ids, session.MaxKill) {
		done, err := c.killBatch(ctx, cl, batch, why)
		for _, v := range done {
			if v.Outcome == "failed" {
				failed++
			}
		}
		views = append(views, done...)
		if err != nil {
			return errors.Join(err, printKilled(c.out, views, len(ids)))
		}
		if len(ids) > session.MaxKill {
			c.out.complain("holdfast: %d of %d sessions done\n", len(views), len(ids))
		}
	}
	if err := printKilled(c.out, views, len(ids)); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d sessions live on: run the command again", failed, len(ids))
	}
	return nil
}

// killBatch ends up to [session.MaxKill] sessions. It tries those again that were moving or ending meanwhile.
func (c *cli) killBatch(ctx context.Context, cl *client.Client, ids []session.ID, why string) ([]killedView, error) {
	views := make([]killedView, len(ids))
	at := make(map[session.ID]int, len(ids))
	for i, id := range ids {
		at[id], views[i] = i, killedView{ID: idText(id), Outcome: "failed", Error: "not tried"}
	}
	for try := 1; len(ids) > 0; try++ {
		killed, err := onePage(ctx, c.target, func(ctx context.Context) ([]session.Killed, error) {
			return cl.Kill(ctx, ids, why)
		})
		if err != nil {
			return views, err
		}
		var again []session.ID
		for i, one := range killed {
			v := &views[at[ids[i]]]
			*v = viewKilled(ids[i], one)
			if v.Outcome == "failed" && try < killTries && !errors.Is(one.Err, session.ErrExpired) {
				again = append(again, ids[i])
			}
		}
		ids = again
	}
	return views, nil
}

func viewKilled(id session.ID, k session.Killed) killedView {
	v := killedView{ID: idText(id), Outcome: "killed", Index: k.Index}
	gone, ended := errors.AsType[*session.ExpiredError](k.Err)
	switch {
	case k.Err == nil:
	case ended && gone.LocalTo != 0:
		v.Outcome, v.Error = "failed", fmt.Sprintf("if it lives, it is local to node %d, which is no member", gone.LocalTo)
	case ended && gone.Certificate != nil:
		v.Outcome, v.Error = "ended", "it had "+gone.Certificate.Cause.String()+" before"
	case ended:
		v.Outcome, v.Error = "ended", "no such session"
	default:
		v.Outcome, v.Error = "failed", oneLine(k.Err)
	}
	return v
}

// printKilled prints what became of sessions.
func printKilled(out *printer, views []killedView, of int) error {
	return out.print(views, func() string {
		killed := 0
		rows := make([][]string, len(views))
		for i, v := range views {
			if v.Outcome == "killed" {
				killed++
			}
			rows[i] = []string{session.ID(v.ID).String(), v.Outcome, words.OrDash(v.Error)}
		}
		return columns([]string{"ID", "OUTCOME", "NOTE"}, rows) + fmt.Sprintf("\n%d of %d sessions killed", killed, of)
	})
}
