package form_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"holdfast/tree"
	"holdfast/tree/form"
)

// X3: no result is larger than MaxResult says, with the largest numbers and texts.
func TestMostResult(t *testing.T) {
	stat := tree.Stat{
		Created: math.MaxInt64, Modified: 0, ChildrenModified: 0, CreatedAt: time.UnixMilli(math.MinInt64 / 4),
		ModifiedAt: time.UnixMilli(math.MaxInt64 / 4), Version: math.MinInt64, ACLVersion: math.MinInt64,
		ChildrenVersion: math.MinInt64, Owner: math.MaxUint64, Bytes: math.MinInt, Children: math.MinInt,
		Kind: tree.InLockDelay, Due: math.MinInt64,
	}
	path := "/" + strings.Repeat("p", tree.MaxPath-1)
	for _, ops := range []int{0, 1, 7, 50, 200} {
		var x tree.Transaction
		taken := tree.Result{Stamp: math.MaxUint64, Outcome: tree.Outcome{Else: true}}
		for range ops {
			x.Else = append(x.Else, tree.Create{Path: path[:len(path)-10], Sequential: true})
			taken.Outcome.Ops = append(taken.Outcome.Ops, tree.OpOutcome{Path: path, Stat: stat, Removed: math.MaxInt32})
		}
		refused := tree.Result{Stamp: math.MaxUint64, Outcome: tree.Outcome{
			At: ops, Refused: &tree.RefusedError{
				Code: math.MaxUint8, Verb: "delete tree", Path: path,
				Detail: "quota of " + path + ": " + strings.Repeat("d", 512),
			},
		}}
		most := form.MaxResult(x)
		for _, one := range []tree.Result{taken, refused} {
			if got := len(form.AppendResult(nil, one)); got > most {
				t.Errorf("%d operations: a result has %d bytes, at most %d were said", ops, got, most)
			}
		}
		if got := len(form.AppendResult(nil, taken)); most > 2*max(got, 10<<10) {
			t.Errorf("%d operations: a result has %d bytes, and %d were said", ops, got, most)
		}
	}
}
