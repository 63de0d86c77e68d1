package main

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
	"holdfast/cmd/internal/arg"
	"holdfast/cmd/internal/top"
	"holdfast/session"
	"holdfast/session/words"
)

// topRows is how many lines of each section --once prints.
const topRows = 10

func topCommand(c *cli) *cobra.Command {
	var every time.Duration
	var once bool
	cmd := &cobra.Command{
		Use: "top", Short: "Watch the cluster live in this terminal", Args: noArgs,
		Long: `Watch the nodes of a cluster, how much happens in it, the sessions that are soonest to expire, the
busiest clients and the recent deaths, in a terminal of at least 80 x 24. Name all nodes with
--endpoints to see them all.

Rates are those of the log, between two looks, as one node applied it. Sparklines are as high as
their own highest value. Sessions have global scope only. REQUESTS/S of a client is what its node
has lately seen of it.

Keys: 1 to 3 choose a section, s sorts, R reverses, / filters by a text or by a label KEY=VALUE,
enter says why a session lives or why it ended, p pauses, + and - change the speed, q quits.

With --once it looks twice, an interval apart, prints ten lines of each section and ends: exit code 3
when no node answers. With -o json as well it prints an object, with all lines.`,
		Example: `  holdfast top --endpoints localhost:7400,localhost:7410,localhost:7420
  holdfast top --once
  holdfast top --once --every 1s -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case !once && c.out.format == formatJSON:
				return usage("-o json: only together with --once")
			case !once && (!c.out.terminal || !isTerminal(c.stdin)):
				return usage("no terminal: want --once to print one picture")
			}
			return c.target.with(func(cl *client.Client) error {
				looks := &topSource{c: c, client: cl}
				if once {
					return looks.once(cmd.Context(), every)
				}
				return top.Run(cmd.Context(), looks, every, c.stdin, c.out.stdout)
			})
		},
	}
	cmd.Flags().Var(arg.AtLeast(&every, 2*time.Second, top.LeastEvery), "every", "time between two looks")
	cmd.Flags().BoolVar(&once, "once", false, "print one picture, and end")
	return cmd
}

// topSource is the [top.Source] of the command line.
type topSource struct {
	c      *cli
	client *client.Client
}

// Look asks all nodes, and the cluster, at the same time.
func (s *topSource) Look(ctx context.Context, w top.Wish) top.Sample {
	ctx, cancel := context.WithTimeout(ctx, min(w.Patience, s.c.target.timeout))
	defer cancel()
	endpoints := s.c.target.endpoints
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
	told := make([][]top.Connection, len(endpoints))
	for i, endpoint := range endpoints {
		all.Go(func() { told[i] = s.connections(ctx, endpoint) })
	}
	all.Wait()
	for i, connections := range told {
		for j := range connections {
			connections[j].Node = one.Nodes[i].Status.Node
		}
		one.Clients, one.ClientsTold = append(one.Clients, connections...), one.ClientsTold || connections != nil
	}
	for of, failed := range map[top.Section]error{top.Sessions: sessions, top.Deaths: deaths} {
		if failed != nil {
			one.Untold[of] = oneLine(failed)
		}
	}
	one.At = time.Now()
	return one
}

func (s *topSource) node(ctx context.Context, endpoint string) top.Node {
	asked := time.Now()
	st, err := s.c.target.statusOf(ctx, s.client, endpoint)
	n := top.Node{Endpoint: endpoint, Status: st, At: time.Now(), RoundTrip: time.Since(asked)}
	if err != nil {
		n.Silent = s.c.target.brief(endpoint, err)
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

// Explain says why a session lives, or why it ended.
func (s *topSource) Explain(ctx context.Context, id session.ID) ([]string, error) {
	ctx, cancel := s.c.target.bounded(ctx)
	defer cancel()
	e, err := s.client.Explain(ctx, id)
	switch {
	case err != nil:
		return nil, errors.New(oneLine(err))
	case e.Certificate != nil:
		return words.Ended(e.Certificate), nil
	default:
		return words.Alive(&e.Session, &e.Vigil), nil
	}
}

// once prints one picture.
func (s *topSource) once(ctx context.Context, every time.Duration) error {
	m := top.New(every)
	m.Take(s.Look(ctx, m.Wish()))
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(every):
	}
	last := s.Look(ctx, m.Wish())
	m.Take(last)
	m.Resize(s.width(), 0)
	if err := s.c.out.print(viewTop(m, &last), func() string { return m.Once(topRows) }); err != nil {
		return err
	}
	for i := range last.Nodes {
		if last.Nodes[i].Silent == "" {
			return nil
		}
	}
	return fmt.Errorf("%w: no node of %v answers", client.ErrUnreachable, s.c.target.endpoints)
}

// width is that of the terminal, or of a wide one for programs.
func (s *topSource) width() int {
	if f, is := s.c.out.stdout.(*os.File); is && s.c.out.terminal {
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
	Expiring []sessionView      `json:"expiring"`
	Clients  []topClientView    `json:"clients"`
	Deaths   []certificateView  `json:"deaths"`
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
	connectionView
}

func viewTop(m *top.Model, s *top.Sample) topView {
	v := topView{
		Time: s.At.Round(0), Rates: m.Rates(), Failed: s.Failed(), Nodes: []topNodeView{}, Expiring: []sessionView{},
		Clients: []topClientView{}, Deaths: []certificateView{},
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
		v.Expiring = append(v.Expiring, viewSession(l.Session, l.Remaining))
	}
	for i := range s.Clients {
		v.Clients = append(v.Clients, topClientView{s.Clients[i].Node, viewConnection(&s.Clients[i].ClientConnection)})
	}
	for i := range s.Deaths {
		v.Deaths = append(v.Deaths, viewCertificate(s.Deaths[i]))
	}
	return v
}
