package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session"
)

func (c *cli) sessionHold() *cobra.Command {
	var open openFlags
	var token tokenFlags
	var keep bool
	cmd := &cobra.Command{
		Use: "hold", Short: "Keep a session alive until interrupted", Args: noArgs,
		Long: `Keep a session alive until interrupted: the one of a token, or a new one. Prints its id and token, then its state machine as it
goes: what happened, the state after it and the one before where that is another, and the moment up to which the
cluster promises not to expire the session; with -o json one object on each line. States are connecting, connected,
jeopardy (a node serves the session, and touches may not count), connected read-only, expired, closed and auth failed.

With a token the session is taken over from whoever holds it, with an old token too. It ends here when another process takes
it over, and is not taken back.

With --read-only the connection stays at a node that is read-only, because it hears of no leader, for want of a better one, which
is looked for meanwhile. No session is opened or resumed before one is found: until then a line says which read-only node the
connection is to, and there is no bound on the wait once there has been such a node, also when it is lost.

Ctrl-C closes the session, or leaves it to expire with --keep; the exit code then is 0. It is 1 when the session ends
otherwise.`,
		Example: `  holdfast session hold --label service=web
  holdfast session hold --token-file token --keep -o json
  holdfast session hold --read-only`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			get := func(ctx context.Context, cl *client.Client) (*client.Session, error) {
				options, err := open.options()
				if err != nil {
					return nil, err
				}
				return cl.Open(ctx, options)
			}
			if token.given() {
				get = func(ctx context.Context, cl *client.Client) (*client.Session, error) {
					t, err := token.token(c.stdin)
					if err != nil {
						return nil, err
					}
					return cl.Resume(ctx, t)
				}
			}
			end := (*client.Session).Close
			if keep {
				end = func(*client.Session, context.Context) error { return nil }
			}
			return c.hold(cmd.Context(), get, end)
		},
	}
	open.add(cmd)
	token.add(cmd)
	c.addReadOnly(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "leave the session to the cluster on Ctrl-C, instead of closing it")
	cmd.MarkFlagsMutuallyExclusive("token", "timeout")
	cmd.MarkFlagsMutuallyExclusive("token-file", "timeout")
	cmd.MarkFlagsMutuallyExclusive("token", "label")
	cmd.MarkFlagsMutuallyExclusive("token", "local")
	cmd.MarkFlagsMutuallyExclusive("token-file", "local")
	cmd.MarkFlagsMutuallyExclusive("token-file", "label")
	return cmd
}

// hold keeps the session that get brings until ctx ends, and then ends it with end.
func (c *cli) hold(ctx context.Context, get func(context.Context, *client.Client) (*client.Session, error),
	end func(*client.Session, context.Context) error,
) error {
	places := make(chan place, 1)
	cl, err := c.newClient(client.Config{
		Endpoints: c.endpoints, ReadOnly: c.readOnly,
		OnNode: func(address string, state session.NodeState) {
			select {
			case <-places: // only the newest counts
			default:
			}
			places <- place{address, state}
		},
	})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	s, err := c.obtain(ctx, places, func(ctx context.Context) (*client.Session, error) { return get(ctx, cl) })
	if err != nil {
		return err
	}
	if err := c.printLine(viewHeld(s),
		fmt.Sprintf("id     %v\ntoken  %s", s.ID(), formatToken(s.Token()))); err != nil {
		return err
	}
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return s.Err()
			}
			if err := c.printEvent(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return c.letGo(ctx, s, end)
		}
	}
}

// place is where the client's connection is.
type place struct {
	address string
	state   session.NodeState
}

// obtain waits for what get brings, and tells the person when that takes long because the nodes are read-only: then
// without a bound, because they answer. One that is lost later was there: the cluster is waited for as it is by who
// holds a session.
func (c *cli) obtain(ctx context.Context, places <-chan place,
	get func(context.Context) (*client.Session, error),
) (*client.Session, error) {
	getting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	bound := time.AfterFunc(c.timeout, func() { cancel(lateError{c.timeout}) })
	defer bound.Stop()
	var s *client.Session
	var err error
	got := make(chan struct{})
	go func() {
		defer close(got)
		s, err = get(getting)
	}()
	for {
		select {
		case <-got:
			return s, err
		case p := <-places:
			if !c.readOnly || p.state.Mode != session.ModeReadOnly {
				continue
			}
			bound.Stop()
			if printErr := c.printWaiting(p); printErr != nil {
				cancel(printErr)
				<-got
				return nil, printErr
			}
		}
	}
}

// waitingView is a session that has no id yet, in JSON.
type waitingView struct {
	Time    time.Time    `json:"time"`
	State   string       `json:"state"`
	Node    session.Node `json:"node"`
	Address string       `json:"address"`
	Index   uint64       `json:"index"`
}

func (c *cli) printWaiting(p place) error {
	v := waitingView{
		time.Now().Round(0), client.StateConnectedReadOnly.String(), p.state.Node, p.address,
		p.state.Index,
	}
	return c.printLine(v, fmt.Sprintf("%s  %s  node %d  %s  index %d  no session yet: a read-write node is looked for",
		timeText(v.Time), v.State, v.Node, escaped(v.Address), v.Index))
}

// letGo ends the session although ctx has ended, and prints what is left to print.
func (c *cli) letGo(ctx context.Context, s *client.Session, end func(*client.Session, context.Context) error) error {
	ending, cancel := c.bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := end(s, ending); err != nil {
		return err
	}
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return nil
			}
			if err := c.printEvent(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// eventView is an event in JSON.
type eventView struct {
	Time      time.Time    `json:"time"`
	Event     string       `json:"event"`
	From      string       `json:"from"`
	State     string       `json:"state"`
	Node      session.Node `json:"node,omitempty"`
	Address   string       `json:"address,omitempty"`
	SafeUntil *time.Time   `json:"safe_until,omitempty"`
	Error     string       `json:"error,omitempty"`
	// Dropped counts events that were not printed because printing was too slow.
	Dropped uint64 `json:"dropped,omitempty"`
}

func (c *cli) printEvent(e client.Event) error {
	v := eventView{
		Time: e.At.Round(0), Event: e.Kind.String(), From: e.From.String(), State: e.State.String(), Node: e.Node,
		Address:   e.Address,
		SafeUntil: moment(e.SafeUntil), Dropped: e.Dropped,
	}
	passage := v.State
	if e.From != e.State {
		passage = v.From + " -> " + v.State
	}
	text := fmt.Sprintf("%s  %-14s %-24s node %d  safe until %s", timeText(e.At), v.Event, passage, e.Node,
		timeText(e.SafeUntil))
	if e.Address != "" {
		text += "  " + escaped(e.Address)
	}
	if e.Err != nil {
		v.Error = oneLine(e.Err)
		text += "  " + v.Error
	}
	return c.printLine(v, text)
}

// printLine prints v as one line of JSON, or the text.
func (c *cli) printLine(v any, text string) error {
	if c.output == "json" {
		return writeJSON(c.stdout, v, "")
	}
	return write(c.stdout, text)
}
