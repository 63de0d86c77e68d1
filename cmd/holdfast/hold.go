package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
)

func (c *cli) sessionHold() *cobra.Command {
	var open openFlags
	var token tokenFlag
	var keep bool
	cmd := &cobra.Command{
		Use: "hold", Short: "Keep a session alive until interrupted", Args: noArgs,
		Long: `Keep a session alive until interrupted: the session of a token, or a new session.

The command prints the session's id and token, then a line for each event: the event, the state
after it (and the state before it, if that was another), and the time until which the cluster
promises not to expire the session. With -o json each line is an object. The states are
connecting, connected, jeopardy (a node serves the session, but touches may not count),
connected read-only, expired, closed and auth failed.

With a token, the command takes the session over from its present holder; an old token works
too. When another process takes the session over, the command ends and does not take it back.

With --read-only the connection may stay at a read-only node, which knows no leader, while the
client looks for a read-write node. Only a read-write node can open or resume the session: until
the client finds one, a line names the read-only node of the connection. Once the client has
reached a read-only node it waits without a time limit, even if it loses that node.

Ctrl-C closes the session, or with --keep leaves it to expire; the exit code then is 0. When the
session ends in another way the exit code is 1.`,
		Example: `  holdfast session hold --label service=web
  holdfast session hold --token-file token --keep -o json
  holdfast session hold --read-only`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			h := holder{target: c.target, out: c.out, get: open.open, end: (*client.Session).Close}
			if token.given() {
				t, err := token.token(cmd.Context(), c.stdin) // however long that takes: --call-timeout is for calls
				if err != nil {
					return err
				}
				h.get = func(ctx context.Context, cl *client.Client) (*client.Session, error) { return cl.Resume(ctx, t) }
			}
			if keep {
				h.end = func(*client.Session, context.Context) error { return nil }
			}
			return h.hold(cmd.Context())
		},
	}
	open.add(cmd)
	token.add(cmd)
	c.target.registerReadOnly(cmd)
	cmd.Flags().BoolVar(&keep, "keep", false, "on Ctrl-C leave the session to expire instead of closing it")
	for _, ofNew := range []string{"timeout", "label", "local"} {
		cmd.MarkFlagsMutuallyExclusive("token-file", ofNew)
	}
	return cmd
}

// holder is one run of "session hold".
type holder struct {
	target *target
	out    *printer
	// get opens or resumes the session, and end ends it when the user interrupts the command.
	get func(context.Context, *client.Client) (*client.Session, error)
	end func(*client.Session, context.Context) error
	// first runs once the session is there, if it is not nil. If it fails, the command closes the session and fails.
	first func(context.Context, *client.Session) error
}

// hold gets the session and prints its events until the session or ctx ends.
func (h *holder) hold(ctx context.Context) error {
	places := make(chan place, 1)
	cl, err := h.target.client(client.Config{
		Endpoints: h.target.endpoints, ReadOnly: h.target.readOnly,
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
	s, err := h.obtain(ctx, cl, places)
	if err != nil {
		return err
	}
	if err := h.out.printLine(viewHeld(s),
		fmt.Sprintf("id     %v\ntoken  %s", s.ID(), formatToken(s.Token()))); err != nil {
		return err
	}
	if h.first != nil {
		if err := h.first(ctx, s); err != nil {
			return h.leave(ctx, s, err)
		}
	}
	return h.follow(ctx, s)
}

// follow prints the events of a session until it or ctx ends. If ctx ends first, follow ends the session.
func (h *holder) follow(ctx context.Context, s *client.Session) error {
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return s.Err()
			}
			if err := h.printEvent(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return h.letGo(ctx, s)
		}
	}
}

// place is the node that the client is connected to.
type place struct {
	address string
	state   session.NodeState
}

// obtain gets the session within the time limit of one call. With --read-only the limit ends for good at the first
// read-only node: the cluster answers, though it cannot open or resume yet. obtain prints that node. If the node is
// lost, obtain waits on, as hold does for a session that it has.
func (h *holder) obtain(ctx context.Context, cl *client.Client, places <-chan place) (*client.Session, error) {
	getting, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(h.target.timeout, func() { cancel(lateError{h.target.timeout}) })
	defer limit.Stop()
	var s *client.Session
	var err error
	got := make(chan struct{})
	go func() {
		defer close(got)
		s, err = h.get(getting, cl)
	}()
	for {
		select {
		case <-got:
			return s, err
		case p := <-places:
			if !h.target.readOnly || p.state.Mode != session.ModeReadOnly {
				continue
			}
			limit.Stop()
			if printErr := h.printWaiting(p); printErr != nil {
				cancel(printErr)
				<-got
				return nil, printErr
			}
		}
	}
}

// waitingView is the wait for a session at a read-only node, in JSON.
type waitingView struct {
	Time    time.Time    `json:"time"`
	State   string       `json:"state"`
	Node    session.Node `json:"node"`
	Address string       `json:"address"`
	Index   uint64       `json:"index"`
}

func (h *holder) printWaiting(p place) error {
	v := waitingView{
		time.Now().Round(0), client.StateConnectedReadOnly.String(), p.state.Node, p.address,
		p.state.Index,
	}
	return h.out.printLine(v, fmt.Sprintf(
		"%s  %s  node %d  %s  index %d  no session yet: looking for a read-write node",
		words.Moment(v.Time), v.State, v.Node, escaped(v.Address), v.Index))
}

// letGo ends the session although ctx has ended, and prints the remaining events.
func (h *holder) letGo(ctx context.Context, s *client.Session) error {
	ending, cancel := h.target.bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := h.end(s, ending); err != nil {
		return err
	}
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return nil
			}
			if err := h.printEvent(e); err != nil {
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

func (h *holder) printEvent(e client.Event) error {
	v := eventView{
		Time: e.At.Round(0), Event: e.Kind.String(), From: e.From.String(), State: e.State.String(), Node: e.Node,
		Address: e.Address, SafeUntil: moment(e.SafeUntil), Dropped: e.Dropped,
	}
	passage := v.State
	if e.From != e.State {
		passage = v.From + " -> " + v.State
	}
	text := fmt.Sprintf("%s  %-14s %-24s node %d  safe until %s", words.Moment(e.At), v.Event, passage, e.Node,
		words.Moment(e.SafeUntil))
	if e.Address != "" {
		text += "  " + escaped(e.Address)
	}
	if e.Err != nil {
		v.Error = oneLine(e.Err)
		text += "  " + v.Error
	}
	return h.out.printLine(v, text)
}
