package main

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

func (c *cli) sessionList() *cobra.Command {
	var o client.ListOptions
	var owner uint8
	var labels []string
	var scope string
	var soonest int
	cmd := &cobra.Command{
		Use: "ls", Short: "List sessions", Args: noArgs,
		Long: `List all sessions that match every filter, in the order of their ids. REMAINING is the time until
the session expires if it stays silent, as the leader sees it.

A node lists its own local sessions only, so the list has no local sessions of other nodes than
the node that answers. Name that node with --endpoints.

With --soonest the leader looks at all sessions that match, and the list has those with the least
time left, the soonest to expire first.

` + readOnlyHelp,
		Example: `  holdfast session ls --owner 1 --label service=web
  holdfast session ls --max-remaining 2s
  holdfast session ls --soonest 10
  holdfast session ls --scope local --endpoints n1:7400`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := selectedLabels(labels)
			if err != nil {
				return err
			}
			var known bool
			if o.Scope, known = scopes()[scope]; !known {
				return usage("--scope %q: want any, global or local", scope)
			}
			o.Owner, o.Labels, o.PageSize = session.Node(owner), filter, session.MaxPage
			if o.Soonest = soonest > 0; o.Soonest {
				o.PageSize = soonest
			}
			return c.list(cmd.Context(), o)
		},
	}
	c.target.registerReadOnly(cmd)
	flags := cmd.Flags()
	flags.Var(arg.Whole(&owner, 0, 0, uint8(session.MaxNode)), "owner",
		fmt.Sprintf("number of the owner, 1 to %d; 0 for any", session.MaxNode))
	flags.StringArrayVar(&labels, "label", nil,
		"label KEY=VALUE, or KEY for any value; may be repeated")
	flags.StringVar(&scope, "scope", "any", "scope of the sessions: any, global or local")
	flags.Var(arg.NotNegative(&o.MinAge, 0), "min-age", "smallest time since the open; 0 for no bound")
	flags.Var(arg.NotNegative(&o.MaxAge, 0), "max-age", "largest time since the open; 0 for no bound")
	flags.Var(arg.NotNegative(&o.MinRemaining, 0), "min-remaining", "smallest remaining time; 0 for no bound")
	flags.Var(arg.NotNegative(&o.MaxRemaining, 0), "max-remaining", "largest remaining time; 0 for no bound")
	flags.Var(arg.Whole(&soonest, 0, 0, session.MaxPage), "soonest",
		fmt.Sprintf("only so many, the soonest to expire, in that order, at most %d; 0 for all by id", session.MaxPage))
	completeWords(cmd, "scope", slices.Sorted(maps.Keys(scopes()))...)
	return cmd
}

// scopes are the values of --scope.
func scopes() map[string]session.Scope {
	return map[string]session.Scope{"any": 0, "global": session.ScopeGlobal, "local": session.ScopeLocal}
}

// list prints all pages. Each page is a call with its own time limit.
func (c *cli) list(ctx context.Context, o client.ListOptions) error {
	views := []listedView{}
	var rows [][]string
	var former session.NodeState
	onePage := func(ctx context.Context, cl *client.Client) error {
		ctx, cancel := c.target.bounded(ctx)
		defer cancel()
		page, err := cl.List(ctx, o)
		for _, l := range page.Sessions {
			s := l.Session
			views = append(views, listedView{viewSession(s, l.Remaining), viewReadOnly(page.State)})
			rows = append(rows, []string{
				s.ID.String(), number(s.Owner), scopeText(s.Local), words.Span(s.Timeout), words.Span(l.Remaining),
				words.Moment(s.OpenedAt), words.Labels(s.Labels),
			})
		}
		if page.State != former {
			noteReadOnly(c.out, page.State)
		}
		former, o.PageToken = page.State, page.Next
		return err
	}
	err := c.target.with(func(cl *client.Client) error {
		for {
			if err := onePage(ctx, cl); err != nil || o.PageToken == "" || o.Soonest {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return c.out.print(views, func() string {
		return columns([]string{"ID", "OWNER", "SCOPE", "TIMEOUT", "REMAINING", "OPENED", "LABELS"}, rows)
	})
}

func (c *cli) sessionShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a session, or the certificate of its end", Args: arg.One("ID"),
		Long: `Show a session, or the certificate of its end. The exit code is 1 when the cluster knows neither:
the id was never given out, or the session ended long ago.

` + readOnlyHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isToken(args[0]) {
				return usage(tokenAsID)
			}
			id, err := session.ParseID(args[0])
			if err != nil {
				return usage("ID %q: %w", args[0], err)
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				f, err := cl.Get(ctx, id)
				if err != nil {
					return err
				}
				noteReadOnly(c.out, f.State)
				return printFound(c.out, f)
			})
		},
	}
	c.target.registerReadOnly(cmd)
	return cmd
}

const readOnlyHelp = `With --read-only a read-only node, which knows no leader, may answer when no better node does. Its
answer may be old: a line on the standard error names the node and the log index that it has
reached. With -o json "read_only" says the same beside the session or certificate. In a list it is
in each session, because the pages of a list may come from different nodes.`

// noteReadOnly tells the user that a read-only node gave an answer.
func noteReadOnly(out *printer, s session.NodeState) {
	if s.Mode == session.ModeReadOnly {
		out.complain("holdfast: answered by read-only node %d, at index %d\n", s.Node, s.Index)
	}
}

// listedView is a session of a list in JSON.
type listedView struct {
	sessionView
	// ReadOnly is absent unless a read-only node answered.
	ReadOnly *readOnlyView `json:"read_only,omitempty"`
}

// foundView is a session or a certificate in JSON.
type foundView struct {
	Session     *sessionView     `json:"session,omitempty"`
	Certificate *certificateView `json:"certificate,omitempty"`
	// ReadOnly is absent unless a read-only node answered.
	ReadOnly *readOnlyView `json:"read_only,omitempty"`
}

// readOnlyView names the read-only node that answered and the log index of its state, in JSON.
type readOnlyView struct {
	Node  session.Node `json:"node"`
	Index uint64       `json:"index"`
}

func viewReadOnly(s session.NodeState) *readOnlyView {
	if s.Mode != session.ModeReadOnly {
		return nil
	}
	return &readOnlyView{Node: s.Node, Index: s.Index}
}

func printFound(out *printer, f client.Found) error {
	if cert := f.Certificate; cert != nil {
		return out.print(foundView{Certificate: new(viewCertificate(*cert)), ReadOnly: viewReadOnly(f.State)},
			func() string {
				return properties([][]string{
					{"id", cert.ID.String()},
					{"ended", cert.Cause.String()},
					{"at", words.Moment(cert.EndedAt)},
					{"last touch", words.Span(cert.LastTouchAge) + " before"},
					{"owner", number(cert.Owner)},
					{"term", number(cert.Term)},
					{"index", number(cert.Index)},
					{"credited", words.Span(cert.Credited)},
				})
			})
	}
	s := f.Session
	return out.print(foundView{Session: new(viewSession(s, f.Remaining)), ReadOnly: viewReadOnly(f.State)},
		func() string {
			return properties([][]string{
				{"id", s.ID.String()},
				{"timeout", words.Span(s.Timeout)},
				{"remaining", words.Span(f.Remaining)},
				{"owner", number(s.Owner)},
				{"scope", scopeText(s.Local)},
				{"attachment", number(s.Attachment)},
				{"labels", words.Labels(s.Labels)},
				{"opened", words.Moment(s.OpenedAt)},
				{"opened index", number(s.OpenedIndex)},
			})
		})
}
