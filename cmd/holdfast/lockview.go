package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/client/recipes"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

const (
	// maxContenders is how many contenders of one lock the commands read.
	maxContenders = 10_000
	// maxLocks bounds --most.
	maxLocks = 100_000
)

// contenderView is one who holds a lock or waits for it.
type contenderView struct {
	// State is "holds" or "waits", or "lingers" for the entry of a session that has expired. Of an entry that the caller
	// may not read, which has neither token nor time here, it may be "holds or lingers".
	State string `json:"state"`
	// As is "lock", "read" or "candidate".
	As     string    `json:"as"`
	Holder string    `json:"holder"`
	Owner  *idText   `json:"session,omitempty"`
	Token  string    `json:"token"`
	Since  time.Time `json:"since,omitzero"`
	Path   string    `json:"path"`
	stamp  tree.Stamp
}

// viewContender returns a contender in JSON.
func viewContender(one *recipes.Contender) contenderView {
	v := contenderView{State: one.State, As: one.As, Path: one.Path}
	if one.Hidden {
		v.Holder = "(hidden)"
		if one.State == recipes.Lingers {
			v.State = "holds or lingers" // only the entry tells which
		}
		return v
	}
	v.Holder, v.Token, v.Since = string(one.Data), one.Stat.Created.String(), one.Stat.CreatedAt
	if v.stamp = one.Stat.Created; one.Stat.Owner != 0 {
		v.Owner = new(idText(one.Stat.Owner))
	}
	return v
}

// contenders returns those who hold the lock at a path or wait for it, in their order, and the names of other entries
// below the path. It complains of a path that has too many for it.
func (c holds) contenders(ctx context.Context, t *client.Tree, path string) ([]contenderView, []string, error) {
	children, err := c.childrenOf(ctx, t, path, client.Listing{WithData: true}, maxContenders)
	if err != nil {
		return nil, nil, err
	}
	if len(children) > maxContenders {
		c.out.complain("holdfast: %s has more than %d entries: some are not shown\n", escaped(path), maxContenders)
	}
	line, others := recipes.InLine(path, children)
	all := make([]contenderView, 0, len(line))
	for i := range line {
		all = append(all, viewContender(&line[i]))
	}
	return all, others, nil
}

func sessionText(owner *idText) string {
	if owner == nil {
		return "-"
	}
	return session.ID(*owner).String()
}

func (c holds) lockShow() *cobra.Command {
	return c.contendersShow(locksPath, "HOLDER", &cobra.Command{
		Use: "show NAME", Short: "Show who holds a lock and who waits for it", Args: arg.One("NAME"),
		Long: `Show who holds a lock and who waits for it, in their order. HOLDER is what each says of itself:
"holdfast lock" gives host and process. SINCE is when each came, by the clock of the cluster's leader of
then: a holder has held the lock since then, or since the one before it has gone. A lock that lingers
was held by a session that has expired, and is free after its lock-delay. The exit code is 0 also for
a lock that nobody holds.

` + nameHelp,
	})
}

// contendersShow completes a command that shows the contenders of the entry that a name below base stands for. data
// names the column of what they say of themselves.
func (c holds) contendersShow(base, data string, cmd *cobra.Command) *cobra.Command {
	reads := readFlags{target: c.target}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		path, err := below(base, args[0])
		if err != nil {
			return err
		}
		return c.target.with(func(cl *client.Client) error {
			all, _, err := c.contenders(cmd.Context(), cl.Tree(reads.options()...), path)
			if err != nil && !isRefused(err, tree.NoNode) {
				return err
			}
			return c.out.print(append([]contenderView{}, all...), func() string {
				rows := make([][]string, 0, len(all))
				for _, v := range all {
					rows = append(rows, []string{
						v.State, v.As, v.Holder, sessionText(v.Owner), words.OrDash(v.Token), words.Moment(v.Since),
					})
				}
				return columns([]string{"STATE", "AS", data, "SESSION", "TOKEN", "SINCE"}, rows)
			})
		})
	}
	reads.add(cmd)
	return c.ofTree(cmd)
}

