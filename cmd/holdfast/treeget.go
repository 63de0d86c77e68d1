package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/session/words"
	"holdfast/tree"
)

// treeCommands builds the commands of the tree.
type treeCommands struct{ *cli }

// all are the commands of the tree.
func (c *treeCommands) all() []*cobra.Command {
	return append(append(c.treeReads(), c.treeWrites()...), c.treeWatch(),
		group("acl", "Show and set access lists of the tree", c.aclGet(), c.aclSet()),
		group("quota", "Show, set and remove quotas of the tree", c.quotaGet(), c.quotaSet(), c.quotaRemove()))
}

// treeReads are the commands that read the tree.
func (c *treeCommands) treeReads() []*cobra.Command {
	return []*cobra.Command{c.treeGet(), c.treeList(), c.treeDraw()}
}

func (c *treeCommands) treeGet() *cobra.Command {
	reads := readFlags{target: c.target}
	var stat bool
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Print the data of an entry of the tree", Args: onePath,
		Long: `Print the data of an entry of the tree, byte for byte. On a terminal, bytes that are no printable
text are written as \x00, so that no data can change the terminal. An entry without data prints
nothing. With -o json the data is in base64, and absent if the entry has none.`,
		Example: `  holdfast get /app/config
  holdfast get /app/config --stat
  holdfast get /app/config -o json | jq -r .data | base64 -d`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path := args[0]
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				e, err := cl.Tree(reads.options()...).Get(ctx, path)
				switch {
				case err != nil:
					return err
				case stat || c.out.format == formatJSON:
					return c.out.print(viewEntry(path, e), func() string { return properties(statRows(path, e.Stat)) })
				default:
					return c.out.printData(e.Data)
				}
			})
		},
	}
	reads.add(cmd)
	cmd.Flags().BoolVar(&stat, "stat", false, "print what is known of the entry besides its data")
	return c.ofTree(cmd)
}

// childView is a child in a list, in JSON.
type childView struct {
	Name string `json:"name"`
	// Stat is absent unless -l was given, and for a child that the client may not read.
	Stat *statView `json:"stat,omitempty"`
	// Hidden says that the client may not read the child.
	Hidden bool `json:"hidden,omitempty"`
}

func (c *treeCommands) treeList() *cobra.Command {
	reads := readFlags{target: c.target}
	var long bool
	cmd := &cobra.Command{
		Use: "ls PATH", Short: "List the children of an entry of the tree", Args: onePath,
		Long: `List the children of an entry of the tree in the order of their names. With -l, show the kind,
version, size, number of children, owner and age of each. A child that the client may not read shows
its name alone. A long list is read in pages: children may come and go meanwhile.`,
		Example: `  holdfast ls /app
  holdfast ls -l /app/members`,
		RunE: func(cmd *cobra.Command, args []string) error {
			var children []tree.Child
			err := c.target.with(func(cl *client.Client) (err error) {
				children, err = c.childrenOf(cmd.Context(), cl.Tree(reads.options()...), args[0],
					client.Listing{WithStat: long}, -1)
				return err
			})
			if err != nil {
				return err
			}
			return c.printChildren(children, long)
		},
	}
	reads.add(cmd)
	cmd.Flags().BoolVarP(&long, "long", "l", false, "show a table with what is known of each child")
	return c.ofTree(cmd)
}

// childrenOf returns the children of an entry, each page with the time limit of a call. It stops when it has more than
// most of them; a negative number is no bound.
func (c *treeCommands) childrenOf(ctx context.Context, t *client.Tree, path string, l client.Listing, most int,
) ([]tree.Child, error) {
	l.PageSize = tree.MaxPage
	var all []tree.Child
	for {
		page, err := limited(ctx, c.target, func(ctx context.Context) (client.Children, error) {
			return t.ListPage(ctx, path, l)
		})
		all = append(all, page.Children...)
		if err != nil || !page.More || len(page.Children) == 0 || most >= 0 && len(all) > most {
			return all, err
		}
		l.After = all[len(all)-1].Name
	}
}

//nolint:revive // flag-parameter: -l
func (c *treeCommands) printChildren(children []tree.Child, long bool) error {
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
	if c.out.format != formatJSON && !long {
		for _, child := range children {
			if _, err := fmt.Fprintln(c.out.stdout, escaped(child.Name)); err != nil {
				return err
			}
		}
		return nil
	}
	return c.out.print(views, func() string {
		return columns([]string{"NAME", "KIND", "VERSION", "SIZE", "CHILDREN", "OWNER", "AGE"}, rows)
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
