package main

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
)

// maxPings bounds --count: all round trips are kept for the quantiles.
const maxPings = 1_000_000

// pinger measures touches at every endpoint.
type pinger struct {
	count    int
	interval time.Duration
	timeout  time.Duration
}

func (c *cli) ping() *cobra.Command {
	var p pinger
	cmd := &cobra.Command{
		Use: "ping", Short: "Measure the round trips of touches at every endpoint", Args: noArgs,
		Long: `Measure the round trips of touches at every node named by --endpoints, all nodes at the same time: open a session there, touch it
so many times one after the other, and close it. What is measured is the touch of one session by its token, over a
connection that stands: network, gRPC and the node's touch table, without log and disk. A session that moves away
meanwhile counts as lost touches.

A node that cannot be measured has a line that says why; then the exit code is 1, or 3 when no node answers.`,
		Example: `  holdfast ping --count 100 --endpoints localhost:7400,localhost:7410,localhost:7420`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return c.measure(cmd.Context(), p)
		},
	}
	cmd.Flags().Var(arg.Whole(&p.count, 10, 1, maxPings), "count",
		fmt.Sprintf("touches at each endpoint, 1 to %d", maxPings))
	cmd.Flags().Var(arg.NotNegative(&p.interval, 100*time.Millisecond), "interval",
		"from the begin of one touch to that of the next one; 0 is without a pause")
	cmd.Flags().Var(timeoutValue(&p.timeout), "timeout", "of the sessions that are opened, "+timeoutHelp)
	return cmd
}

// pingView is what was measured at an endpoint, in JSON; Error says why a node could not be measured to the end.
type pingView struct {
	Endpoint string       `json:"endpoint"`
	Node     session.Node `json:"node,omitempty"`
	Touches  int          `json:"touches"`
	Lost     int          `json:"lost"`
	// Round trips in microseconds; absent without any.
	MinUS    *float64 `json:"min_us,omitempty"`
	MedianUS *float64 `json:"median_us,omitempty"`
	P99US    *float64 `json:"p99_us,omitempty"`
	MaxUS    *float64 `json:"max_us,omitempty"`
	Error    string   `json:"error,omitempty"`
}

func (c *cli) measure(ctx context.Context, p pinger) error {
	if err := c.checkEndpoints(); err != nil {
		return err
	}
	views, errs := make([]pingView, len(c.endpoints)), make([]error, len(c.endpoints))
	var wg sync.WaitGroup
	for i, endpoint := range c.endpoints {
		wg.Go(func() { views[i], errs[i] = c.pingNode(ctx, endpoint, p) })
	}
	wg.Wait()
	for _, err := range errs {
		if usageErr, ok := err.(usageError); ok { //nolint:errorlint // pingNode returns it as it is
			return usageErr
		}
	}
	rows := make([][]string, 0, len(views))
	for i := range views {
		rows = append(rows, pingRow(&views[i]))
	}
	headers := []string{"ENDPOINT", "NODE", "TOUCHES", "LOST", "MIN", "MEDIAN", "P99", "MAX", "ERROR"}
	if err := c.print(views, func() string { return columns(headers, rows) }); err != nil {
		return err
	}
	return silentNodes(errs)
}

// pingNode opens a session at one endpoint, touches it, and closes it although ctx may have ended.
func (c *cli) pingNode(ctx context.Context, endpoint string, p pinger) (v pingView, err error) {
	v.Endpoint = endpoint
	cl, err := c.newClient(client.Config{Endpoints: []string{endpoint}})
	if err != nil {
		return v, err
	}
	defer func() { _ = cl.Close() }() // always nil
	opening, cancel := c.bounded(ctx)
	defer cancel()
	status, err := statusOf(opening, cl, endpoint)
	if err != nil {
		v.Error = oneLine(err)
		return v, err
	}
	v.Node = status.Node
	s, err := cl.Open(opening, client.SessionOptions{Timeout: p.timeout, Labels: map[string]string{"holdfast": "ping"}})
	if err != nil {
		v.Error = oneLine(err)
		return v, err
	}
	trips, lost, err := c.touches(ctx, cl, s, v.Node, p)
	v.take(trips, lost)
	closing, cancelClose := c.bounded(context.WithoutCancel(ctx))
	defer cancelClose()
	if closeErr := s.Close(closing); err == nil {
		err = closeErr
	}
	if err != nil {
		v.Error = oneLine(err)
	}
	return v, err
}

// touches returns the round trips of so many touches, and how many came to nothing; the error is that of the last one
// of these. The first touch connects, and is not counted.
func (c *cli) touches(ctx context.Context, cl *client.Client, s *client.Session, node session.Node,
	p pinger,
) (trips []time.Duration, lost int, err error) {
	ticker := time.NewTicker(max(p.interval, 1))
	defer ticker.Stop()
	for i := range p.count + 1 {
		trip, touchErr := c.touchOnce(ctx, cl, s, node)
		switch {
		case ctx.Err() != nil:
			return trips, lost, context.Cause(ctx)
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

// elsewhere says that a node does not serve the session that was opened there: it knows of no leader, and another one
// does.
func elsewhere(owner session.Node) error {
	return fmt.Errorf("it does not serve now: the session is at node %d", owner)
}

func (c *cli) touchOnce(ctx context.Context, cl *client.Client, s *client.Session,
	node session.Node,
) (time.Duration, error) {
	if owner := s.Owner(); owner != node {
		return 0, elsewhere(owner)
	}
	touching, cancel := c.bounded(ctx)
	defer cancel()
	begin := time.Now()
	results, err := cl.Touch(touching, []session.Token{s.Token()})
	if err == nil {
		err = results[0].Err
	}
	return time.Since(begin), err
}

// take puts round trips into v.
func (v *pingView) take(trips []time.Duration, lost int) {
	v.Touches, v.Lost = len(trips), lost
	if len(trips) == 0 {
		return
	}
	slices.Sort(trips)
	us := func(i int) *float64 { return new(float64(trips[i].Nanoseconds()) / 1e3) }
	n := len(trips)
	v.MinUS, v.MedianUS, v.P99US, v.MaxUS = us(0), us(rank(n, 50)), us(rank(n, 99)), us(n-1)
}

// rank returns the index of a percentile among n sorted values: the smallest that so many percent are not above.
func rank(n, percent int) int { return (n*percent+99)/100 - 1 }

func pingRow(v *pingView) []string {
	node := "-"
	if v.Node != 0 {
		node = number(v.Node)
	}
	row := []string{v.Endpoint, node, fmt.Sprint(v.Touches), fmt.Sprint(v.Lost)}
	for _, us := range []*float64{v.MinUS, v.MedianUS, v.P99US, v.MaxUS} {
		text := "-"
		if us != nil {
			text = (time.Duration(*us*1e3) * time.Nanosecond).Round(time.Microsecond).String()
		}
		row = append(row, text)
	}
	return append(row, orDash(v.Error))
}
