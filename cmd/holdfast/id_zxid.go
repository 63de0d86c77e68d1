package main

import (
	"fmt"
	"math"

	"github.com/spf13/cobra"

	"holdfast/cmd/internal/arg"
	"holdfast/session/ids"
)

func idZXID(out *printer) *cobra.Command {
	var term, index uint64
	cmd := &cobra.Command{
		Use: "zxid [ZXID...]", Short: "Show a position in Raft's log the way ZooKeeper shows its transactions",
		Long: `Show a position in Raft's log the way ZooKeeper shows its transactions. Raft's term stands for
ZooKeeper's epoch, the low 32 bits of the index stand for its counter, and USED is the share of the
counter that is used up. ZooKeeper holds an election when its counter is used up; Raft's index has
64 bits and goes on. "holdfast cluster status" shows terms and indexes.`,
		Example: `  holdfast id zxid --term 3 --index 16
  holdfast id zxid 0x300000010`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if given := cmd.Flags().Changed("index"); given != (len(args) == 0) {
				return usage("want --term and --index, or ZXIDs")
			}
			var views []zxidView
			if len(args) == 0 {
				z, err := ids.NewZXID(term, index)
				if err != nil {
					return flagError(err)
				}
				views = append(views, viewZXID(z))
				views[0].Index = &index
			}
			for _, text := range args {
				z, err := ids.ParseZXID(text)
				if err != nil {
					return usage("ZXID %q: %w", text, err)
				}
				views = append(views, viewZXID(z))
			}
			return out.print(views, func() string { return zxidTable(views) })
		},
	}
	cmd.Flags().Var(arg.Whole(&term, 0, 0, math.MaxUint32), "term", "Raft's term, 0 to 2^32 - 1")
	cmd.Flags().Var(arg.Whole(&index, 0, 0, math.MaxUint64), "index", "Raft's index")
	cmd.MarkFlagsRequiredTogether("term", "index")
	return cmd
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
			v.ZXID, number(uint64(v.Term)), number(uint64(v.Counter)), fmt.Sprintf("%.4g %%", 100*v.Used),
		})
	}
	return columns([]string{"ZXID", "TERM", "COUNTER", "USED"}, rows)
}
