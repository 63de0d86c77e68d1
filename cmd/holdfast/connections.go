package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

// connectionsView is what one node says of its connections, in JSON. Error says why it said nothing.
type connectionsView struct {
	Endpoint    string           `json:"endpoint"`
	Total       uint64           `json:"total"`
	Connections []connectionView `json:"connections"`
	Error       string           `json:"error,omitempty"`
}

// connectionView is a connection in JSON.
type connectionView struct {
	Address    string   `json:"address"`
	Protocol   string   `json:"protocol"`
	Name       string   `json:"name,omitempty"`
	Verified   bool     `json:"verified"`
	Principals []string `json:"principals,omitempty"`
	Since      string   `json:"since"`
	Sessions   uint64   `json:"sessions"`
	Watches    uint64   `json:"watches"`
	Requests   uint64   `json:"requests"`
	Rate       float64  `json:"requests_per_second"`
	RateOverMS int64    `json:"rate_over_ms"`
	Unsent     uint64   `json:"unsent_bytes"`
}

func viewConnection(c *client.ClientConnection) connectionView {
	return connectionView{
		Address: c.Address, Protocol: c.Protocol, Name: c.Name, Verified: c.Verified, Principals: c.Principals,
		Since: c.Since.UTC().Format(time.RFC3339Nano), Sessions: c.Sessions, Watches: c.Watches, Requests: c.Requests,
		Rate: c.Rate, RateOverMS: c.Over.Milliseconds(), Unsent: c.Unsent,
	}
}

// connectionCommand shows the connections of clients.
type connectionCommand struct{ *cli }

func (c connectionCommand) command() *cobra.Command {
	var o client.ConnectionOptions
	var of string
	cmd := &cobra.Command{
		Use: "connections", Short: "List the connections of clients, the busiest first", Args: noArgs,
		Long: `List the connections of clients that the nodes named by --endpoints have, the busiest first. Clients
that make single calls, as this program mostly does, have none; neither have people at the console.

RATE is the requests a second of the last seconds if somebody has asked for a node's connections
within the last minute, and otherwise of the connection's life: run the command twice. A batch of
requests is one, and so is a touch of all sessions of a connection. NAME is the name under which
the node knows the client; with (says so) nothing proves it. UNSENT is what the node holds because
the client has not read it.

With --session the table has the connection that serves a session. The exit code is 1 when none of
the nodes has one. A line below the table says which node did not answer, and why; the exit code
then is 1, or 3 when no node answers.`,
		Example: `  holdfast cluster connections --limit 10
  holdfast cluster connections --session 0x01004f2a3c5d0001
  holdfast cluster connections --principal ip:10.0.0.7 -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if of != "" {
				id, err := idArgument(of)
				if err != nil {
					return usage("--session: %w", err)
				}
				o.Session = id
			}
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				return c.list(ctx, cl, o)
			})
		},
	}
	flags := cmd.Flags()
	flags.Var(arg.Whole(&o.Limit, 100, 1, client.MaxListedConnections), "limit", fmt.Sprintf(
		"the largest number of connections, and of those of each node in JSON; at most %d", client.MaxListedConnections))
	flags.StringVar(&of, "session", "", "ID of a session: only the connection that serves it")
	flags.StringVar(&o.Principal, "principal", "", "only clients whose name or a principal contains this text")
	return cmd
}

// list asks every endpoint.
func (c connectionCommand) list(ctx context.Context, cl *client.Client, o client.ConnectionOptions) error {
	endpoints := c.target.endpoints
	lists, errs := make([]client.ConnectionList, len(endpoints)), make([]error, len(endpoints))
	views := make([]connectionsView, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			list, err := cl.Connections(ctx, endpoint, o)
			if errors.Is(err, session.ErrNoConnection) {
				err = nil // the others may have it
			}
			lists[i], errs[i] = list, err
			views[i] = connectionsView{Endpoint: endpoint, Total: list.Total, Connections: []connectionView{}}
			if err != nil {
				views[i].Error = oneLine(err)
			}
			for k := range list.Connections {
				views[i].Connections = append(views[i].Connections, viewConnection(&list.Connections[k]))
			}
		})
	}
	wg.Wait()
	shown, table := c.table(lists, errs, o.Limit)
	if err := c.out.print(views, func() string { return table }); err != nil {
		return err
	}
	if err := silentNodes(errs); err != nil {
		return err
	}
	if o.Session != 0 && shown == 0 {
		return fmt.Errorf("session %v: no connection of the nodes that were asked serves it", o.Session)
	}
	return nil
}

// table returns the busiest connections of all nodes, and how many these are.
func (c connectionCommand) table(lists []client.ConnectionList, errs []error, limit int) (shown int, text string) {
	type row struct {
		endpoint string
		*client.ClientConnection
	}
	var all []row
	total := uint64(0)
	for i := range lists {
		total += lists[i].Total
		for k := range lists[i].Connections {
			all = append(all, row{c.target.endpoints[i], &lists[i].Connections[k]})
		}
	}
	slices.SortStableFunc(all, func(a, b row) int {
		return cmp.Or(cmp.Compare(b.Rate, a.Rate), cmp.Compare(b.Requests, a.Requests))
	})
	all = all[:min(len(all), limit)]
	rows := make([][]string, 0, len(all))
	for _, r := range all {
		name := words.OrDash(r.Name)
		if r.Name != "" && !r.Verified {
			name += " (says so)"
		}
		rows = append(rows, []string{
			r.endpoint, r.Address, r.Protocol, name, words.OrDash(strings.Join(r.Principals, " ")), words.Moment(r.Since.UTC()),
			number(r.Sessions), number(r.Watches), number(r.Requests), fmt.Sprintf("%.1f/s", r.Rate), words.Bytes(r.Unsent),
		})
	}
	text = columns([]string{
		"ENDPOINT", "CLIENT", "PROTOCOL", "NAME", "PRINCIPALS", "SINCE", "SESSIONS", "WATCHES", "REQUESTS", "RATE", "UNSENT",
	}, rows)
	if uint64(len(all)) < total {
		text += fmt.Sprintf("\n%d of %d connections", len(all), total)
	}
	for i, err := range errs {
		if err != nil {
			text += fmt.Sprintf("\n%s: %s", c.target.endpoints[i], escaped(c.target.brief(c.target.endpoints[i], err)))
		}
	}
	return len(all), text
}
