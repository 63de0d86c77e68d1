package tree

import (
	"context"
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"holdfast/client"
	"holdfast/cmd/holdfast/internal/cli"
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

// quotaGetFlags are the flags of "quotaGet".
type quotaGetFlags struct {
	reads cli.ReadFlags
}

func newQuotaGet(env *cli.Env) *cobra.Command {
	var f quotaGetFlags
	cmd := &cobra.Command{
		Use: "get PATH", Short: "Show a quota of the tree and its use", Args: cli.OnePath,
		Long: `Show the quota of an entry of the tree and all entries below it, and its use. Quotas of ancestors
apply too.`,
		RunE: cli.Run(env, &f, runQuotaGet),
	}
	f.reads.Register(cmd, env.Cluster)
	return cmd
}

func runQuotaGet(ctx context.Context, env *cli.Env, f *quotaGetFlags, args []string) error {
	return env.Cluster.Call(ctx, func(ctx context.Context, cl *client.Client) error {
		t := cl.Tree(f.reads.Options()...)
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
		return printQuota(env, args[0], limits, used)
	})
}

// usageOf returns the usage that the quota of path has counted, in an entry of the same form as limits. The entry may
// be missing, and the usage is unknown then.
func usageOf(ctx context.Context, t *client.Tree, path string) (tree.Usage, error) {
	e, err := t.Get(ctx, quotaPath(path, tree.QuotaStatsName))
	if cli.IsRefused(err, tree.NoNode) {
		return tree.Usage{Count: tree.NoQuota, Bytes: tree.NoQuota}, nil
	}
	if err != nil {
		return tree.Usage{}, err
	}
	counted, err := tree.ParseQuota(e.Data)
	return tree.Usage{Count: counted.Count, Bytes: counted.Bytes}, err
}

func printQuota(env *cli.Env, path string, q tree.Quota, used tree.Usage) error {
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
	return env.Out.Print(v, func() string {
		text := func(n int64) string {
			if n <= tree.NoQuota {
				return "-"
			}
			return strconv.FormatInt(n, 10)
		}
		return cli.Table([]string{"", "ENTRIES", "BYTES"}, [][]string{
			{"used", text(used.Count), text(used.Bytes)},
			{"limit", text(q.CountHard), text(q.BytesHard)},
			{"soft limit", text(q.Count), text(q.Bytes)},
		})
	})
}

// quotaFlags are limits; the largest number means none.
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

func newQuotaSet(env *cli.Env) *cobra.Command {
	var f quotaFlags
	cmd := &cobra.Command{
		Use: "set PATH", Short: "Set the quota of an entry of the tree", Args: cli.OnePath,
		Long: `Set the quota of an entry of the tree and all entries below it. A limit without a flag is no limit.
The cluster refuses writes above a limit with the error QUOTA. A soft limit is recorded and refuses
nothing. Only a super client can set quotas, unless the cluster's setting quotas_by_acl is on.

` + cli.WriteHelp,
		Example: `  holdfast quota set /app --entries 1000 --bytes 1000000`,
		RunE:    cli.Run(env, &f, runQuotaSet),
	}
	for _, flag := range []struct {
		at         *uint64
		name, help string
	}{
		{&f.entries, "entries", "entries, PATH itself included"},
		{&f.bytes, "bytes", "bytes of data"},
		{&f.softEntries, "soft-entries", "soft limit of entries, which refuses nothing"},
		{&f.softBytes, "soft-bytes", "soft limit of bytes of data, which refuses nothing"},
	} {
		cmd.Flags().Var(arg.Whole(flag.at, math.MaxInt64, 0, math.MaxInt64), flag.name, flag.help)
		cmd.Flags().Lookup(flag.name).DefValue = "none"
	}
	return cmd
}

func runQuotaSet(ctx context.Context, env *cli.Env, f *quotaFlags, args []string) error {
	q := f.quota()
	if q == (tree.Quota{Count: tree.NoQuota, Bytes: tree.NoQuota, CountHard: tree.NoQuota, BytesHard: tree.NoQuota}) {
		return cli.Usage("no limit given: want --entries, --bytes, --soft-entries or --soft-bytes")
	}
	return changeQuota(ctx, env, args[0], setQuota(args[0], q)...)
}

// setQuota replaces the limits of a quota, or creates the quota with its count. Each transaction is atomic. The second
// handles a count that was left when an operator removed the limits by hand.
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

func newQuotaRemove(env *cli.Env) *cobra.Command {
	cmd := &cobra.Command{
		Use: "rm PATH", Short: "Remove the quota of an entry of the tree", Args: cli.OnePath,
		Long: "Remove the quota of an entry of the tree.\n\n" + cli.WriteHelp,
		RunE: cli.Run(env, &cli.NoFlags{}, runQuotaRemove),
	}
	return cmd
}

func runQuotaRemove(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	stats := quotaPath(args[0], tree.QuotaStatsName)
	limits := tree.Delete{Path: quotaPath(args[0], tree.QuotaLimitsName), Version: tree.Any}
	return changeQuota(ctx, env, args[0], tree.Transaction{
		If:   []tree.Condition{{Path: stats, Property: tree.Exists, Is: tree.Equal, Value: 1}},
		Then: []tree.Op{limits, tree.Delete{Path: stats, Version: tree.Any}},
		Else: []tree.Op{limits},
	})
}

// changeQuota writes the entries of a quota: by the first of the tries that meets no entry in its way.
func changeQuota(ctx context.Context, env *cli.Env, path string, tries ...tree.Transaction) error {
	return env.Write(ctx, func(ctx context.Context, t *client.Tree) (err error) {
		var done client.Transacted
		for _, x := range tries {
			done, err = cli.Timed(ctx, env.Cluster, func(ctx context.Context) (client.Transacted, error) {
				return t.Transact(ctx, x)
			})
			if !cli.IsRefused(err, tree.NodeExists) {
				break
			}
		}
		if err != nil {
			return err
		}
		return env.Out.Print(changeView{Path: path, Stamp: done.Stamp.String()}, func() string { return "done" })
	})
}
