package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"holdfast/cmd/internal/about"
	"holdfast/cmd/internal/arg"
	"holdfast/node/config"
	"holdfast/node/storage"
	"holdfast/session"
)

// founding are the flags of a new cluster.
type founding struct {
	clusterID, peers string
	directories      []string
}

func (f *founding) register(flags *pflag.FlagSet) {
	flags.StringVar(&f.clusterID, "cluster-id", "",
		"the new cluster's cluster_id, which must not be the former cluster's; required")
	flags.StringVar(&f.peers, "peers", "", "the new cluster's peers, as node run takes them; required")
	flags.StringArrayVar(&f.directories, "directory", nil,
		"NODE=PATH: data directory to make for a node, absent or empty; once for each node that is to have a vote "+
			"from the start; required")
}

// of returns the new cluster that the flags describe.
func (f *founding) of(cmd *cobra.Command) (storage.Founding, error) {
	n := storage.Founding{
		ClusterID: f.clusterID, Directories: map[session.Node]string{}, Now: time.Now(),
		Logger: newLogger(cmd.ErrOrStderr(), "warn", "text"),
	}
	for _, required := range []struct{ flag, value string }{
		{"--cluster-id", f.clusterID}, {"--peers", f.peers}, {"--directory", strings.Join(f.directories, "")},
	} {
		if required.value == "" {
			return n, &config.SettingError{Setting: required.flag, Limit: "is required"}
		}
	}
	var err error
	if n.Peers, err = config.ParsePeers(f.peers); err != nil {
		return n, fmt.Errorf("--peers: %w", err)
	}
	for _, one := range f.directories {
		number, path, ok := strings.Cut(one, "=")
		at, err := config.ParseNode(number)
		if err != nil || !ok || path == "" {
			return n, &config.SettingError{Setting: "--directory", Value: one, Limit: "must be NODE=PATH, as in 1=/data"}
		}
		if n.Directories[at] != "" {
			return n, &config.SettingError{Setting: "--directory", Value: one, Limit: "must name a node once"}
		}
		n.Directories[at] = path
	}
	return n, nil
}

func restoreCommand() *cobra.Command {
	var f founding
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the data directories of a new cluster from a backup",
		Long: "Make the data directories of a new cluster from a backup (holdfast snapshot save).\n\n" +
			"The new cluster has another cluster_id and another key, so no node of the former cluster can join, and\n" +
			"no client's token is valid. Its ids, indexes, stamps and attachments continue far above those of the backup.\n" +
			"One run makes the directories of all nodes that are to vote from the start: they recognize each other by\n" +
			"this. Move each to its node. Other peers start on empty directories, and the cluster adds them.",
		Args: arg.One("FILE"),
		RunE: func(cmd *cobra.Command, args []string) error {
			n, err := f.of(cmd)
			if err != nil {
				return err
			}
			defer goesOn(cmd)()
			made, err := storage.Restore(args[0], n)
			if err != nil {
				return failure{fmt.Errorf("restore: %w", err)}
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), made)
			return err
		},
	}
	f.register(cmd.Flags())
	cmd.Flags().SortFlags = false
	return cmd
}

func recoverCommand() *cobra.Command {
	var f founding
	var from string
	var yes bool
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Start a new cluster with the data directory of one node, when a majority is lost for good",
		Long: "Start a new cluster with the state in the data directory of one node, when a majority of the cluster's\n" +
			"directories is lost for good. No node of the former cluster may run.\n\n" +
			"Writes that only the lost directories had are gone, acknowledged or not. All entries in this node's\n" +
			"log count, whether a majority had them or not. The data directory is not changed: the new cluster\n" +
			"gets directories of its own, as with node restore.",
		Args: arg.None,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if from == "" {
				return &config.SettingError{Setting: "--data-dir", Limit: "is required"}
			}
			n, err := f.of(cmd)
			if err != nil {
				return err
			}
			if err := recovers(cmd, from, n, yes); err != nil {
				return failure{fmt.Errorf("recover: %w", err)}
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&from, "data-dir", "", "data directory of the node that is left; required")
	f.register(cmd.Flags())
	cmd.Flags().BoolVar(&yes, "yes", false, "do not ask for the former cluster's id")
	cmd.Flags().SortFlags = false
	return cmd
}

// recovers makes a new cluster from a node's data directory, once a person has confirmed that.
//
//nolint:revive // flag-parameter: the command's flag
func recovers(cmd *cobra.Command, from string, n storage.Founding, yes bool) (err error) {
	left, err := storage.OpenSurvivor(from, about.Version(), n.Logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, left.Close()) }()
	out := cmd.OutOrStdout()
	say := func(format string, args ...any) {
		_, _ = fmt.Fprintf(out, format, args...) // the output is where errors go
	}
	h := left.From
	say("%s is node %d of cluster %q, which had nodes %v.\n", from, h.Node, h.Cluster, left.Members)
	if len(left.UsedUp) > 0 {
		say("Nodes %v were removed from it: leave them out of --peers. A new node needs a number that no node has had.\n",
			left.UsedUp)
	}
	say("Its log ends in term %d with index %d: %d sessions, %d entries of the tree.\n", left.Last.Term, left.Last.Index,
		h.Sessions, h.Entries)
	say("Writes that only the other nodes had are gone for good, acknowledged or not. If another directory is left,\n" +
		"compare both, and use the one whose log ends in the higher term, or with the higher index of the same term.\n")
	if !yes {
		say("Type the former cluster's id to continue: ")
		if err = confirmed(cmd.Context(), cmd.InOrStdin(), h.Cluster); err != nil {
			return err
		}
	}
	defer goesOn(cmd)()
	made, err := left.Found(n)
	if err != nil {
		return err
	}
	say("%s\n", made)
	return nil
}

// goesOn makes a signal that should end the command print that the command continues: package node makes data
// directories in one call, which cannot be interrupted and cleans up after itself. The returned function ends that.
func goesOn(cmd *cobra.Command) (end func()) {
	printed := make(chan struct{})
	stop := context.AfterFunc(cmd.Context(), func() {
		defer close(printed)
		_, _ = fmt.Fprintln(cmd.ErrOrStderr(), "node: the directories are being made, and the command continues: a second "+
			"signal ends it at once, and no node starts on the incomplete directories")
	})
	return func() {
		if !stop() {
			<-printed
		}
	}
}

// confirmed returns an error unless the next line is the wanted text.
func confirmed(ctx context.Context, from io.Reader, want string) error {
	got, err := arg.Answer(ctx, from)
	if err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read the answer: %w: nothing was changed", err)
	}
	if got != want {
		return fmt.Errorf("not confirmed: the cluster's id is %q, and not %q: nothing was changed", want, got)
	}
	return nil
}
