package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/top"
	"holdfast/session"
	"holdfast/session/words"
)

// topRows is the number of lines of each section that --once prints.
const topRows = 10

// topFlags are the flags of "top".
type topFlags struct {
	interval time.Duration
	once     bool
}

func newTop(env *cli.Env) *cobra.Command {
	var f topFlags
	cmd := &cobra.Command{
		Use: "top", Short: "Show the cluster live in the terminal", Args: cli.NoArgs,
		Long: `Show the nodes of a cluster, its rates, the sessions that expire next, the busiest clients and the
recent deaths, in a terminal of at least 80 x 24. Only the nodes at --endpoints are shown.

Rates are log entries per second that one node applied between two polls. Each sparkline is scaled
to its own maximum. Sessions are global sessions. REQUESTS/S of a client is the recent rate at its
node.

Keys: 1 to 3 choose a section, s sorts, R reverses, / filters by a text or by a label KEY=VALUE,
enter explains why a session lives or why it ended, p pauses, + and - change the interval, q quits.

With --once the command polls twice, an interval apart, prints ten lines of each section and ends.
The exit code is 3 when no node answers. With -o json it prints an object with all lines.`,
		Example: `  holdfast top --endpoints localhost:7400,localhost:7410,localhost:7420
  holdfast top --once
  holdfast top --once --interval 1s -o json`,
		RunE: cli.Run(env, &f, runTop),
	}
	cmd.Flags().Var(arg.AtLeast(&f.interval, 2*time.Second, top.MinInterval), "interval", "time between two polls")
	cmd.Flags().BoolVar(&f.once, "once", false, "print once, and end")
	return cmd
}

func runTop(ctx context.Context, env *cli.Env, f *topFlags, _ []string) error {
	switch {
	case !f.once && env.Out.JSON():
		return cli.Usage("-o json: only together with --once")
	case !f.once && (!env.Out.Terminal() || !cli.IsTerminal(env.Stdin)):
		return cli.Usage("the standard input or output is not a terminal: use --once")
	}
	return env.Cluster.Connect(func(cl *client.Client) error {
		source := &topSource{env: env, client: cl}
		if f.once {
			return source.once(ctx, f.interval)
		}
		return top.Run(ctx, source, f.interval, env.Stdin, env.Out.Stdout)
	})
}

// topSource is the [top.Source] of the command line.
type topSource struct {
	env    *cli.Env
	client *client.Client
}

// Fetch asks all nodes, and the cluster, at the same time.
func (s *topSource) Fetch(ctx context.Context, w top.Query) top.Sample {
	ctx, cancel := context.WithTimeout(ctx, min(w.Timeout, s.env.Cluster.CallTimeout))
	defer cancel()
	endpoints := s.env.Cluster.Endpoints
	one := top.Sample{Nodes: make([]top.Node, len(endpoints))}
	var all sync.WaitGroup
	for i, endpoint := range endpoints {
		all.Go(func() { one.Nodes[i] = s.node(ctx, endpoint) })
	}
	var sessions, deaths error
	all.Go(func() {
		var page client.Page
		page, sessions = s.client.List(ctx, client.ListOptions{
			Labels: w.Labels, Soonest: true, Scope: session.ScopeGlobal, PageSize: session.MaxPage,
		})
		one.Expiring = page.Sessions
	})
	all.Go(func() {
		labels, err := session.NewLabels(w.Labels)
		if err != nil {
			deaths = err
			return
		}
		var page client.DeathPage
		page, deaths = s.client.Deaths(ctx, client.DeathOptions{
			DeathFilter: session.DeathFilter{Labels: labels}, PageSize: session.MaxPage,
		})
		one.Deaths = page.Certificates
	})
	reports := make([][]top.Connection, len(endpoints))
	for i, endpoint := range endpoints {
		all.Go(func() { reports[i] = s.connections(ctx, endpoint) })
	}
	all.Wait()
	for i, connections := range reports {
		for j := range connections {
			connections[j].Node = one.Nodes[i].Status.Node
		}
		one.Clients, one.ClientsKnown = append(one.Clients, connections...), one.ClientsKnown || connections != nil
	}
	for of, failed := range map[top.Section]error{top.Sessions: sessions, top.Deaths: deaths} {
		if failed != nil {
			one.Missing[of] = cli.OneLine(failed)
		}
	}
	one.At = time.Now()
	return one
}