// lockView is a lock in JSON.
type lockView struct {
	Path    string          `json:"path"`
	Holders []contenderView `json:"holders"`
	Waiting int             `json:"waiting"`
}

func (c holds) lockList() *cobra.Command {
	l := lockLister{holds: c}
	reads := readFlags{target: c.target}
	cmd := &cobra.Command{
		Use: "ls [PREFIX]", Short: "List the locks that somebody holds",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 1 {
				return usage("%q takes one PREFIX at most, not %d arguments", cmd.CommandPath(), len(args))
			}
			return nil
		},
		Long: `List the locks that somebody holds: those whose names begin with PREFIX, or all. A PREFIX that begins
with a slash is a path. The locks are read one by one and may change meanwhile.

` + nameHelp,
		Example: `  holdfast lock ls
  holdfast lock ls backup/`,
		RunE: func(cmd *cobra.Command, args []string) error {
			l.prefix = locksPath + tree.Root
			if len(args) == 1 && strings.HasPrefix(args[0], tree.Root) {
				l.prefix = args[0]
			} else if len(args) == 1 {
				l.prefix += args[0]
			}
			root := cmp.Or(l.prefix[:strings.LastIndex(l.prefix, tree.Root)], tree.Root)
			if err := pathGiven(root); err != nil {
				return err
			}
			return c.target.with(func(cl *client.Client) error {
				l.tree = cl.Tree(reads.options()...)
				if err := l.list(cmd.Context(), root); err != nil && !isRefused(err, tree.NoNode) {
					return err
				}
				return l.print()
			})
		},
	}
	cmd.Flags().Var(arg.Whole(&l.most, 1000, 1, maxLocks), "most", "number of entries to look at, at most")
	reads.add(cmd)
	return c.ofTree(cmd)
}

// lockLister is one run of "lock ls".
type lockLister struct {
	holds
	tree   *client.Tree
	prefix string
	most   int
	locks  []lockView
}

// list looks for locks at an entry and below it, parents first.
func (l *lockLister) list(ctx context.Context, root string) error {
	left := l.most
	for next := []string{root}; len(next) > 0; next = next[1:] {
		if left == 0 {
			l.out.complain("holdfast: more than %d entries: the list is not complete, see --most\n", l.most)
			return nil
		}
		left--
		path := next[0]
		all, others, err := l.contenders(ctx, l.tree, path)
		switch {
		case isRefused(err, tree.NoNode) && path != root:
			continue // it is gone meanwhile
		case err != nil:
			return err
		case len(all) > 0 && strings.HasPrefix(path, l.prefix):
			l.locks = append(l.locks, lockOfContenders(path, all))
		}
		for _, name := range others {
			if entry := tree.Join(path, name); strings.HasPrefix(entry, l.prefix) ||
				strings.HasPrefix(l.prefix, entry+tree.Root) {
				next = append(next, entry)
			}
		}
	}
	return nil
}

func lockOfContenders(path string, all []contenderView) lockView {
	v := lockView{Path: path}
	for _, one := range all {
		if one.State == "waits" {
			v.Waiting++
		} else {
			v.Holders = append(v.Holders, one)
		}
	}
	return v
}

func (l *lockLister) print() error {
	return l.out.print(append([]lockView{}, l.locks...), func() string {
		var rows [][]string
		for _, v := range l.locks {
			first := v.Holders[0]
			holder := first.Holder
			if more := len(v.Holders) - 1; more > 0 {
				holder += fmt.Sprintf(" and %d more", more)
			}
			rows = append(rows, []string{
				v.Path, holder, sessionText(first.Owner), words.OrDash(first.Token), words.Moment(first.Since),
				fmt.Sprint(v.Waiting),
			})
		}
		return columns([]string{"LOCK", "HOLDER", "SESSION", "TOKEN", "SINCE", "WAITING"}, rows)
	})
}

