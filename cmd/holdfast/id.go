package main

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"holdfast/session"
)

func (c *cli) idDecode() *cobra.Command {
	return &cobra.Command{
		Use: "decode ID...", Short: "Show the node, the time and the counter in session ids", Args: cobra.MinimumNArgs(1),
		Example: "  holdfast id decode 0x0100000000010000",
		RunE: func(_ *cobra.Command, args []string) error {
			ids := make([]session.ID, 0, len(args))
			for _, arg := range args {
				id, err := session.ParseID(arg)
				if err != nil {
					return usage("%q: %w", arg, err)
				}
				ids = append(ids, id)
			}
			return c.printIDs(ids)
		},
	}
}

func (c *cli) idEncode() *cobra.Command {
	var node, counter uint16
	var ms uint64
	var at string
	cmd := &cobra.Command{
		Use: "encode", Short: "Make a session id of a node, a time and a counter", Args: cobra.NoArgs,
		Example: "  holdfast id encode --node 1 --time 2026-11-21T12:00:00Z --counter 7",
		RunE: func(*cobra.Command, []string) error {
			if node < 1 || node > uint16(session.MaxNode) {
				return usage("--node: want 1 to %d", session.MaxNode)
			}
			if at != "" {
				t, err := time.Parse(time.RFC3339, at)
				if err != nil || t.Before(session.Epoch()) {
					return usage("--time %q: want a time such as 2026-11-21T12:00:00Z, not before %s", at, session.Epoch().Format(time.RFC3339))
				}
				ms = session.MS(t)
			}
			if ms > session.MaxMS {
				return usage("time: want at most %d milliseconds since %s", uint64(session.MaxMS), session.Epoch().Format(time.RFC3339))
			}
			return c.printIDs([]session.ID{session.ID(node)<<56 | session.ID(ms)<<16 | session.ID(counter)})
		},
	}
	cmd.Flags().Uint16Var(&node, "node", 0, fmt.Sprintf("number of the node, 1 to %d", session.MaxNode))
	cmd.Flags().Uint64Var(&ms, "ms", 0, "milliseconds since 2026-01-01 UTC")
	cmd.Flags().StringVar(&at, "time", "", "the time instead of --ms, as in 2026-11-21T12:00:00Z")
	cmd.Flags().Uint16Var(&counter, "counter", 0, "counter, 0 to 65535")
	cmd.MarkFlagsMutuallyExclusive("ms", "time")
	return cmd
}

type idView struct {
	ID      idText       `json:"id"`
	Node    session.Node `json:"node"`
	MS      uint64       `json:"ms"`
	Time    time.Time    `json:"time"`
	Counter uint16       `json:"counter"`
}

func (c *cli) printIDs(ids []session.ID) error {
	views := make([]idView, 0, len(ids))
	rows := make([][]string, 0, len(ids))
	for _, id := range ids {
		views = append(views, idView{idText(id), id.Node(), id.MS(), id.Time(), id.Counter()})
		rows = append(rows, []string{id.String(), number(id.Node()), timeText(id.Time()), number(uint64(id.Counter()))})
	}
	return c.print(views, func() string { return columns([]string{"ID", "NODE", "TIME", "COUNTER"}, rows) })
}
