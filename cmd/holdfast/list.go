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
)

func (c *cli) sessionList() *cobra.Command {
	var o client.ListOptions
	var owner uint8
	var labels []string
	var scope string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List sessions", Args: noArgs,
		Long: `List the sessions that match all filters, in the order of their ids, all of them. REMAINING is how long a session has if it stays silent, as the leader sees it.

` + readOnlyHelp + `

A local session is listed by its node alone: of those, only the ones of the node that answers are shown. Name that node with
--endpoints.`,
		Example: `  holdfast session ls --owner 1 --label service=web
  holdfast session ls --max-remaining 2s
  holdfast session ls --scope local --endpoints n1:7400`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			filter, err := parseLabels(labels)
			if err != nil {
				return err
			}
			var known bool
			if o.Scope, known = scopes()[scope]; !known {
				return usage("--scope %q: want any, global or local", scope)
			}
			o.Owner, o.Labels, o.PageSize = session.Node(owner), filter, session.MaxPage
			return c.list(cmd.Context(), o)
		},
	}
	c.addReadOnly(cmd)
	flags := cmd.Flags()
	flags.Var(arg.Whole(&owner, 0, 0, uint8(session.MaxNode)), "owner",
		fmt.Sprintf("number of the owner, 1 to %d; 0 for any", session.MaxNode))
	flags.StringArrayVar(&labels, "label", nil,
		"label KEY=VALUE the session has, or KEY for any value; may be repeated")
	flags.StringVar(&scope, "scope", "any", "any, global or local")
	flags.Var(arg.NotNegative(&o.MinAge, 0), "min-age", "opened at least so long ago; 0 is no bound")
	flags.Var(arg.NotNegative(&o.MaxAge, 0), "max-age", "opened at most so long ago; 0 is no bound")
	flags.Var(arg.NotNegative(&o.MinRemaining, 0), "min-remaining", "at least so long until it expires; 0 is no bound")
	flags.Var(arg.NotNegative(&o.MaxRemaining, 0), "max-remaining", "at most so long until it expires; 0 is no bound")
	completeWords(cmd, "scope", slices.Sorted(maps.Keys(scopes()))...)
	return cmd
}

// scopes are the values of --scope.
func scopes() map[string]session.Scope {
	return map[string]session.Scope{"any": 0, "global": session.ScopeGlobal, "local": session.ScopeLocal}
}

// list prints all pages. Every page has the time of a call.
func (c *cli) list(ctx context.Context, o client.ListOptions) error {
	views := []listedView{}
	var rows [][]string
	var former session.NodeState
	onePage := func(ctx context.Context, cl *client.Client) error {
		page, err := cl.List(ctx, o)
		for _, l := range page.Sessions {
			s := l.Session
			views = append(views, listedView{viewSession(s, l.Remaining), viewReadOnly(page.State)})
			rows = append(rows, []string{
				s.ID.String(), number(s.Owner), scopeText(s.Local), spanText(s.Timeout), spanText(l.Remaining),
				timeText(s.OpenedAt), labelText(s.Labels),
			})
		}
		if page.State != former {
			c.noteReadOnly(page.State)
		}
		former, o.PageToken = page.State, page.Next
		return err
	}
	err := c.withClientFor(func(cl *client.Client) error {
		for {
			if err := c.timed(ctx, cl, onePage); err != nil || o.PageToken == "" {
				return err
			}
		}
	})
	if err != nil {
		return err
	}
	return c.print(views, func() string {
		return columns([]string{"ID", "OWNER", "SCOPE", "TIMEOUT", "REMAINING", "OPENED", "LABELS"}, rows)
	})
}

func (c *cli) sessionShow() *cobra.Command {
	cmd := &cobra.Command{
		Use: "show ID", Short: "Show a session, or the certificate of its end", Args: arg.One("ID"),
		Long: `Show a session, or the certificate of its end. The exit code is 1 when the cluster knows neither: ids that never were,
and sessions that ended long ago.

` + readOnlyHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			if isToken(args[0]) {
				return usage(tokenAsID)
			}
			id, err := session.ParseID(args[0])
			if err != nil {
				return usage("%q: %w", args[0], err)
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				f, err := cl.Get(ctx, id)
				if err != nil {
					return err
				}
				c.noteReadOnly(f.State)
				return c.printFound(f)
			})
		},
	}
	c.addReadOnly(cmd)
	return cmd
}

const readOnlyHelp = `With --read-only a node that is read-only, because it hears of no leader, may answer with what it knows when no better node
answers. That may be old: a line on the standard error names the node and the index of the log that it has come to. With -o json so does
"read_only", beside the session or certificate, and in each session of a list: its pages may come from different nodes.`

func (c *cli) addReadOnly(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&c.readOnly, "read-only", false, "be content with a read-only node when there is no other")
}

// noteReadOnly tells the person when an answer is a read-only node's.
func (c *cli) noteReadOnly(s session.NodeState) {
	if s.Mode == session.ModeReadOnly {
		complain(c.stderr, "holdfast: node %d answered, which is read-only: as of index %d\n", s.Node, s.Index)
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

// readOnlyView says which read-only node answered, and from a state how old, in JSON.
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

func (c *cli) printFound(f client.Found) error {
	if cert := f.Certificate; cert != nil {
		return c.print(foundView{Certificate: new(viewCertificate(*cert)), ReadOnly: viewReadOnly(f.State)},
			func() string {
				return properties([][]string{
					{"id", cert.ID.String()},
					{"ended", cert.Cause.String()},
					{"at", timeText(cert.EndedAt)},
					{"last touch", spanText(cert.LastTouchAge) + " before"},
					{"owner", number(cert.Owner)},
					{"term", number(cert.Term)},
					{"index", number(cert.Index)},
					{"credited", spanText(cert.Credited)},
				})
			})
	}
	s := f.Session
	return c.print(foundView{Session: new(viewSession(s, f.Remaining)), ReadOnly: viewReadOnly(f.State)},
		func() string {
			return properties([][]string{
				{"id", s.ID.String()},
				{"timeout", spanText(s.Timeout)},
				{"remaining", spanText(f.Remaining)},
				{"owner", number(s.Owner)},
				{"scope", scopeText(s.Local)},
				{"attachment", number(s.Attachment)},
				{"labels", labelText(s.Labels)},
				{"opened", timeText(s.OpenedAt)},
				{"opened index", number(s.OpenedIndex)},
			})
		})
}
