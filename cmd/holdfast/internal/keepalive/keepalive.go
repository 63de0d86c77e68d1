// Package keepalive keeps a session alive and prints its events until the user interrupts the command. The commands
// "session keep-alive" and "create --keep-alive" use it.
package keepalive

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/session/words"
)

// Options say which session to keep alive.
type Options struct {
	// Open opens or resumes the session.
	Open func(context.Context, *client.Client) (*client.Session, error)
	// NoClose leaves the session to expire when the user interrupts the command.
	NoClose bool
	// First, unless nil, runs once the session is open. When First fails, Run closes the session and fails.
	First func(context.Context, *client.Session) error
}

// Run opens the session and prints its events until the session or ctx ends.
func Run(ctx context.Context, env *cli.Env, o Options) error {
	r := &runner{env: env, options: o, nodes: make(chan node, 1)}
	cl, err := env.Cluster.NewClient(client.Config{
		Endpoints: env.Cluster.Endpoints, ReadOnly: env.Cluster.ReadOnly, OnNode: r.connected,
	})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	s, err := r.open(ctx, cl)
	if err != nil {
		return err
	}
	if err := r.printOpened(s); err != nil {
		return err
	}
	if o.First != nil {
		if err := o.First(ctx, s); err != nil {
			return r.closeAfter(ctx, s, err)
		}
	}
	return r.printEvents(ctx, s)
}

// runner is one call of Run.
type runner struct {
	env     *cli.Env
	options Options
	// nodes has the newest node that the client connected to.
	nodes chan node
}

// node is a node that the client is connected to.
type node struct {
	address string
	state   session.NodeState
}

// connected replaces the node in the channel.
func (r *runner) connected(address string, state session.NodeState) {
	select {
	case <-r.nodes:
	default:
	}
	r.nodes <- node{address, state}
}

// open opens the session within the time limit of one call. With --read-only the first read-only node ends the time
// limit for good: the cluster answers, but no node can open or resume a session yet. open prints that node, and waits
// on even if the node is lost.
func (r *runner) open(ctx context.Context, cl *client.Client) (*client.Session, error) {
	opening, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(r.env.Cluster.CallTimeout, func() { cancel(r.env.Cluster.TimeoutError()) })
	defer limit.Stop()
	var s *client.Session
	var err error
	opened := make(chan struct{})
	go func() {
		defer close(opened)
		s, err = r.options.Open(opening, cl)
	}()
	for {
		select {
		case <-opened:
			return s, err
		case n := <-r.nodes:
			if !r.env.Cluster.ReadOnly || n.state.Mode != session.ModeReadOnly {
				continue
			}
			limit.Stop()
			if printErr := r.printWaiting(n); printErr != nil {
				cancel(printErr)
				<-opened
				return nil, printErr
			}
		}
	}
}

// Opened is the first line of the output in JSON: the session.
type Opened struct {
	ID        view.ID      `json:"id"`
	Token     string       `json:"token"`
	TimeoutMS int64        `json:"timeout_ms"`
	Owner     session.Node `json:"owner"`
	Local     bool         `json:"local,omitempty"`
	SafeUntil *time.Time   `json:"safe_until,omitempty"`
}

func (r *runner) printOpened(s *client.Session) error {
	v := Opened{
		ID: view.ID(s.ID()), Token: cli.FormatToken(s.Token()), TimeoutMS: s.Timeout().Milliseconds(), Owner: s.Owner(),
		Local: s.Local(), SafeUntil: view.Time(s.SafeUntil()),
	}
	return r.env.Out.PrintLine(v, fmt.Sprintf("id     %v\ntoken  %s", s.ID(), v.Token))
}

// Waiting is the wait for a session at a read-only node, in JSON.
type Waiting struct {
	Time    time.Time    `json:"time"`
	State   string       `json:"state"`
	Node    session.Node `json:"node"`
	Address string       `json:"address"`
	Index   uint64       `json:"index"`
}

func (r *runner) printWaiting(n node) error {
	v := Waiting{
		time.Now().Round(0), client.StateConnectedReadOnly.String(), n.state.Node, n.address, n.state.Index,
	}
	return r.env.Out.PrintLine(v, fmt.Sprintf(
		"%s  %s  node %d  %s  index %d  no session yet: looking for a read-write node",
		words.Moment(v.Time), v.State, v.Node, cli.Escape(v.Address), v.Index))
}

// printEvents prints the events of the session until it or ctx ends. When ctx ends first, it ends the session.
func (r *runner) printEvents(ctx context.Context, s *client.Session) error {
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return s.Err()
			}
			if err := r.printEvent(e); err != nil {
				return err
			}
		case <-ctx.Done():
			return r.interrupted(ctx, s)
		}
	}
}

// interrupted closes the session after ctx has ended, unless it is to expire, and prints the remaining events.
func (r *runner) interrupted(ctx context.Context, s *client.Session) error {
	if !r.options.NoClose {
		limited, cancel := r.env.Cluster.WithTimeout(context.WithoutCancel(ctx))
		defer cancel()
		if err := s.Close(limited); err != nil {
			return err
		}
	}
	for {
		select {
		case e, ok := <-s.Events():
			if !ok {
				return nil
			}
			if err := r.printEvent(e); err != nil {
				return err
			}
		default:
			return nil
		}
	}
}

// closeAfter closes a session whose first use failed.
func (r *runner) closeAfter(ctx context.Context, s *client.Session, failed error) error {
	ctx, cancel := r.env.Cluster.WithTimeout(context.WithoutCancel(ctx))
	defer cancel()
	if err := s.Close(ctx); err != nil && !errors.Is(err, session.ErrExpired) {
		return fmt.Errorf("%w; then close the session: %w", failed, err)
	}
	return failed
}

// Event is an event in JSON.
type Event struct {
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

func (r *runner) printEvent(e client.Event) error {
	v := Event{
		Time: e.At.Round(0), Event: e.Kind.String(), From: e.From.String(), State: e.State.String(), Node: e.Node,
		Address: e.Address, SafeUntil: view.Time(e.SafeUntil), Dropped: e.Dropped,
	}
	change := v.State
	if e.From != e.State {
		change = v.From + " -> " + v.State
	}
	text := fmt.Sprintf("%s  %-14s %-24s node %d  safe until %s", words.Moment(e.At), v.Event, change, e.Node,
		words.Moment(e.SafeUntil))
	if e.Address != "" {
		text += "  " + cli.Escape(e.Address)
	}
	if e.Err != nil {
		v.Error = cli.OneLine(e.Err)
		text += "  " + v.Error
	}
	return r.env.Out.PrintLine(v, text)
}
