package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/tree"
)

// treeWrites are the commands that change the tree.
func (c *treeCommands) treeWrites() []*cobra.Command {
	return []*cobra.Command{c.treeCreate(), c.treeSet(), c.treeRemove(), c.treeTransact()}
}

// writerTimeout is that of the short sessions of commands that write.
const writerTimeout = 10 * time.Second

// writeHelp is part of the help of every command that writes.
const writeHelp = `A write belongs to a session: the command opens one, writes, and closes it.`

// dataHelp is part of the help of every command that takes data.
const dataHelp = `DATA is the text itself, - for the standard input, or @FILE for the content of a file, byte for
byte. A text that begins with @ needs a second one: @@.`

// writing runs f with the tree for a short session, and closes the session.
func (c *treeCommands) writing(ctx context.Context, f func(ctx context.Context, t *client.Tree) error) error {
	return c.target.with(func(cl *client.Client) error {
		s, err := limited(ctx, c.target, func(ctx context.Context) (*client.Session, error) {
			return cl.Open(ctx, client.SessionOptions{
				Timeout: writerTimeout, Labels: map[string]string{"holdfast": "write"},
			})
		})
		if err != nil {
			return err
		}
		defer closeSession(ctx, c.cli, s)
		return f(ctx, s.Tree())
	})
}

// closeSession closes a session whose work is done. It complains of a failure and no more: what was written stays
// written, and the session ends by its timeout.
func closeSession(ctx context.Context, c *cli, s *client.Session) {
	closing, cancel := c.target.bounded(context.WithoutCancel(ctx))
	defer cancel()
	if err := s.Close(closing); err != nil && !errors.Is(err, session.ErrExpired) {
		c.out.complain("holdfast: close session %v: %s\n", s.ID(), oneLine(err))
	}
}

// maxData bounds the data that a command reads: no entry has more.
const maxData = tree.MaxRequest

// dataGiven returns the data that an argument names: the text itself, - for the standard input, or @FILE. Two @ begin a
// text with one.
func dataGiven(ctx context.Context, argument string, stdin io.Reader) ([]byte, error) {
	name, isFile := strings.CutPrefix(argument, "@")
	switch {
	case argument == "-":
		return readData(ctx, "standard input", stdin)
	case strings.HasPrefix(name, "@"), !isFile:
		return []byte(strings.TrimPrefix(argument, "@")), nil
	}
	file, err := os.Open(name)
	if err != nil {
		return nil, usage("DATA: %w", err)
	}
	defer func() { _ = file.Close() }() // it is open for reading only
	return readData(ctx, name, file)
}

// readData reads all of r, which has the name.
func readData(ctx context.Context, name string, r io.Reader) ([]byte, error) {
	data, err := readUpTo(ctx, maxData, name, r)
	if err == nil && len(data) > maxData {
		err = usage("%s has more than %d bytes, which is the limit of a write", name, maxData)
	}
	return data, err
}

// readUpTo reads all of r, which has the name, or one byte more than most. It fails when ctx ends first.
func readUpTo(ctx context.Context, most int64, name string, r io.Reader) ([]byte, error) {
	data, err := io.ReadAll(io.LimitReader(arg.Until(ctx, r), most+1))
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("read %s: %w", name, err)
	case err != nil:
		return nil, usage("read %s: %w", name, err)
	}
	return data, nil
}

// versionFlag is the version that an entry must have.
type versionFlag struct{ version uint64 }

func (f *versionFlag) add(cmd *cobra.Command, what string) {
	cmd.Flags().Var(arg.Whole(&f.version, tree.MaxIndex, 0, tree.MaxIndex), "version",
		"change nothing unless "+what+" has this version")
	cmd.Flags().Lookup("version").DefValue = "any"
}

func (f *versionFlag) option() client.WriteOption {
	if f.version == tree.MaxIndex {
		return client.Version(tree.Any)
	}
	return client.Version(int64(f.version)) //nolint:gosec // at most MaxIndex
}

// changeView is what a write did, in JSON.
type changeView struct {
	Path  string    `json:"path"`
	Stamp string    `json:"stamp"`
	Stat  *statView `json:"stat,omitempty"`
	// Removed counts the entries that were removed.
	Removed int `json:"removed,omitempty"`
}

func (c *treeCommands) treeSet() *cobra.Command {
	var version versionFlag
	cmd := &cobra.Command{
		Use: "set PATH DATA|-|@FILE", Short: "Replace the data of an entry of the tree", Args: pathAndData,
		Long: "Replace the data of an entry of the tree, and print its new version.\n\n" + dataHelp + "\n\n" + writeHelp,
		Example: `  holdfast set /app/config 'threads = 8'
  holdfast set /app/config @config.toml --version 3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			data, err := dataGiven(cmd.Context(), args[1], c.stdin)
			if err != nil {
				return err
			}
			return c.writing(cmd.Context(), func(ctx context.Context, t *client.Tree) error {
				changed, err := limited(ctx, c.target, func(ctx context.Context) (client.Changed, error) {
					return t.Set(ctx, args[0], data, version.option())
				})
				if err != nil {
					return err
				}
				v := changeView{Path: args[0], Stamp: changed.Stamp.String(), Stat: viewStat(changed.Stat)}
				return c.out.print(v, func() string { return fmt.Sprintf("version %d", changed.Stat.Version) })
			})
		},
	}
	version.add(cmd, "the entry")
	return c.ofTree(cmd)
}

// pathAndData checks the arguments of set.
func pathAndData(cmd *cobra.Command, args []string) error {
	if len(args) != 2 {
		return usage("%q takes a PATH and DATA, not %d arguments", cmd.CommandPath(), len(args))
	}
	return pathGiven(args[0])
}
