package tree

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/session/words"
	"holdfast/tree"
)

// getFlags are the flags of "get".
type getFlags struct {
	stat  bool
	reads cli.ReadFlags
}

func newGet(env *cli.Env) *cobra.Command {
	var f getFlags
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Print the data of an entry of the tree", Args: cli.OnePath,
		Long: `Print the data of an entry of the tree, byte for byte. On a terminal, unprintable bytes are shown as
\x00, so that data cannot control the terminal. An entry without data prints nothing. With -o json
the data is in base64, and absent if the entry has none.`,
		Example: `  holdfast get /app/config
  holdfast get /app/config --stat
  holdfast get /app/config -o json | jq -r .data | base64 -d`,
		RunE: cli.Run(env, &f, runGet),
	}
	f.reads.Register(cmd, env.Cluster)
	cmd.Flags().BoolVar(&f.stat, "stat", false, "print the metadata of the entry instead of its data")
	return cmd
}

func runGet(ctx context.Context, env *cli.Env, f *getFlags, args []string) error {
	path := args[0]
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		e, err := cl.Tree(f.reads.Options()...).Get(ctx, path)
		switch {
		case err != nil:
			return err
		case f.stat || env.Out.JSON():
			return env.Out.Print(viewEntry(path, e), func() string { return cli.Properties(statRows(path, e.Stat)) })
		default:
			return env.Out.PrintData(e.Data)
		}
	})
}

// childView is a child in a list, in JSON.
type childView struct {
	Name string `json:"name"`
	// Stat is absent unless -l was given, and for a child that the client may not read.
	Stat *statView `json:"stat,omitempty"`
	// Hidden reports that the client may not read the child.
	Hidden bool `json:"hidden,omitempty"`
}

// listFlags are the flags of "list".
type listFlags struct {
	long  bool
	reads cli.ReadFlags
}

func newList(env *cli.Env) *cobra.Command {
	var f listFlags
	cmd := &cobra.Command{
		Use: "ls PATH", Short: "List the children of an entry of the tree", Args: cli.OnePath,
		Long: `List the children of an entry of the tree, sorted by name. With -l, show the kind, version, size,
number of children, owner and age of each. Of a child that the client may not read, only the name is
shown. The list is read in pages, so it is no snapshot of a single moment.`,
		Example: `  holdfast ls /app
  holdfast ls -l /app/members`,
		RunE: cli.Run(env, &f, runList),
	}
	f.reads.Register(cmd, env.Cluster)
	cmd.Flags().BoolVarP(&f.long, "long", "l", false, "show a table with the metadata of each child")
	return cmd
}

func runList(ctx context.Context, env *cli.Env, f *listFlags, args []string) error {
	var children []tree.Child
	err := env.Cluster.Connect(func(cl *client.Client) (err error) {
		children, err = env.Children(ctx, cl.Tree(f.reads.Options()...), args[0],
			client.Listing{WithStat: f.long}, -1)
		return err
	})
	if err != nil {
		return err
	}
	return printChildren(env, children, f.long)
}

//nolint:revive // flag-parameter: -l
func printChildren(env *cli.Env, children []tree.Child, long bool) error {
	views := make([]childView, 0, len(children))
	rows := make([][]string, 0, len(children))
	now := time.Now()
	for _, child := range children {
		v := childView{Name: child.Name, Hidden: child.Hidden}
		if long && !child.Hidden {
			v.Stat = viewStat(child.Stat)
		}
		views = append(views, v)
		rows = append(rows, childRow(child, now))
	}
	if !env.Out.JSON() && !long {
		for _, child := range children {
			if _, err := fmt.Fprintln(env.Out.Stdout, cli.Escape(child.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	return env.Out.Print(views, func() string {
		return cli.Table([]string{"NAME", "KIND", "VERSION", "SIZE", "CHILDREN", "OWNER", "AGE"}, rows)
	})
}

func childRow(child tree.Child, now time.Time) []string {
	if child.Hidden {
		return []string{child.Name, "hidden", "-", "-", "-", "-", "-"}
	}
	s := child.Stat
	return []string{
		child.Name, s.Kind.String(), strconv.FormatInt(s.Version, 10), words.Bytes(uint64(s.Bytes)),
		strconv.Itoa(s.Children), ownerText(s.Owner), ageText(now.Sub(s.CreatedAt)),
	}
}

// ageText rounds the age of an entry to a second. The clock that made the entry may be ahead of this one.
func ageText(d time.Duration) string { return max(d, 0).Round(time.Second).String() }