func (s *topSource) node(ctx context.Context, endpoint string) top.Node {
	sent := time.Now()
	st, err := s.env.Cluster.StatusOf(ctx, s.client, endpoint)
	n := top.Node{Endpoint: endpoint, Status: st, At: time.Now(), RoundTrip: time.Since(sent)}
	if err != nil {
		n.Silent = s.env.Cluster.Cause(endpoint, err)
	}
	return n
}

// connections returns the busiest connections of a node, nil if the node does not answer or refuses to list them.
func (s *topSource) connections(ctx context.Context, endpoint string) []top.Connection {
	list, err := s.client.Connections(ctx, endpoint, client.ConnectionOptions{})
	if err != nil {
		return nil
	}
	all := make([]top.Connection, len(list.Connections))
	for i, c := range list.Connections {
		all[i].ClientConnection = c
	}
	return all
}

// Explain explains why a session lives, or why it ended.
func (s *topSource) Explain(ctx context.Context, id session.ID) ([]string, error) {
	ctx, cancel := s.env.Cluster.WithTimeout(ctx)
	defer cancel()
	e, err := s.client.Explain(ctx, id)
	switch {
	case err != nil:
		return nil, errors.New(cli.OneLine(err))
	case e.Certificate != nil:
		return words.Ended(e.Certificate), nil
	default:
		return words.Alive(&e.Session, &e.Vigil), nil
	}
}

// once prints the output of --once.
func (s *topSource) once(ctx context.Context, every time.Duration) error {
	m := top.New(every)
	m.Add(s.Fetch(ctx, m.Query()))
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(every):
	}
	last := s.Fetch(ctx, m.Query())
	m.Add(last)
	m.Resize(s.width(), 0)
	if err := s.env.Out.Print(viewTop(m, &last), func() string { return m.Once(topRows) }); err != nil {
		return err
	}
	for i := range last.Nodes {
		if last.Nodes[i].Silent == "" {
			return nil
		}
	}
	return fmt.Errorf("%w: no node of %v answers", client.ErrUnreachable, s.env.Cluster.Endpoints)
}

// width is the terminal's width, or a large width for output to programs.
func (s *topSource) width() int {
	if f, is := s.env.Out.Stdout.(*os.File); is && s.env.Out.Terminal() {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil {
			return width
		}
	}
	return 160
}

// topView is a picture in JSON. Rates are changes a second; one that is not known is absent.
type topView struct {
	Time     time.Time          `json:"time"`
	Nodes    []topNodeView      `json:"nodes"`
	Rates    map[string]float64 `json:"rates"`
	Expiring []view.Session     `json:"expiring"`
	Clients  []topClientView    `json:"clients"`
	Deaths   []view.Certificate `json:"deaths"`
	Failed   []string           `json:"failed,omitempty"`
}

// topNodeView is a node's status with the time that its answer took.
type topNodeView struct {
	statusView
	RoundTripMS float64 `json:"round_trip_ms,omitempty"`
}

// topClientView is a connection with its node.
type topClientView struct {
	Node session.Node `json:"node"`
	view.Connection
}

func viewTop(m *top.Model, s *top.Sample) topView {
	v := topView{
		Time: s.At.Round(0), Rates: m.Rates(), Failed: s.Failed(), Nodes: []topNodeView{}, Expiring: []view.Session{},
		Clients: []topClientView{}, Deaths: []view.Certificate{},
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if n.Silent != "" {
			v.Nodes = append(v.Nodes, topNodeView{statusView: statusView{Endpoint: n.Endpoint, Error: n.Silent}})
			continue
		}
		v.Nodes = append(v.Nodes, topNodeView{viewStatus(n.Endpoint, n.Status), float64(n.RoundTrip.Microseconds()) / 1000})
	}
	for _, l := range s.Expiring {
		v.Expiring = append(v.Expiring, view.NewSession(l.Session, l.Remaining))
	}
	for i := range s.Clients {
		v.Clients = append(v.Clients, topClientView{s.Clients[i].Node, view.NewConnection(&s.Clients[i].ClientConnection)})
	}
	for i := range s.Deaths {
		v.Deaths = append(v.Deaths, view.NewCertificate(s.Deaths[i]))
	}
	return v
}
