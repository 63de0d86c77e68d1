package id

import (
	"context"
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"holdfast/cmd/holdfast/internal/cli"
	"holdfast/cmd/internal/arg"
	"holdfast/session/ids"
)

// zxidFlags are the flags of "id zxid".
type zxidFlags struct {
	term, index uint64
	changed     func(flag string) bool
}

func newZXID(env *cli.Env) *cobra.Command {
	var f zxidFlags
	cmd := &cobra.Command{
		Use: "zxid [ZXID...]", Short: "Show a position in Raft's log as a ZooKeeper zxid",
		Long: `Show a position in Raft's log as a ZooKeeper zxid. Raft's term becomes the epoch, and the low 32
bits of the index become the counter. USED is the share of the counter that is used up. ZooKeeper
holds an election when its counter is used up; Raft's index has 64 bits. "holdfast cluster status"
shows terms and indexes.`,
		Example: `  holdfast id zxid --term 3 --index 16
  holdfast id zxid 0x300000010`,
		RunE: cli.Run(env, &f, runZXID),
	}
	cmd.Flags().Var(arg.Whole(&f.term, 0, 0, math.MaxUint32), "term", "Raft's term, 0 to 2^32 - 1")
	cmd.Flags().Var(arg.Whole(&f.index, 0, 0, math.MaxUint64), "index", "Raft's index")
	cmd.MarkFlagsRequiredTogether("term", "index")
	f.changed = cmd.Flags().Changed
	return cmd
}

func runZXID(_ context.Context, env *cli.Env, f *zxidFlags, args []string) error {
	if given := f.changed("index"); given != (len(args) == 0) {
		return cli.Usage("want --term and --index, or ZXIDs")
	}
	var views []zxidView
	if len(args) == 0 {
		z, err := ids.NewZXID(f.term, f.index)
		if err != nil {
			return flagError(err)
		}
		views = append(views, viewZXID(z))
		views[0].Index = &f.index
	}
	for _, text := range args {
		z, err := ids.ParseZXID(text)
		if err != nil {
			return cli.Usage("ZXID %q: %w", text, err)
		}
		views = append(views, viewZXID(z))
	}
	return env.Out.Print(views, func() string { return zxidTable(views) })
}

// zxidView is a zxid in JSON.
type zxidView struct {
	ZXID string `json:"zxid"`
	Term uint32 `json:"term"`
	// Index is absent when only its low 32 bits, the counter, are known.
	Index   *uint64 `json:"index,omitempty"`
	Counter uint32  `json:"counter"`
	// Used is the share of the counter that is used up, 0 to 1.
	Used float64 `json:"used"`
}

func viewZXID(z ids.ZXID) zxidView {
	return zxidView{ZXID: z.String(), Term: z.Term(), Counter: z.Counter(), Used: z.Used()}
}

func zxidTable(views []zxidView) string {
	rows := make([][]string, 0, len(views))
	for _, v := range views {
		rows = append(rows, []string{
			v.ZXID, cli.Number(uint64(v.Term)), cli.Number(uint64(v.Counter)), fmt.Sprintf("%.4g %%", 100*v.Used),
		})
	}
	return cli.Table([]string{"ZXID", "TERM", "COUNTER", "USED"}, rows)
}
