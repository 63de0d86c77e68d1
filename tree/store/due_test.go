package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"holdfast/tree"
)

// D5: lock-delays end before all that is due, and containers behind it, whatever became due first.
func TestD5TheOrderOfWhatIsDue(t *testing.T) {
	built, at := build(t)
	at.L, at.Session = time.Second, 7
	if o, _ := built.Do(at, tree.Transaction{Then: []tree.Op{
		tree.Create{Path: "/container", Kind: tree.Container},
		tree.Create{Path: "/later", Kind: tree.Expiring, TTL: 2 * time.Second},
		tree.Create{Path: "/sooner", Kind: tree.Expiring, TTL: time.Second},
		tree.Create{Path: "/held", Kind: tree.Ephemeral, LockDelay: time.Minute},
		tree.Create{Path: "/forever", Kind: tree.Persistent},
	}}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	root := built.Freeze()
	if root.Due(time.Second, 10) != nil || !root.Ending() {
		t.Errorf("due at once: %v, ending %v", root.Due(time.Second, 10), root.Ending())
	}
	at.L = 10 * time.Minute
	built.ExpireSession(at, 7, nil)
	paths := func(l time.Duration, n int) (all []string) {
		for _, one := range built.Freeze().Due(l, n) {
			all = append(all, one.Path)
		}
		return all
	}
	want := []string{"/held", "/sooner", "/later", "/container"}
	for n := range len(want) + 2 {
		if got := paths(time.Hour, n); !slices.Equal(got, want[:min(n, len(want))]) {
			t.Errorf("of %d entries the first are %v, want %v", n, got, want)
		}
	}
	if got := paths(11*time.Minute-time.Millisecond, 9); !slices.Equal(got, want[1:]) {
		t.Errorf("due before the lock-delay is over: %v, want %v", got, want[1:])
	}
	for _, one := range built.Freeze().Due(time.Hour, 9) {
		if reaped, _ := built.Reap(at, one); reaped != (one.Path != "/held") {
			t.Errorf("%s is removed: %v", one.Path, reaped)
		}
	}
}

// D5, U2: one Reap removes a bounded number of entries, with a bounded weight: few of those with deep or long paths.
func TestNextReap(t *testing.T) {
	deep := strings.Repeat("/a", tree.MaxDepth-1)
	long := "/" + strings.Repeat("a", 4000)
	for _, one := range []struct {
		parent  string
		n, most int
	}{
		{"/a", 5, 5},
		{"/a", tree.MaxReap, tree.MaxReap},
		{"/a", tree.MaxReap + 1, tree.MaxReap},
		{deep, tree.MaxReap, tree.MaxReapWeight / tree.RemovalWeight(deep+"/0123456789")},
		{long, tree.MaxReap, tree.MaxReapWeight / tree.RemovalWeight(long)},
	} {
		built, at := build(t, tree.Create{Path: one.parent, Kind: tree.Persistent, Parents: true})
		ends := tree.Create{Path: one.parent + "/", Sequential: true, Kind: tree.Expiring, TTL: tree.MinTTL}
		if o, _ := built.Do(at, tree.Transaction{Then: slices.Repeat([]tree.Op{ends}, one.n)}); o.Refused != nil {
			t.Fatal(o.Refused)
		}
		due, weight, more := built.Freeze().NextReap(time.Hour)
		if len(due) != one.most || more != (one.n >= tree.MaxReap) ||
			weight != one.most*tree.RemovalWeight(one.parent+"/0123456789") {
			t.Errorf("of %d entries below %.20s one Reap removes %d with weight %d, more are due: %v; want %d", one.n, one.parent,
				len(due), weight, more, one.most)
		}
	}
}
