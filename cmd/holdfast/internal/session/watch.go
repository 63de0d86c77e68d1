package session

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/holdfast/internal/view"
	"holdfast/session"
	"holdfast/session/words"
)

func newWatch(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "watch", Short: "Print events of sessions: opened, moved, ended", Args: cli.NoArgs,
		Long: `Print which global sessions are opened, moved to another client or node, and ended, until Ctrl-C.

Each line has the time at which the command received the event, the stamp of the change, and the
session. The event of a session that has ended has its death certificate: the cause, the time since
the last touch, and the number of ephemeral entries that were removed. The first line is "watching":
all later changes follow. The watch continues at another node when its node is lost. "LOST" means
that events up to a stamp may be missing. With -o json each line is an object.`,
		Example: `  holdfast session watch
  holdfast session watch -o json`,
		RunE: cli.Run(env, &cli.NoFlags{}, runWatch),
	}
	env.Cluster.AddReadOnlyFlag(cmd)
	return cmd
}

func runWatch(ctx context.Context, env *cli.Env, _ *cli.NoFlags, _ []string) error {
	events := func(ctx context.Context, cl *client.Client) iter.Seq2[session.Event, error] {
		return cl.WatchSessions(ctx)
	}
	return cli.Follow(ctx, env.Cluster, events, func(e session.Event) error { return printEvent(env, e) })
}

// eventView is an event of a session, in JSON.
type eventView struct {
	Time        time.Time         `json:"time"`
	Stamp       string            `json:"stamp"`
	Event       string            `json:"event"`
	Session     *view.Session     `json:"session,omitempty"`
	Certificate *view.Certificate `json:"certificate,omitempty"`
	Why         string            `json:"why,omitempty"`
}

func printEvent(env *cli.Env, e session.Event) error {
	v := eventView{Time: time.Now().Round(0), Stamp: e.Stamp.String(), Event: "watching"}
	var about string
	switch {
	case e.Opened != nil:
		v.Event, v.Session = "opened", new(view.NewSession(*e.Opened, -1))
		about = fmt.Sprintf("%v  timeout %s  node %d  %s", e.Opened.ID, words.Span(e.Opened.Timeout), e.Opened.Owner,
			words.Labels(e.Opened.Labels))
	case e.Moved != nil:
		v.Event, v.Session = "moved", new(view.NewSession(*e.Moved, -1))
		about = fmt.Sprintf("%v  to node %d  attachment %d", e.Moved.ID, e.Moved.Owner, e.Moved.Attachment)
	case e.Ended != nil:
		v.Event, v.Certificate = "ended", new(view.NewCertificate(*e.Ended))
		about = fmt.Sprintf("%v  %s  last touch %s before  node %d  ephemerals %d", e.Ended.ID, e.Ended.Cause,
			words.Span(e.Ended.LastTouchAge), e.Ended.Owner, e.Ended.Left.Ephemerals)
		if story := &e.Ended.Story; e.Ended.Cause == session.CauseKilled {
			about += fmt.Sprintf("  by %q", story.By)
			if story.Why != "" {
				about += fmt.Sprintf("  reason %q", story.Why)
			}
		}
	case e.Lost:
		v.Event, v.Why = "LOST", cli.Reason(e.Reason)
		about = v.Why
	}
	text := fmt.Sprintf("%s  %-12s %-8s  %s", words.Moment(v.Time), v.Stamp, v.Event, about)
	return env.Out.PrintLine(v, strings.TrimRight(text, " "))
}
