package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// maxPings bounds --count: ping keeps all round trips to compute the quantiles.
const maxPings = 1_000_000

// pingFlags are the flags of "ping".
type pingFlags struct {
	count             int
	interval, timeout time.Duration
}

func newPing(env *cli.Env) *cobra.Command {
	var f pingFlags
	cmd := &cobra.Command{
		Use: "ping", Short: "Measure the round trips of touches at every endpoint", Args: cli.NoArgs,
		Long: `Measure the round trips of touches at every node of --endpoints, all nodes at the same time. At each
node the command opens a session, touches it --count times, one touch after the other, and closes
it. Ctrl-C ends the measurement early.

A round trip is the touch of one session by its token over an established connection. It covers the
network, gRPC and the node's touch table, but neither log nor disk. When a session moves to another
node meanwhile, its touches count as lost.

A line below the table says why a node cannot be measured. The exit code then is 1, or 3 when no
node answers.`,
		Example: `  holdfast ping --count 100 --endpoints localhost:7400,localhost:7410,localhost:7420`,
		RunE:    cli.Run(env, &f, runPing),
	}
	cmd.Flags().Var(arg.Whole(&f.count, 10, 1, maxPings), "count",
		fmt.Sprintf("touches at each endpoint, 1 to %d", maxPings))
	cmd.Flags().Var(arg.NotNegative(&f.interval, 100*time.Millisecond), "interval",
		"time from the start of one touch to the start of the next; 0 for no pause")
	cli.AddTimeoutFlag(cmd, &f.timeout, "timeout of the sessions that ping opens")
	return cmd
}

func runPing(ctx context.Context, env *cli.Env, f *pingFlags, _ []string) error {
	p := pinger{env, f}
	views, err := p.measure(ctx)
	if views == nil {
		return err
	}
	if printErr := env.Out.Print(views, func() string { return pingText(views, env.Out.Columns) }); printErr != nil {
		return printErr
	}
	return err
}

// pingView is the measurement of an endpoint in JSON. Error says why it is not complete.
type pingView struct {
	Endpoint string       `json:"endpoint"`
	Node     session.Node `json:"node,omitempty"`
	Touches  int          `json:"touches"`
	Lost     int          `json:"lost"`
	// Round trips in microseconds, absent if no touch was answered.
	MinUS    *float64 `json:"min_us,omitempty"`
	MedianUS *float64 `json:"median_us,omitempty"`
	P99US    *float64 `json:"p99_us,omitempty"`
	MaxUS    *float64 `json:"max_us,omitempty"`
	Error    string   `json:"error,omitempty"`
}

// pinger measures touches at every endpoint.
type pinger struct {
	env *cli.Env
	*pingFlags
}

