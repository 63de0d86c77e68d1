package main

import (
	"context"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/internal/arg"
	"holdfast/tree"
)

// quotaPath returns the entry of the quota of path that has a name.
func quotaPath(path, name string) string {
	if path == tree.Root {
		return tree.Join(tree.QuotaPath, name)
	}
	return tree.Join(tree.QuotaPath+path, name)
}

// quotaView is a quota in JSON. Limits that are not set are absent.
type quotaView struct {
	Path        string `json:"path"`
	Entries     *int64 `json:"entries,omitempty"`
	Bytes       *int64 `json:"bytes,omitempty"`
	SoftEntries *int64 `json:"soft_entries,omitempty"`
	SoftBytes   *int64 `json:"soft_bytes,omitempty"`
	UsedEntries int64  `json:"used_entries"`
	UsedBytes   int64  `json:"used_bytes"`
}

func (c *treeCommands) quotaGet() *cobra.Command {
	reads := readFlags{target: c.target}
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Print the quota of an entry of the tree, and what is used of it", Args: onePath,
		Long: `Print the quota of an entry of the tree and all below it, and what was counted. Quotas of entries
above count too.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return c.target.call(cmd.Context(), func(ctx context.Context, cl *client.Client) error {
				t := cl.Tree(reads.options()...)
				e, err := t.Get(ctx, quotaPath(args[0], tree.QuotaLimitsName))
				if err != nil {
					return err
				}
				limits, err := tree.ParseQuota(e.Data)
				if err != nil {
					return err
				}
				used, err := usageOf(ctx, t, args[0])
				if err != nil {
					return err
				}
				return printQuota(c.out, args[0], limits, used)
			})
		},
	}
	reads.add(cmd)
	return c.ofTree(cmd)
}

// usageOf returns what the quota of path has counted: its entry has the form of limits. It may be missing, as nothing
// makes it by itself; then nothing is known.
func usageOf(ctx context.Context, t *client.Tree, path string) (tree.Usage, error) {
	e, err := t.Get(ctx, quotaPath(path, tree.QuotaStatsName))
	if isRefused(err, tree.NoNode) {
		return tree.Usage{Count: tree.NoQuota, Bytes: tree.NoQuota}, nil
	}
	if err != nil {
		return tree.Usage{}, err
	}
	counted, err := tree.ParseQuota(e.Data)
	return tree.Usage{Count: counted.Count, Bytes: counted.Bytes}, err
}

func printQuota(out *printer, path string, q tree.Quota, used tree.Usage) error {
	limit := func(n int64) *int64 {
		if n <= tree.NoQuota {
			return nil
		}
		return new(n)
	}
	v := quotaView{
		Path: path, Entries: limit(q.CountHard), Bytes: limit(q.BytesHard), SoftEntries: limit(q.Count),
		SoftBytes: limit(q.Bytes), UsedEntries: used.Count, UsedBytes: used.Bytes,
	}
	return out.print(v, func() string {
		text := func(n int64) string {
			if n <= tree.NoQuota {
				return "-"
			}
			return strconv.FormatInt(n, 10)
		}
		return columns([]string{"", "ENTRIES", "BYTES"}, [][]string{
			{"used", text(used.Count), text(used.Bytes)},
			{"limit", text(q.CountHard), text(q.BytesHard)},
			{"soft limit", text(q.Count), text(q.Bytes)},
		})
	})
}

// quotaFlags are limits; the largest number stands for none.
type quotaFlags struct{ entries, bytes, softEntries, softBytes uint64 }

func (f *quotaFlags) quota() tree.Quota {
	limit := func(n uint64) int64 {
		if n == math.MaxInt64 {
			return tree.NoQuota
		}
		return int64(n) //nolint:gosec // the flag is at most MaxInt64
	}
	return tree.Quota{
		Count: limit(f.softEntries), Bytes: limit(f.softBytes), CountHard: limit(f.entries), BytesHard: limit(f.bytes),
	}
}

func (c *treeCommands) quotaSet() *cobra.Command {
	var f quotaFlags
	cmd := &cobra.Command{
		Use: "set PATH", Short: "Set the quota of an entry of the tree", Args: onePath,
		Long: `Set the quota of an entry of the tree and all below it. Limits that are not given are no limits.
What would pass a limit is refused with QUOTA; soft limits only tell. Quotas need a super client,
unless the cluster's setting open_quotas is on.

` + writeHelp,
		Example: `  holdfast quota set /app --entries 1000 --bytes 1000000`,
		RunE: func(cmd *cobra.Command, args []string) error {
			q := f.quota()
			if q == (tree.Quota{Count: tree.NoQuota, Bytes: tree.NoQuota, CountHard: tree.NoQuota, BytesHard: tree.NoQuota}) {
				return usage("no limit given: want --entries, --bytes, --soft-entries or --soft-bytes")
			}
			return c.changeQuota(cmd.Context(), args[0], setQuota(args[0], q)...)
		},
	}
	for _, flag := range []struct {
		at         *uint64
		name, help string
	}{
		{&f.entries, "entries", "entries, PATH itself included"},
		{&f.bytes, "bytes", "bytes of data"},
		{&f.softEntries, "soft-entries", "entries that are no limit but are told"},
		{&f.softBytes, "soft-bytes", "bytes of data that are no limit but are told"},
	} {
		cmd.Flags().Var(arg.Whole(flag.at, math.MaxInt64, 0, math.MaxInt64), flag.name, flag.help)
		cmd.Flags().Lookup(flag.name).DefValue = "none"
	}
	return c.ofTree(cmd)
}

// setQuota replaces the limits of a quota, or makes it with its count. Both happen at once: nobody sees half of it. The
// second of the two is for a count that was left when somebody removed the limits by hand.
func setQuota(path string, q tree.Quota) []tree.Transaction {
	limits := quotaPath(path, tree.QuotaLimitsName)
	data := []byte(q.String())
	whole := tree.Transaction{
		If:   []tree.Condition{{Path: limits, Property: tree.Exists, Is: tree.Equal, Value: 1}},
		Then: []tree.Op{tree.Set{Path: limits, Data: data, Version: tree.Any}},
		Else: []tree.Op{
			tree.Create{Path: limits, Data: data, Kind: tree.Persistent, Parents: true},
			tree.Create{Path: quotaPath(path, tree.QuotaStatsName), Kind: tree.Persistent},
		},
	}
	counted := whole
	counted.Else = whole.Else[:1]
	return []tree.Transaction{whole, counted}
}

func (c *treeCommands) quotaRemove() *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm PATH", Short: "Remove the quota of an entry of the tree", Args: onePath,
		Long: "Remove the quota of an entry of the tree.\n\n" + writeHelp,
		RunE: func(cmd *cobra.Command, args []string) error {
			stats := quotaPath(args[0], tree.QuotaStatsName)
			limits := tree.Delete{Path: quotaPath(args[0], tree.QuotaLimitsName), Version: tree.Any}
			return c.changeQuota(cmd.Context(), args[0], tree.Transaction{
				If:   []tree.Condition{{Path: stats, Property: tree.Exists, Is: tree.Equal, Value: 1}},
				Then: []tree.Op{limits, tree.Delete{Path: stats, Version: tree.Any}},
				Else: []tree.Op{limits},
			})
		},
	}
	return c.ofTree(cmd)
}

// changeQuota writes the entries of a quota: by the first of the tries that meets no entry in its way.
func (c *treeCommands) changeQuota(ctx context.Context, path string, tries ...tree.Transaction) error {
	return c.writing(ctx, func(ctx context.Context, t *client.Tree) (err error) {
		var done client.Transacted
		for _, x := range tries {
			done, err = limited(ctx, c.target, func(ctx context.Context) (client.Transacted, error) {
				return t.Transact(ctx, x)
			})
			if !isRefused(err, tree.NodeExists) {
				break
			}
		}
		if err != nil {
			return err
		}
		return c.out.print(changeView{Path: path, Stamp: done.Stamp.String()}, func() string { return "done" })
	})
}
