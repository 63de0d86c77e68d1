package backup

import (
	"context"
	"encoding/hex"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"holdfast/backup/verify"
	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session"
	"holdfast/session/words"
	"holdfast/tree"
)

func newVerify(env *cli.Env) *cobra.Command {
	return &cobra.Command{
		Use: "verify FILE", Short: "Verify a backup, and show its contents", Args: arg.One("FILE"),
		Long: `Read a whole backup and check it: the checksums of the file and of every record, the form of every
record, the consistency of parents, owners and numbers, and the digest of the state. Then show its
cluster and time, and how many sessions and entries it holds. No data of the tree is shown. The exit
code is 0 for a valid backup, and 1 otherwise.`,
		RunE: cli.Run(env, &cli.NoFlags{}, runVerify),
	}
}

func runVerify(ctx context.Context, env *cli.Env, _ *cli.NoFlags, args []string) error {
	report, err := verified(ctx, args[0])
	if err != nil {
		return err
	}
	return printBackup(env, args[0], &report)
}

// verified reads and checks a backup. It ends early when ctx ends.
func verified(ctx context.Context, path string) (verify.Report, error) {
	f, err := os.Open(path)
	if err != nil {
		return verify.Report{}, err
	}
	defer func() { _ = f.Close() }() // opened for reading only
	info, err := f.Stat()
	if err != nil {
		return verify.Report{}, err
	}
	report, err := verify.Backup(arg.Until(ctx, f))
	report.Size = info.Size()
	switch {
	case ctx.Err() != nil: // the error of the reader is a consequence
		return verify.Report{}, fmt.Errorf("%s: %w", path, context.Cause(ctx))
	case err != nil:
		return verify.Report{}, fmt.Errorf("%s: %w", path, err)
	}
	return report, nil
}

// backupView describes a backup in JSON.
type backupView struct {
	File         string            `json:"file"`
	Size         int64             `json:"size"`
	ClusterID    string            `json:"cluster_id"`
	Node         session.Node      `json:"node"`
	Version      string            `json:"version"`
	TakenAt      string            `json:"taken_at"`
	Index        uint64            `json:"index"`
	Term         uint64            `json:"term"`
	Confirmed    bool              `json:"confirmed"`
	FeatureLevel uint32            `json:"feature_level"`
	Sessions     uint64            `json:"sessions"`
	Attachment   uint64            `json:"attachment"`
	Ended        uint64            `json:"sessions_ended"`
	Certificates uint64            `json:"certificates"`
	Writers      int               `json:"writers"`
	Wills        int               `json:"wills"`
	Entries      uint64            `json:"tree_entries"`
	Kinds        map[string]uint64 `json:"tree_kinds,omitempty"`
	Bytes        uint64            `json:"tree_bytes"`
	StateDigest  string            `json:"state_digest"`
	SHA256       string            `json:"sha256"`
}

func viewBackup(path string, r *verify.Report) backupView {
	v := backupView{
		File: path, Size: r.Size, ClusterID: r.Cluster, Node: r.Node, Version: r.Version, TakenAt: words.Moment(r.TakenAt),
		Index: r.Header.Index, Term: r.Header.Term, Confirmed: r.Confirmed, FeatureLevel: r.FeatureLevel,
		Sessions: r.Header.Sessions, Attachment: r.Attachment, Ended: r.Ended, Certificates: r.Header.Certificates,
		Writers: r.Writers, Wills: r.Wills, Entries: r.Header.Entries, Bytes: r.Contents.Bytes,
		StateDigest: hex.EncodeToString(r.StateDigest[:]), SHA256: hex.EncodeToString(r.SHA256[:]),
	}
	if len(r.Kinds) > 0 {
		v.Kinds = map[string]uint64{}
		for kind, count := range r.Kinds {
			v.Kinds[kind.String()] = count
		}
	}
	return v
}

func printBackup(env *cli.Env, path string, r *verify.Report) error {
	v := viewBackup(path, r)
	return env.Out.Print(v, func() string {
		shows := "all writes acknowledged before the backup began"
		if !v.Confirmed {
			shows = "the state of node " + cli.Number(v.Node) + ", which may be stale"
		}
		rows := [][]string{
			{"file", v.File},
			{"size", words.Bytes(uint64(v.Size))},
			{"cluster", v.ClusterID},
			{"taken at", v.TakenAt},
			{"by node", cli.Number(v.Node)},
			{"release", v.Version},
			{"shows", shows},
			{"index", cli.Number(v.Index)},
			{"term", cli.Number(v.Term)},
			{"feature level", cli.Number(uint64(v.FeatureLevel))},
			{"sessions", cli.Number(v.Sessions)},
			{"ended sessions", cli.Number(v.Ended)},
			{"wills", cli.Number(uint64(v.Wills))},
			{"entries", cli.Number(v.Entries)},
		}
		for kind := tree.Persistent; kind <= tree.InLockDelay; kind++ {
			if count := v.Kinds[kind.String()]; count > 0 {
				rows = append(rows, []string{"  " + kind.String(), cli.Number(count)})
			}
		}
		return cli.Properties(append(rows, []string{"data", words.Bytes(v.Bytes)}, []string{"state digest", v.StateDigest},
			[]string{"sha256", v.SHA256}))
	})
}
