package main

import (
	"context"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session"
)

func (c *cli) sessionList() *cobra.Command {
	var o client.ListOptions
	var owner uint8
	var labels []string
	var scope string
	cmd := &cobra.Command{
		Use: "ls", Aliases: []string{"list"}, Short: "List sessions", Args: cobra.NoArgs,
		Long: `List the sessions that match all filters, in the order of their ids, all of them. REMAINING is how long a session has if it stays silent, as the leader sees it.

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
			if owner != 0 && !session.Node(owner).Valid() {
				return usage("--owner %d: want 1 to %d", owner, session.MaxNode)
			}
			var known bool
			if o.Scope, known = scopes()[scope]; !known {
				return usage("--scope %q: want any, global or local", scope)
			}
			o.Owner, o.Labels, o.PageSize = session.Node(owner), filter, session.MaxPage
			return c.list(cmd.Context(), o)
		},
	}
	flags := cmd.Flags()
	flags.Uint8Var(&owner, "owner", 0, "number of the owner; 0 for any")
	flags.StringArrayVar(&labels, "label", nil, "label KEY=VALUE the session has, or KEY for any value; may be repeated")
	flags.StringVar(&scope, "scope", "any", "any, global or local")
	flags.DurationVar(&o.MinAge, "min-age", 0, "opened at least so long ago")
	flags.DurationVar(&o.MaxAge, "max-age", 0, "opened at most so long ago")
	flags.DurationVar(&o.MinRemaining, "min-remaining", 0, "at least so long until it expires")
	flags.DurationVar(&o.MaxRemaining, "max-remaining", 0, "at most so long until it expires")
	completeWords(cmd, "scope", slices.Sorted(maps.Keys(scopes()))...)
	return cmd
}

// scopes are the values of --scope.
func scopes() map[string]session.Scope {
	return map[string]session.Scope{"any": 0, "global": session.ScopeGlobal, "local": session.ScopeLocal}
}

// list prints all pages. Every page has the time of a call.
func (c *cli) list(ctx context.Context, o client.ListOptions) error {
	views := []sessionView{}
	var rows [][]string
	for more := true; more; {
		err := c.withClient(ctx, func(ctx context.Context, cl *client.Client) error {
			page, next, err := cl.List(ctx, o)
			for _, l := range page {
				s := l.Session
				views = append(views, viewSession(s, l.Remaining))
				rows = append(rows, []string{
					s.ID.String(), number(s.Owner), scopeText(s.Local), spanText(s.Timeout), spanText(l.Remaining), timeText(s.OpenedAt), labelText(s.Labels),
				})
			}
			o.PageToken, more = next, next != ""
			return err
		})
		if err != nil {
			return err
		}
	}
	return c.print(views, func() string {
		return columns([]string{"ID", "OWNER", "SCOPE", "TIMEOUT", "REMAINING", "OPENED", "LABELS"}, rows)
	})
}

func (c *cli) sessionShow() *cobra.Command {
	return &cobra.Command{
		Use: "show ID", Short: "Show a session, or the certificate of its end", Args: cobra.ExactArgs(1),
		Long: `Show a session, or the certificate of its end. The exit code is 1 when the cluster knows neither: ids that never were,
and sessions that ended long ago.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			id, err := session.ParseID(args[0])
			if err != nil {
				return usage("%q: %w", args[0], err)
			}
			return c.withClient(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				f, err := cl.Get(ctx, id)
				if err != nil {
					return err
				}
				return c.printFound(f)
			})
		},
	}
}

// foundView is a session or a certificate in JSON.
type foundView struct {
	Session     *sessionView     `json:"session,omitempty"`
	Certificate *certificateView `json:"certificate,omitempty"`
}

func (c *cli) printFound(f client.Found) error {
	if cert := f.Certificate; cert != nil {
		return c.print(foundView{Certificate: new(viewCertificate(*cert))}, func() string {
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
	return c.print(foundView{Session: new(viewSession(s, f.Remaining))}, func() string {
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
