package form_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/tree/form"
	"holdfast/tree/writers"
)

// The largest writer fits into a record of a snapshot (D7 tree snapshots): results of just less than the window, then
// that of the largest transaction, and the largest will.
func TestLargestWriterFitsIntoARecord(t *testing.T) {
	name := strings.Repeat("x", tree.MaxRequest/tree.MaxOps-len("/00000")-16)
	var x tree.Transaction
	for i := range tree.MaxOps {
		x.Then = append(x.Then, tree.Create{Path: fmt.Sprintf("/%05d", i) + name, Sequential: true, Kind: tree.Ephemeral})
	}
	if err := x.Check(); err != nil || x.Size() < tree.MaxRequest-tree.MaxOps {
		t.Fatalf("a transaction of %d bytes: %v", x.Size(), err)
	}
	largest := tree.Result{Stamp: 1<<63 - 1}
	at := time.UnixMilli(1 << 42)
	for _, op := range x.Then {
		stamp := largest.Stamp
		largest.Outcome.Ops = append(largest.Outcome.Ops, tree.OpOutcome{
			Path: op.Target() + tree.SequenceSuffix(tree.MaxSequence), Stat: tree.Stat{
				Created: stamp, Modified: stamp, ChildrenModified: stamp, CreatedAt: at, ModifiedAt: at, Owner: 1<<64 - 1,
				Bytes: 127, Kind: tree.Ephemeral, Due: 1 << 62,
			},
		})
	}
	limits := writers.DefaultLimits()
	one := writers.Record{
		Session: 1<<64 - 1, Writer: writers.Writer{Applied: 1<<64 - 1, Floor: 1<<64 - 3, Acked: 1<<64 - 3},
		Results: [][]byte{make([]byte, limits.Bytes), form.AppendResult(nil, largest)},
		Will:    &writers.Will{Data: make([]byte, writers.MaxWill), OnClose: true}, Principal: strings.Repeat("a", tree.MaxShare),
	}
	if size := len(form.AppendWriter(nil, &one)); size > form.MaxRecord {
		t.Errorf("the record has %d bytes, want at most %d", size, form.MaxRecord)
	} else {
		t.Logf("the record has %d of %d bytes", size, form.MaxRecord)
	}
}
