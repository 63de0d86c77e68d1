package main

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

func (c *treeCommands) treeWatch() *cobra.Command {
	var recursive bool
	cmd := &cobra.Command{
		Use: "watch PATH", Short: "Print what happens to an entry of the tree", Args: onePath,
		Long: `Print what happens to an entry of the tree and to the list of its children, or with --recursive
to the entry and all below it, until Ctrl-C. The entry need not exist.

Each line has the time at which the command heard of the event, the stamp of the change, and what
has happened to which path. The line "watching" comes first: every change after its stamp is
told. The watch goes on when its node is lost. "LOST" says that events up to a stamp may be
missing: read again what matters. It names the reason when the cluster is another one, begun anew
or restored. With -o json each line is an object.`,
		Example: `  holdfast watch /app/members
  holdfast watch --recursive /app -o json`,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind := tree.WatchPersistent
			if recursive {
				kind = tree.WatchRecursive
			}
			return c.watchPath(cmd.Context(), args[0], kind)
		},
	}
	cmd.Flags().BoolVarP(&recursive, "recursive", "r", false, "watch all below the entry too")
	c.target.registerReadOnly(cmd)
	return c.ofTree(cmd)
}

// watchedView is an event of a watch, in JSON.
type watchedView struct {
	Time  time.Time `json:"time"`
	Stamp string    `json:"stamp"`
	Event string    `json:"event"`
	// Path is absent for what is about the watch itself.
	Path string `json:"path,omitempty"`
	// Why says why events may be missing, unless the watch was away for too long.
	Why string `json:"why,omitempty"`
}

func (c *treeCommands) watchPath(ctx context.Context, path string, kind tree.WatchKind) error {
	events := func(ctx context.Context, cl *client.Client) iter.Seq2[client.WatchEvent, error] {
		return cl.Tree().Watch(ctx, path, kind)
	}
	return follow(ctx, c.target, events, func(e client.WatchEvent) error { return printWatched(c.out, e) })
}

// follow tells the events of a client until ctx ends. The first one has the time limit of a call.
func follow[E any](ctx context.Context, t *target,
	events func(ctx context.Context, cl *client.Client) iter.Seq2[E, error], tell func(E) error,
) error {
	cl, err := t.client(client.Config{Endpoints: t.endpoints, ReadOnly: t.readOnly})
	if err != nil {
		return err
	}
	defer func() { _ = cl.Close() }() // always nil
	watching, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	limit := time.AfterFunc(t.timeout, func() { cancel(lateError{t.timeout}) })
	defer limit.Stop()
	for e, err := range events(watching, cl) {
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		limit.Stop()
		if err := tell(e); err != nil {
			return err
		}
	}
	return nil
}

// printWatched prints what is told of an entry.
func printWatched(out *printer, e client.WatchEvent) error {
	v := viewWatched(e)
	text := fmt.Sprintf("%s  %-12s %s", words.Moment(v.Time), v.Stamp, v.Event)
	if about := cmp.Or(escaped(v.Path), v.Why); about != "" {
		text = fmt.Sprintf("%s  %-12s %-16s %s", words.Moment(v.Time), v.Stamp, v.Event, about)
	}
	return out.printLine(v, text)
}

func viewWatched(e client.WatchEvent) watchedView {
	v := watchedView{Time: time.Now().Round(0), Stamp: e.Stamp.String(), Event: e.Kind.String(), Path: e.Path}
	switch {
	case e.Started:
		v.Event, v.Path = "watching", ""
	case e.Lost:
		v.Event, v.Path, v.Why = "LOST", "", whyLost(e.Reason)
	}
	return v
}

// whyLost returns the reason of a LOST in words, empty for none.
func whyLost(reason error) string {
	if reason == nil {
		return ""
	}
	return reason.Error()
}

// toldView is an event of a session, in JSON.
type toldView struct {
	Time        time.Time        `json:"time"`
	Stamp       string           `json:"stamp"`
	Event       string           `json:"event"`
	Session     *sessionView     `json:"session,omitempty"`
	Certificate *certificateView `json:"certificate,omitempty"`
	Why         string           `json:"why,omitempty"`
}

func (c *cli) sessionWatch() *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Print which sessions are opened, moved and ended", Args: noArgs,
		Long: `Print which global sessions are opened, moved to another client or node, and ended, until Ctrl-C.

Each line has the time at which the command heard of it, the stamp of the change, and the
session. A session that has ended comes with its certificate: why it ended, how long it had been
silent, and how many ephemeral entries of the tree went with it. The line "watching" comes first:
every change after its stamp is told. The watch goes on when its node is lost. "LOST" says that
events up to a stamp may be missing. With -o json each line is an object.`,
		Example: `  holdfast session watch
  holdfast session watch -o json`,
		RunE: func(cmd *cobra.Command, _ []string) error { return watchSessions(cmd.Context(), c) },
	}
	c.target.registerReadOnly(cmd)
	return cmd
}

func watchSessions(ctx context.Context, c *cli) error {
	events := func(ctx context.Context, cl *client.Client) iter.Seq2[session.Event, error] {
		return cl.WatchSessions(ctx)
	}
	return follow(ctx, c.target, events, func(e session.Event) error { return printTold(c.out, e) })
}

// printTold prints what is told of a session.
func printTold(out *printer, e session.Event) error {
	v := toldView{Time: time.Now().Round(0), Stamp: e.Stamp.String(), Event: "watching"}
	var about string
	switch {
	case e.Opened != nil:
		v.Event, v.Session = "opened", new(viewSession(*e.Opened, -1))
		about = fmt.Sprintf("%v  timeout %s  node %d  %s", e.Opened.ID, words.Span(e.Opened.Timeout), e.Opened.Owner,
			words.Labels(e.Opened.Labels))
	case e.Moved != nil:
		v.Event, v.Session = "moved", new(viewSession(*e.Moved, -1))
		about = fmt.Sprintf("%v  to node %d  attachment %d", e.Moved.ID, e.Moved.Owner, e.Moved.Attachment)
	case e.Ended != nil:
		v.Event, v.Certificate = "ended", new(viewCertificate(*e.Ended))
		about = fmt.Sprintf("%v  %s  last touch %s before  node %d  ephemerals %d", e.Ended.ID, e.Ended.Cause,
			words.Span(e.Ended.LastTouchAge), e.Ended.Owner, e.Ended.Left.Ephemerals)
		if story := &e.Ended.Story; e.Ended.Cause == session.CauseKilled {
			about += fmt.Sprintf("  by %q", story.By)
			if story.Why != "" {
				about += fmt.Sprintf("  why %q", story.Why)
			}
		}
	case e.Lost:
		v.Event, v.Why = "LOST", whyLost(e.Reason)
		about = v.Why
	}
	text := fmt.Sprintf("%s  %-12s %-8s  %s", words.Moment(v.Time), v.Stamp, v.Event, about)
	return out.printLine(v, strings.TrimRight(text, " "))
}
