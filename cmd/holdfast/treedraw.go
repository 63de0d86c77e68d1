package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

const (
	// maxDrawn bounds --most: tree keeps all that it draws.
	maxDrawn = 1_000_000
	// maxOwners is how many sessions tree asks for their remaining time. Each costs a call.
	maxOwners = 1000
)

func (c *treeCommands) treeDraw() *cobra.Command {
	d := drawer{cli: c, reads: readFlags{target: c.target}}
	cmd := &cobra.Command{
		Use: "tree PATH", Short: "Draw an entry of the tree and all below it", Args: onePath,
		Long: fmt.Sprintf(`Draw an entry of the tree and all below it. Each line has the name of an entry and the size of its
data. An ephemeral entry shows its session, and how long the session has left if it stays silent. At
most %d sessions are asked for that. Of other entries that end by themselves, the kind is shown.

The tree is read piece by piece and may change meanwhile.`, maxOwners),
		Example: `  holdfast tree /
  holdfast tree /app --depth 2`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.target.with(func(cl *client.Client) error { return d.draw(cmd.Context(), cl, args[0]) })
		},
	}
	d.reads.add(cmd)
	cmd.Flags().Var(arg.Whole(&d.depth, tree.MaxDepth, 0, tree.MaxDepth), "depth", "levels below PATH to draw")
	cmd.Flags().Var(arg.Whole(&d.most, 10_000, 1, maxDrawn), "most", "number of entries to draw, at most")
	return c.ofTree(cmd)
}

// drawer is one run of "tree".
type drawer struct {
	cli         *treeCommands
	reads       readFlags
	depth, most int

	cl     *client.Client
	tree   *client.Tree
	drawn  []branchView
	cut    bool // entries are missing because of most
	owners map[uint64]string
}

// branchView is an entry of the drawing, in JSON.
type branchView struct {
	Path   string    `json:"path"`
	Stat   *statView `json:"stat,omitempty"`
	Hidden bool      `json:"hidden,omitempty"`
	// SessionRemaining is what is left to the session of an ephemeral entry.
	SessionRemaining string `json:"session_remaining,omitempty"`
	// line draws the entry.
	line string
}

func (d *drawer) draw(ctx context.Context, cl *client.Client, path string) error {
	d.cl, d.tree, d.owners = cl, cl.Tree(d.reads.options()...), map[uint64]string{}
	root, err := limited(ctx, d.cli.target, func(ctx context.Context) (client.Entry, error) {
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
		d.cli.out.complain("holdfast: there are more than %d entries: --most or a longer PATH shows others\n", d.most)
	}
	return d.cli.out.print(d.drawn, func() string {
		lines := make([]string, 0, len(d.drawn))
		for _, b := range d.drawn {
			lines = append(lines, b.line)
		}
		return strings.Join(lines, "\n")
	})
}

// below draws what is below path, with a number of further levels. Each line begins with indent.
func (d *drawer) below(ctx context.Context, path, indent string, levels int) error {
	children, err := d.cli.childrenOf(ctx, d.tree, path, client.Listing{WithStat: true}, d.most-len(d.drawn))
	if isRefused(err, tree.NoNode) || isRefused(err, tree.NoPermission) {
		return nil // it is gone meanwhile, or hidden
	}
	if err != nil {
		return err
	}
	for i, child := range children {
		if len(d.drawn) >= d.most {
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
	b := branchView{Path: path, Hidden: child.Hidden, line: indent + escaped(child.Name)}
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

// leftText says how long something has left, behind its name.
func leftText(d time.Duration) string {
	return " has " + d.Round(100*time.Millisecond).String() + " left"
}

// remaining says how long a session has left. It is asked once.
func (d *drawer) remaining(ctx context.Context, owner uint64) string {
	if text, known := d.owners[owner]; known {
		return text
	}
	if len(d.owners) >= maxOwners {
		return "lives"
	}
	f, err := limited(ctx, d.cli.target, func(ctx context.Context) (client.Found, error) {
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