func (c holds) lockBreak() *cobra.Command {
	var sure bool
	cmd := &cobra.Command{
		Use: "break NAME", Short: "Take a lock away from its holder", Args: arg.One("NAME"),
		Long: `Take a lock away from its holder: the holder's entry is removed, and the next in line gets the lock at
once. The command asks first, unless --yes is given.

The former holder is told, and "holdfast lock" kills its program. But a holder that is cut off or
stopped works on until it hears. Nothing but a fencing token keeps it from harm: a resource that has
seen the next holder's token refuses the former one.

` + nameHelp + ` ` + writeHelp,
		Example: `  holdfast lock show backup
  holdfast lock break backup`,
		RunE: func(cmd *cobra.Command, args []string) error {
			path, err := below(locksPath, args[0])
			if err != nil {
				return err
			}
			return c.writing(cmd.Context(), func(ctx context.Context, t *client.Tree) error {
				return c.breakLock(ctx, t, path, sure)
			})
		},
	}
	cmd.Flags().BoolVar(&sure, "yes", false, "do not ask")
	return c.ofTree(cmd)
}

// breakLock removes the entries of those who hold a lock.
func (c holds) breakLock(ctx context.Context, t *client.Tree, path string, sure bool) error { //nolint:revive // a flag
	all, _, err := c.contenders(ctx, t, path)
	if err != nil && !isRefused(err, tree.NoNode) {
		return err
	}
	if len(all) == 0 {
		return fmt.Errorf("break %s: nobody holds it", path)
	}
	v := lockOfContenders(path, all)
	if !sure {
		if err := c.confirm(ctx, &v); err != nil {
			return err
		}
	}
	for _, one := range v.Holders {
		if err := c.removeContender(ctx, t, &one); err != nil {
			return err
		}
	}
	return c.out.print(v, func() string {
		var lines []string
		for _, one := range v.Holders {
			lines = append(lines, escaped("broken: "+one.Holder+", token "+one.Token))
		}
		return strings.Join(lines, "\n")
	})
}

// confirm asks whether the holders of a lock are to lose it.
func (c holds) confirm(ctx context.Context, v *lockView) error {
	for _, one := range v.Holders {
		c.out.complain("%s is held by %s, session %s, token %s, since %s.\n", escaped(v.Path), escaped(one.Holder),
			sessionText(one.Owner), one.Token, words.Moment(one.Since))
	}
	c.out.complain("A former holder that is cut off or stopped works on: only resources that check tokens refuse it.\n" +
		"Type \"yes\" to break the lock: ")
	switch answer, err := arg.Answer(ctx, c.stdin); {
	case errors.Is(err, io.EOF):
		return usage("the standard input ended without an answer: give --yes")
	case err != nil:
		return fmt.Errorf("break %s: read the answer: %w", v.Path, err)
	case answer != "yes":
		return fmt.Errorf("break %s: not confirmed", v.Path)
	}
	return nil
}

// removeContender removes the entry of a contender, unless another one has its path by now.
func (c holds) removeContender(ctx context.Context, t *client.Tree, one *contenderView) error {
	if one.stamp == 0 {
		return fmt.Errorf("break %s: you may not read the entry, so it cannot be told from the next one at its path",
			one.Path)
	}
	done, err := limited(ctx, c.target, func(ctx context.Context) (client.Transacted, error) {
		return t.Transact(ctx, tree.Transaction{
			If: []tree.Condition{
				{Path: one.Path, Property: tree.CreatedStamp, Is: tree.Equal, Value: uint64(one.stamp)},
			},
			Then: []tree.Op{tree.Delete{Path: one.Path, Version: tree.Any}},
		})
	})
	if err == nil && done.Outcome.Else {
		err = fmt.Errorf("break %s: the holder has given it up meanwhile", one.Path)
	}
	return err
}
