package tree

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

const (
	// maxDrawn bounds --limit: the command keeps all entries that it draws.
	maxDrawn = 1_000_000
	// maxOwners bounds the sessions whose remaining time is requested. Each costs a call.
	maxOwners = 1000
)

// treeFlags are the flags of "tree".
type treeFlags struct {
	reads        cli.ReadFlags
	depth, limit int
}

func newTree(env *cli.Env) *cobra.Command {
	var f treeFlags
	cmd := &cobra.Command{
		Use: "tree PATH", Short: "Draw an entry of the tree and all entries below it", Args: cli.OnePath,
		Long: fmt.Sprintf(`Draw an entry of the tree and all entries below it. Each line has the name of an entry and the size
of its data. An ephemeral entry also has its session and the session's remaining time, for at most
%d sessions. Other entries that expire have their kind.

The entries are read in pages, so the picture is no snapshot of a single moment.`, maxOwners),
		Example: `  holdfast tree /
  holdfast tree /app --depth 2`,
		RunE: cli.Run(env, &f, runTree),
	}
	f.reads.Register(cmd, env.Cluster)
	cmd.Flags().Var(arg.Whole(&f.depth, tree.MaxDepth, 0, tree.MaxDepth), "depth", "levels below PATH to draw")
	cmd.Flags().Var(arg.Whole(&f.limit, 10_000, 1, maxDrawn), "limit", "maximum number of entries")
	return cmd
}

func runTree(ctx context.Context, env *cli.Env, f *treeFlags, args []string) error {
	return env.Cluster.Connect(func(cl *client.Client) error {
		d := &drawer{env: env, treeFlags: f, cl: cl, tree: cl.Tree(f.reads.Options()...), owners: map[uint64]string{}}
		return d.draw(ctx, args[0])
	})
}

// drawer is one run of "tree".
type drawer struct {
	env *cli.Env
	*treeFlags

	cl   *client.Client
	tree *client.Tree
	// drawn are the entries so far; cut says that entries are missing because of --limit.
	drawn []branchView
	cut   bool
	// owners has the requested remaining times of sessions.
	owners map[uint64]string
}

// branchView is an entry of the drawing, in JSON.
type branchView struct {
	Path   string    `json:"path"`
	Stat   *statView `json:"stat,omitempty"`
	Hidden bool      `json:"hidden,omitempty"`
	// SessionRemaining is the remaining time of the session of an ephemeral entry.
	SessionRemaining string `json:"session_remaining,omitempty"`
	// line draws the entry.
	line string
}

func (d *drawer) draw(ctx context.Context, path string) error {
	root, err := cli.Timed(ctx, d.env.Cluster, func(ctx context.Context) (client.Entry, error) {
		return d.tree.Get(ctx, path)
	})
	if err != nil {
		return err
	}
	d.add(ctx, path, tree.Child{Name: path, Stat: root.Stat}, "")
	if d.depth > 0 {
		if err := d.below(ctx, path, "", d.depth-1); err != nil {
			return err
		}
	}
	if d.cut {
		d.env.Out.Messagef("holdfast: only the first %d entries are shown: use --limit or a longer PATH\n", d.limit)
	}
	return d.env.Out.Print(d.drawn, func() string {
		lines := make([]string, 0, len(d.drawn))
		for _, b := range d.drawn {
			lines = append(lines, b.line)
		}
		return strings.Join(lines, "\n")
	})
}

// below draws what is below path, with a number of further levels. Each line begins with indent.
func (d *drawer) below(ctx context.Context, path, indent string, levels int) error {
	children, err := d.env.Children(ctx, d.tree, path, client.Listing{WithStat: true}, d.limit-len(d.drawn))
	if cli.IsRefused(err, tree.NoNode) || cli.IsRefused(err, tree.NoPermission) {
		return nil // removed since, or hidden
	}
	if err != nil {
		return err
	}
	for i, child := range children {
		if len(d.drawn) >= d.limit {
			d.cut = true
			return nil
		}
		joint, deeper := "├── ", "│   "
		if i == len(children)-1 {
			joint, deeper = "└── ", "    "
		}
		full := tree.Join(path, child.Name)
		d.add(ctx, full, child, indent+joint)
		if child.Stat.Children == 0 || levels == 0 {
			continue
		}
		if err := d.below(ctx, full, indent+deeper, levels-1); err != nil {
			return err
		}
	}
	return nil
}

// add adds an entry to the drawing.
func (d *drawer) add(ctx context.Context, path string, child tree.Child, indent string) {
	b := branchView{Path: path, Hidden: child.Hidden, line: indent + cli.Escape(child.Name)}
	if child.Hidden {
		b.line += "  (hidden)"
		d.drawn = append(d.drawn, b)
		return
	}
	s := child.Stat
	b.Stat = viewStat(s)
	var notes []string
	if s.Kind == tree.Ephemeral {
		b.SessionRemaining = d.remaining(ctx, s.Owner)
		notes = append(notes, "session "+session.ID(s.Owner).String()+" "+b.SessionRemaining)
	} else if s.Kind != tree.Persistent {
		note := s.Kind.String()
		if s.Due != 0 {
			note += leftText(s.Remaining)
		}
		notes = append(notes, note)
	}
	if s.Bytes > 0 {
		notes = append(notes, words.Bytes(uint64(s.Bytes)))
	}
	if len(notes) > 0 {
		b.line += "  (" + strings.Join(notes, ", ") + ")"
	}
	d.drawn = append(d.drawn, b)
}

// leftText shows a remaining time after a name.
func leftText(d time.Duration) string {
	return " has " + d.Round(100*time.Millisecond).String() + " left"
}

// remaining shows the remaining time of a session, and asks for it once.
func (d *drawer) remaining(ctx context.Context, owner uint64) string {
	if text, known := d.owners[owner]; known {
		return text
	}
	if len(d.owners) >= maxOwners {
		return "lives"
	}
	f, err := cli.Timed(ctx, d.env.Cluster, func(ctx context.Context) (client.Found, error) {
		return d.cl.Get(ctx, session.ID(owner))
	})
	var text string
	switch {
	case err != nil || f.Certificate == nil && f.Remaining < 0:
		text = "has an unknown time left"
	case f.Certificate != nil:
		text = "has ended meanwhile"
	default:
		text = leftText(f.Remaining)[1:]
	}
	d.owners[owner] = text
	return text
}
