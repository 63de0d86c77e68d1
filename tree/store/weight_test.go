package store_test

import (
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"holdfast/tree"
	"holdfast/tree/store"
)

// load is a transaction of some shape; round distinguishes one from the next.
type load struct {
	name string
	of   func(round int) tree.Transaction
}

// each returns a transaction of n operations.
func each(n int, op func(i int) tree.Op) tree.Transaction {
	var x tree.Transaction
	for i := range n {
		x.Then = append(x.Then, op(i))
	}
	return x
}

// deep has so many names; those of different i differ in the first one.
func deep(i, levels int) string { return fmt.Sprintf("/d%06d", i) + strings.Repeat("/a", levels-1) }

// loads are the shapes of transactions that are dear for their size. The tree has the entries of [weighed].
func loads() []load {
	create := func(path string, data int) tree.Op {
		return tree.Create{Path: path, Data: make([]byte, data), Kind: tree.Persistent}
	}
	set := func(path string, data int) tree.Op {
		return tree.Set{Path: path, Data: make([]byte, data), Version: tree.Any}
	}
	conditions := func(n int, exists uint64, path func(i int) string) tree.Transaction {
		var x tree.Transaction
		for i := range n {
			x.If = append(x.If, tree.Condition{Path: path(i), Property: tree.Exists, Is: tree.Equal, Value: exists})
		}
		return x
	}
	return []load{
		{"creates", func(round int) tree.Transaction {
			return each(1000, func(i int) tree.Op { return create(fmt.Sprintf("/services/%04d/%d-%d", i, round, i), 100) })
		}},
		{undoneCreates, func(round int) tree.Transaction {
			x := each(1000, func(i int) tree.Op { return create(fmt.Sprintf("/services/%04d/%d+%d", i, round, i), 100) })
			x.Then = append(x.Then, tree.Check{Path: "/none", Version: tree.Any})
			return x
		}},
		{"sets", func(round int) tree.Transaction {
			return each(1000, func(i int) tree.Op { return set(pathAt(7*i+round), 100) })
		}},
		{"large sets", func(round int) tree.Transaction {
			return each(100, func(i int) tree.Op { return set(pathAt(7*i+round), 10_000) })
		}},
		{"checks", func(round int) tree.Transaction {
			return each(1000, func(i int) tree.Op { return tree.Check{Path: pathAt(7*i + round), Version: tree.Any} })
		}},
		{"conditions", func(round int) tree.Transaction {
			return conditions(1000, 1, func(i int) string { return pathAt(7*i + round) })
		}},
		{"conditions on what does not exist, deep", func(int) tree.Transaction {
			return conditions(200, 0, func(i int) string { return deep(100_000+i, 250) })
		}},
		{"conditions below what exists, deep", func(int) tree.Transaction {
			return conditions(200, 0, func(int) string { return deep(1, 240) + "/x/y/z" })
		}},
		{"lists", func(round int) tree.Transaction {
			return each(500, func(i int) tree.Op {
				return tree.SetACL{Path: pathAt(i), ACL: listNumber(round*1000 + i), Version: tree.Any}
			})
		}},
		{"sets behind lists, deep", func(round int) tree.Transaction {
			return each(200, func(i int) tree.Op {
				if i%2 == 0 {
					return tree.SetACL{Path: deep(1, 100), ACL: listNumber(i), Version: tree.Any}
				}
				return set(deep(i%4, 250), 0)
			})
		}},
		{"missing parents", func(round int) tree.Transaction {
			return each(10, func(i int) tree.Op {
				return tree.Create{Path: deep(1000*(round+1)+i, 250), Kind: tree.Persistent, Parents: true}
			})
		}},
		{"missing parents with long names", func(round int) tree.Transaction {
			return each(10, func(i int) tree.Op {
				path := strings.ReplaceAll(deep(1000*(round+1)+i, 250), "/a", "/"+strings.Repeat("a", 14))
				return tree.Create{Path: path, Kind: tree.Persistent, Parents: true}
			})
		}},
		{"quotas that are new", func(int) tree.Transaction { // of 45,500 entries
			var x tree.Transaction
			for _, name := range append([]string{"services"}, subtrees()...) {
				of := "/zookeeper/quota/" + name
				limits := of + "/" + tree.QuotaLimitsName
				x.Then = append(x.Then, tree.Create{Path: limits, Kind: tree.Persistent, Parents: true},
					tree.Delete{Path: limits, Version: tree.Any}, tree.Delete{Path: of, Version: tree.Any})
			}
			return x
		}},
		{"creates below quotas", func(round int) tree.Transaction {
			x := each(10, func(i int) tree.Op {
				return tree.Create{
					Path: "/zookeeper/quota" + deep(2, 20*(i+1)) + "/" + tree.QuotaLimitsName, Kind: tree.Persistent, Parents: true,
				}
			})
			for i := range 1000 {
				x.Then = append(x.Then, create(fmt.Sprintf("%s/%d-%d", deep(2, 200), round, i), 100))
			}
			if round > 0 {
				x.Then = x.Then[10:] // they are there
			}
			return x
		}},
		{"subtrees", func(round int) tree.Transaction {
			return each(1, func(int) tree.Op { return tree.DeleteTree{Path: fmt.Sprintf("/subtree-%d", round)} })
		}},
	}
}

const (
	weighRounds   = 5
	undoneCreates = "creates that are undone"
)

// subtrees are the names of the entries that "subtrees" deletes.
func subtrees() (names []string) {
	for round := range weighRounds {
		names = append(names, fmt.Sprintf("subtree-%d", round))
	}
	return names
}

