package tree_test

import (
	"errors"
	"testing"

	"holdfast/session"
	"holdfast/tree"
)

// G8: wills count, too, while the writes that set them wait for an upgrade. Otherwise those of one connection could use
// 64 KiB each, and 270 MB together, of a node that has no leader.
func TestG8WillsBehindUpgradesCount(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.connects(one)
		upgradesAt(c, nil, one)
		will := &tree.Will{Transaction: tree.Transaction{Then: []tree.Op{
			tree.Set{Path: "/a", Version: tree.Any, Data: make([]byte, tree.MaxWill-100)},
		}}}
		writes := func(number uint64) error {
			return c.conn.Write(session.TreeWrite{Key: number, Write: tree.NumberedWrite{
				Session: uint64(one), Number: number, Will: will,
			}})
		}
		const most = tree.MaxUnansweredBytes / tree.MaxWill
		for number := range uint64(most) {
			if err := writes(1 + number); err != nil {
				t.Fatalf("write %d: %v", 1+number, err)
			}
		}
		err := writes(1 + most)
		if limit, ok := errors.AsType[*session.LimitError](err); !ok || limit.Name != "requests_behind_upgrade" {
			t.Errorf("more than %d bytes wait: %v", tree.MaxUnansweredBytes, err)
		}
		c.conn.Close()
	})
}
