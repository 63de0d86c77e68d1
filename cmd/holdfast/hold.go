package main

import (
	"context"
	"encoding/json"
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
		Use: "hold", Short: "Keep a session alive until interrupted", Args: cobra.NoArgs,
		Long: `Keep a session alive until interrupted: the one of a token, or a new one. Prints its id and token, then its state machine as it
goes: what happened, the state after it and the one before where that is another, and the moment up to which the
cluster promises not to expire the session; with -o json one object on each line. States are connecting, connected,
jeopardy (a node serves the session, and touches may not count), expired, closed and auth failed.

Ctrl-C closes the session, or leaves it to expire with --keep; the exit code then is 0. It is 1 when the session ends
otherwise.`,
		Example: `  holdfast session hold --label service=web
  holdfast session hold --token-file token --keep -o json`,
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
	cl, err := client.New(client.Config{Endpoints: c.endpoints})
	if err != nil {
		return usageError{err}
	}
	defer func() { _ = cl.Close() }() // always nil
	getting, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	s, err := get(getting, cl)
	if err != nil {
		return err
	}
	if err := c.printLine(viewHeld(s), fmt.Sprintf("id     %v\ntoken  %s", s.ID(), formatToken(s.Token()))); err != nil {
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

// letGo ends the session although ctx has ended, and prints what is left to print.
func (c *cli) letGo(ctx context.Context, s *client.Session, end func(*client.Session, context.Context) error) error {
	ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), c.timeout)
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
		Time: e.At.Round(0), Event: e.Kind.String(), From: e.From.String(), State: e.State.String(), Node: e.Node, Address: e.Address,
		SafeUntil: moment(e.SafeUntil), Dropped: e.Dropped,
	}
	passage := v.State
	if e.From != e.State {
		passage = v.From + " -> " + v.State
	}
	text := fmt.Sprintf("%s  %-14s %-24s node %d  safe until %s", timeText(e.At), v.Event, passage, e.Node, timeText(e.SafeUntil))
	if e.Address != "" {
		text += "  " + e.Address
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
		return json.NewEncoder(c.stdout).Encode(v)
	}
	return write(c.stdout, text)
}