// measure returns a view of each endpoint, and why some or all nodes could not be measured. A usage error comes without
// views.
func (p *pinger) measure(ctx context.Context) ([]pingView, error) {
	if err := p.env.Cluster.CheckEndpoints(); err != nil {
		return nil, err
	}
	endpoints := p.env.Cluster.Endpoints
	views, errs := make([]pingView, len(endpoints)), make([]error, len(endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range endpoints {
		wg.Go(func() { views[i], errs[i] = p.node(ctx, endpoint) })
	}
	wg.Wait()
	for _, err := range errs {
		if usage, ok := errors.AsType[cli.UsageError](err); ok {
			return nil, usage
		}
	}
	if ctx.Err() != nil && !slices.ContainsFunc(views, func(v pingView) bool { return v.Touches > 0 }) {
		return nil, fmt.Errorf("no touch was measured: %w", context.Cause(ctx))
	}
	return views, cli.JoinNodes(errs)
}

// node opens a session at one endpoint, touches it, and closes it although ctx may have ended. An early end leaves a
// valid measurement of the touches until then.
func (p *pinger) node(ctx context.Context, endpoint string) (v pingView, err error) {
	v.Endpoint = endpoint
	cl, err := p.env.Cluster.NewClient(client.Config{Endpoints: []string{endpoint}, OnlyEndpoints: true})
	if err != nil {
		return v, err
	}
	defer func() { _ = cl.Close() }() // always nil
	opening, cancel := p.env.Cluster.WithTimeout(ctx)
	defer cancel()
	failed := func(err error) (pingView, error) {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		v.Error = cli.OneLine(err)
		return v, err
	}
	status, err := p.env.Cluster.StatusOf(opening, cl, endpoint)
	if err != nil {
		return failed(err)
	}
	v.Node = status.Node
	s, err := cl.Open(opening, p.env.SessionFor("ping", p.timeout))
	if err != nil {
		return failed(err)
	}
	trips, lost, err := p.touches(ctx, cl, s, v.Node)
	v.setTrips(trips, lost)
	closing, cancelClose := p.env.Cluster.WithTimeout(context.WithoutCancel(ctx))
	defer cancelClose()
	if closeErr := s.Close(closing); err == nil {
		err = closeErr
	}
	if err != nil {
		v.Error = cli.OneLine(err)
	}
	return v, err
}

// touches touches the session count times. It returns the round trips, the number of touches that failed, and the error
// of the last failure. A touch before the others makes the connection; its round trip does not count.
func (p *pinger) touches(ctx context.Context, cl *client.Client, s *client.Session,
	node session.Node,
) (trips []time.Duration, lost int, err error) {
	ticker := time.NewTicker(max(p.interval, 1))
	defer ticker.Stop()
	for i := range p.count + 1 {
		trip, touchErr := p.touch(ctx, cl, s, node)
		switch {
		case ctx.Err() != nil:
			return trips, lost, err
		case touchErr != nil:
			err = touchErr
			lost++
		case i > 0:
			trips = append(trips, trip)
		}
		if s.Err() != nil {
			return trips, lost, s.Err()
		}
		if p.interval > 0 && i < p.count {
			select {
			case <-ticker.C:
			case <-ctx.Done():
			}
		}
	}
	return trips, lost, err
}

// touch touches the session once and returns the round trip. It fails if another node owns the session: the client
// opens sessions elsewhere, or moves them, while the measured node knows no leader.
func (p *pinger) touch(ctx context.Context, cl *client.Client, s *client.Session,
	node session.Node,
) (time.Duration, error) {
	if owner := s.Owner(); owner != node {
		return 0, fmt.Errorf("node %d is not the owner: the session is at node %d", node, owner)
	}
	touching, cancel := p.env.Cluster.WithTimeout(ctx)
	defer cancel()
	begin := time.Now()
	results, err := cl.Touch(touching, []session.Token{s.Token()})
	if err == nil {
		err = results[0].Err
	}
	return time.Since(begin), err
}

// setTrips puts the statistics of the round trips into v. It sorts trips.
func (v *pingView) setTrips(trips []time.Duration, lost int) {
	v.Touches, v.Lost = len(trips), lost
	if len(trips) == 0 {
		return
	}
	slices.Sort(trips)
	us := func(i int) *float64 { return new(float64(trips[i].Nanoseconds()) / 1e3) }
	n := len(trips)
	v.MinUS, v.MedianUS, v.P99US, v.MaxUS = us(0), us(rank(n, 50)), us(rank(n, 99)), us(n-1)
}

// rank returns the index of a percentile among n sorted values: of the smallest value that is not below percent of all.
func rank(n, percent int) int { return (n*percent+99)/100 - 1 }

func pingText(views []pingView, columns int) string {
	rows := make([][]string, 0, len(views))
	var notes []string
	for i := range views {
		rows = append(rows, pingRow(&views[i]))
		if why := views[i].Error; why != "" {
			notes = append(notes, views[i].Endpoint+": "+why)
		}
	}
	text := cli.Table([]string{"ENDPOINT", "NODE", "TOUCHES", "LOST", "MIN", "MEDIAN", "P99", "MAX"}, rows)
	if len(notes) > 0 {
		text += "\n" + cli.Paragraphs(notes, columns)
	}
	return text
}

func pingRow(v *pingView) []string {
	node := "-"
	if v.Node != 0 {
		node = cli.Number(v.Node)
	}
	row := []string{v.Endpoint, node, fmt.Sprint(v.Touches), fmt.Sprint(v.Lost)}
	for _, us := range []*float64{v.MinUS, v.MedianUS, v.P99US, v.MaxUS} {
		text := "-"
		if us != nil {
			text = (time.Duration(*us*1e3) * time.Nanosecond).Round(time.Microsecond).String()
		}
		row = append(row, text)
	}
	return row
}
