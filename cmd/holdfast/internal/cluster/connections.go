package cluster

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
)

// connectionsView is the connections of one node, in JSON. Error is set when the node did not answer.
type connectionsView struct {
	Endpoint    string            `json:"endpoint"`
	Total       uint64            `json:"total"`
	Connections []view.Connection `json:"connections"`
	Error       string            `json:"error,omitempty"`
}

// connectionsFlags are the flags of "cluster connections".
type connectionsFlags struct {
	options client.ConnectionOptions
	session string
}

func newConnections(env *cli.Env) *cobra.Command {
	var f connectionsFlags
	cmd := &cobra.Command{
		Use: "connections", Short: "List the connections of clients, the busiest first", Args: cli.NoArgs,
		Long: `List the client connections of the nodes at --endpoints, the busiest first. Clients that make single
calls, as most commands of this program do, have no connection; users of the console have none.

RATE is the number of requests per second. The first run of the command shows the average since the
connection was made; a second run within a minute shows the last seconds. A batch counts as one
request, and so does a touch of all sessions of a connection. NAME is the client's name;
(unverified) marks a name that no token or certificate proves. UNSENT is the data that the node
buffers because the client does not read.

With --session the table has only the connection that serves a session. The exit code is 1 when no
node has such a connection. A line below the table names each node that did not answer; the exit
code then is 1, or 3 when no node answered.`,
		Example: `  holdfast cluster connections --limit 10
  holdfast cluster connections --session 0x01004f2a3c5d0001
  holdfast cluster connections --principal ip:10.0.0.7 -o json`,
		RunE: cli.Run(env, &f, runConnections),
	}
	flags := cmd.Flags()
	flags.Var(arg.Whole(&f.options.Limit, 100, 1, client.MaxListedConnections), "limit", fmt.Sprintf(
		"maximum number of connections, in JSON for each node; at most %d", client.MaxListedConnections))
	flags.StringVar(&f.session, "session", "", "ID of a session: show only the connection that serves it")
	flags.StringVar(&f.options.Principal, "principal", "", "show only clients whose name or principal contains this text")
	return cmd
}

func runConnections(ctx context.Context, env *cli.Env, f *connectionsFlags, _ []string) error {
	if f.session != "" {
		id, err := cli.ParseID(f.session)
		if err != nil {
			return cli.Usage("--session: %w", err)
		}
		f.options.Session = id
	}
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		return listConnections(ctx, env, cl, f.options)
	})
}

// listConnections asks every endpoint.
func listConnections(ctx context.Context, env *cli.Env, cl *client.Client, o client.ConnectionOptions) error {
	endpoints := env.Cluster.Endpoints
	lists, errs := make([]client.ConnectionList, len(endpoints)), make([]error, len(endpoints))
	views := make([]connectionsView, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() {
			list, err := cl.Connections(ctx, endpoint, o)
			if errors.Is(err, session.ErrNoConnection) {
				err = nil // other nodes may have the session
			}
			lists[i], errs[i] = list, err
			views[i] = connectionsView{Endpoint: endpoint, Total: list.Total, Connections: []view.Connection{}}
			if err != nil {
				views[i].Error = cli.OneLine(err)
			}
			for k := range list.Connections {
				views[i].Connections = append(views[i].Connections, view.NewConnection(&list.Connections[k]))
			}
		})
	}
	wg.Wait()
	shown, table := connectionTable(env, lists, errs, o.Limit)
	if err := env.Out.Print(views, func() string { return table }); err != nil {
		return err
	}
	if err := cli.JoinNodes(errs); err != nil {
		return err
	}
	if o.Session != 0 && shown == 0 {
		return fmt.Errorf("session %v: no connection of these nodes serves it", o.Session)
	}
	return nil
}

// connectionTable returns the busiest connections of all nodes, and their number.
func connectionTable(env *cli.Env, lists []client.ConnectionList, errs []error, limit int) (shown int, text string) {
	type row struct {
		endpoint string
		*client.ClientConnection
	}
	var all []row
	total := uint64(0)
	for i := range lists {
		total += lists[i].Total
		for k := range lists[i].Connections {
			all = append(all, row{env.Cluster.Endpoints[i], &lists[i].Connections[k]})
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
			name += " (unverified)"
		}
		rows = append(rows, []string{
			r.endpoint, r.Address, r.Protocol, name, words.OrDash(strings.Join(r.Principals, " ")), words.Moment(r.Since.UTC()),
			cli.Number(r.Sessions), cli.Number(r.Watches), cli.Number(r.Requests), fmt.Sprintf("%.1f/s", r.Rate),
			words.Bytes(r.Unsent),
		})
	}
	text = cli.Table([]string{
		"ENDPOINT", "CLIENT", "PROTOCOL", "NAME", "PRINCIPALS", "SINCE", "SESSIONS", "WATCHES", "REQUESTS", "RATE", "UNSENT",
	}, rows)
	if uint64(len(all)) < total {
		text += fmt.Sprintf("\n%d of %d connections", len(all), total)
	}
	for i, err := range errs {
		if err != nil {
			text += fmt.Sprintf("\n%s: %s", env.Cluster.Endpoints[i],
				cli.Escape(env.Cluster.Cause(env.Cluster.Endpoints[i], err)))
		}
	}
	return len(all), text
}
