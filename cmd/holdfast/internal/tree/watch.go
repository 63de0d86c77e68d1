package tree

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/session/words"
	"holdfast/tree"
)

// watchFlags are the flags of "watch".
type watchFlags struct {
	recursive bool
}

func newWatch(env *cli.Env) *cobra.Command {
	var f watchFlags
	cmd := &cobra.Command{
		Use: "watch PATH", Short: "Print events of an entry of the tree", Args: cli.OnePath,
		Long: `Print the events of an entry of the tree and of the list of its children, or with --recursive of the
entry and all below it, until Ctrl-C. The entry need not exist.

Each line has the time at which the command received the event, the stamp of the change, the event
and the path. The first line is "watching": all later changes follow. The watch continues at another
node when its node is lost. "LOST" means that events up to a stamp may be missing: read the entries
again. LOST names a reason when the cluster was replaced or restored. With -o json each line is an
object.`,
		Example: `  holdfast watch /app/members
  holdfast watch --recursive /app -o json`,
		RunE: cli.Run(env, &f, runWatch),
	}
	cmd.Flags().BoolVarP(&f.recursive, "recursive", "r", false, "watch all entries below PATH too")
	env.Cluster.AddReadOnlyFlag(cmd)
	return cmd
}

func runWatch(ctx context.Context, env *cli.Env, f *watchFlags, args []string) error {
	kind := tree.WatchPersistent
	if f.recursive {
		kind = tree.WatchRecursive
	}
	events := func(ctx context.Context, cl *client.Client) iter.Seq2[client.WatchEvent, error] {
		return cl.Tree().Watch(ctx, args[0], kind)
	}
	return cli.Follow(ctx, env.Cluster, events, func(e client.WatchEvent) error { return printEvent(env, e) })
}

// eventView is an event of a watch, in JSON.
type eventView struct {
	Time  time.Time `json:"time"`
	Stamp string    `json:"stamp"`
	Event string    `json:"event"`
	// Path is absent in events of the watch itself.
	Path string `json:"path,omitempty"`
	// Why is the reason for lost events, absent when the watch was disconnected for too long.
	Why string `json:"why,omitempty"`
}

func printEvent(env *cli.Env, e client.WatchEvent) error {
	v := viewEvent(e)
	text := fmt.Sprintf("%s  %-12s %s", words.Moment(v.Time), v.Stamp, v.Event)
	if about := cmp.Or(cli.Escape(v.Path), v.Why); about != "" {
		text = fmt.Sprintf("%s  %-12s %-16s %s", words.Moment(v.Time), v.Stamp, v.Event, about)
	}
	return env.Out.PrintLine(v, text)
}

func viewEvent(e client.WatchEvent) eventView {
	v := eventView{Time: time.Now().Round(0), Stamp: e.Stamp.String(), Event: e.Kind.String(), Path: e.Path}
	switch {
	case e.Started:
		v.Event, v.Path = "watching", ""
	case e.Lost:
		v.Event, v.Path, v.Why = "LOST", "", cli.Reason(e.Reason)
	}
	return v
}