// weighed returns a tree with more than one access list.
func weighed(t *testing.T) (*store.Tree, store.At) {
	t.Helper()
	built, at := build(t)
	do := func(x tree.Transaction) {
		at.Stamp++
		if o, _ := built.Do(at, x); o.Refused != nil {
			t.Fatal(o.Refused)
		}
	}
	parents := func(path string) tree.Op {
		return tree.Create{Path: path, Kind: tree.Persistent, Parents: true}
	}
	do(each(8000, func(i int) tree.Op { return parents(pathAt(i)) }))
	do(each(4, func(i int) tree.Op { return parents(deep(i, 250)) }))
	do(each(1, func(int) tree.Op { return tree.SetACL{Path: pathAt(1), ACL: listNumber(1), Version: tree.Any} }))
	for round := range weighRounds {
		do(each(tree.MaxDeleteTree, func(i int) tree.Op {
			if i == 0 {
				return parents(fmt.Sprintf("/subtree-%d", round))
			}
			return parents(fmt.Sprintf("/subtree-%d/child-%d", round, i))
		}))
		do(each(tree.MaxDeleteTree, func(i int) tree.Op {
			if i == 0 {
				return parents(fmt.Sprintf("/willed-%d", round))
			}
			return parents(fmt.Sprintf("/willed-%d/child-%d", round, i))
		}))
	}
	return built, at
}

// threadTime returns the processor time that the goroutine's thread has had.
func threadTime(t *testing.T) time.Duration {
	t.Helper()
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &at); err != nil {
		t.Fatal(err)
	}
	return time.Duration(at.Nano())
}

// U2: the weight of a transaction, and of an end with its will, follows what it costs, whatever its shape. Costs are
// the least processor time of some rounds, and are compared with that of plain creates in the same run.
func TestWeightsFollowCosts(t *testing.T) {
	const most = 3
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	built, at := weighed(t)
	// No round helps to collect garbage, and each finds memory that the process has touched before.
	defer debug.SetGCPercent(debug.SetGCPercent(-1))
	var plain float64
	judge := func(name string, least time.Duration, weight int) {
		t.Helper()
		cost := float64(least.Nanoseconds()) / float64(weight)
		if plain == 0 {
			plain = cost
		}
		t.Logf("%s: weight %d, %.0f ns for each, %.2f times that of creates", name, weight, cost, cost/plain)
		if cost > most*plain {
			t.Errorf("%s: weight %d costs %.0f ns each, %.1f times what creates cost: want at most %d times", name, weight,
				cost, cost/plain, most)
		}
	}
	for _, l := range loads() {
		least := time.Duration(0)
		weight := 0
		for round := range weighRounds {
			x := l.of(round)
			weight = tree.Weight(x)
			built.Freeze()
			runtime.GC()
			at.Stamp++
			began := threadTime(t)
			o, _ := built.Do(at, x)
			if took := threadTime(t) - began; least == 0 || took < least {
				least = took
			}
			if undone := l.name == undoneCreates; undone != (o.Refused != nil) {
				t.Fatalf("%s: %v", l.name, o.Refused)
			}
		}
		judge(l.name, least, weight)
	}
	for _, e := range endings() {
		least, weight := time.Duration(0), 0
		for round := range weighRounds {
			wills := make([]*store.Will, e.sessions)
			weight = 0
			for n := range wills {
				at.Session = uint64(n + 1)
				at.Stamp++
				owned := each(e.owned, func(i int) tree.Op {
					return tree.Create{Path: fmt.Sprintf("/services/%04d/owned-%d-%d", i, n, i), Kind: tree.Ephemeral}
				})
				if o, _ := built.Do(at, owned); o.Refused != nil {
					t.Fatal(o.Refused)
				}
				wills[n] = &store.Will{Transaction: e.will(round*e.sessions + n), Principals: at.Principals}
				weight += 1 + built.OwnedWeight(at.Session) + tree.Weight(wills[n].Transaction)
			}
			built.Freeze()
			runtime.GC()
			at.Stamp++
			took := time.Duration(0)
			for n, will := range wills {
				began := threadTime(t)
				ended, _ := built.ExpireSession(at, uint64(n+1), will)
				took += threadTime(t) - began
				if ended.Removed != e.owned || ended.Will.Refused != nil {
					t.Fatalf("%s: %d ephemerals went, and the will %v", e.name, ended.Removed, ended.Will.Refused)
				}
			}
			if least == 0 || took < least {
				least = took
			}
		}
		judge(e.name, least, weight)
	}
}

// ending is the end of sessions, in one entry, with ephemerals and wills.
type ending struct {
	name            string
	sessions, owned int
	will            func(n int) tree.Transaction
}

// endings are ends that are dear: for what the sessions own, and for what their wills do.
func endings() []ending {
	return []ending{
		{"an end with ephemerals", 1, 1000, func(int) tree.Transaction { return tree.Transaction{} }},
		{"ends with wills of sets", 8, 1, func(n int) tree.Transaction {
			return each(64, func(i int) tree.Op {
				return tree.Set{Path: pathAt(7*i + n), Data: make([]byte, 900), Version: tree.Any}
			})
		}},
		{"ends with wills of deep paths", 8, 1, func(n int) tree.Transaction {
			return each(64, func(i int) tree.Op {
				return tree.Set{Path: deep(i%4, 250), Data: fmt.Append(nil, n), Version: tree.Any}
			})
		}},
		{"an end with a will that deletes a subtree", 1, 1, func(round int) tree.Transaction {
			return each(1, func(int) tree.Op { return tree.DeleteTree{Path: fmt.Sprintf("/willed-%d", round)} })
		}},
	}
}
