package tree_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/tree"
)

// refusesField checks that err is a FieldError of the field that says why.
func refusesField(t *testing.T, err error, field, why string) {
	t.Helper()
	var refused *tree.FieldError
	if !errors.As(err, &refused) || !errors.Is(err, tree.ErrInvalid) || refused.Field != field ||
		!strings.Contains(refused.Why, why) {
		t.Errorf("got %v, want a FieldError of %s that says %q", err, field, why)
	}
}

func TestCheckTransaction(t *testing.T) {
	one := func(op tree.Op) tree.Transaction { return tree.Transaction{Then: []tree.Op{op}} }
	persistent := func(path string) tree.Create { return tree.Create{Path: path, Kind: tree.Persistent} }
	for _, x := range []tree.Transaction{
		{},
		one(persistent("/a")),
		one(tree.Create{Path: "/a/", Sequential: true, Kind: tree.Ephemeral, LockDelay: tree.MaxLockDelay}),
		one(tree.Create{Path: "/a", Kind: tree.Expiring, TTL: tree.MinTTL, ACL: tree.Open()}),
		one(tree.Create{Path: "/a", Kind: tree.Expiring, TTL: tree.MaxTTL}),
		one(tree.Set{Path: "/", Version: tree.Any}), one(tree.Delete{Path: "/a", Version: tree.MaxVersion}),
		one(tree.Set{Path: "/a", Data: make([]byte, tree.MaxRequest-100)}),
		one(tree.Delete{Path: "/a"}), one(tree.DeleteTree{Path: "/a"}), one(tree.Check{Path: "/a"}),
		one(tree.SetACL{Path: "/a", ACL: tree.ACL{}}),
		{
			If:   []tree.Condition{{Path: "/a", Property: tree.ChildCount, Is: tree.Greater}},
			Then: make([]tree.Op, 0), Else: []tree.Op{persistent("/b")},
		},
	} {
		if err := x.Check(); err != nil {
			t.Errorf("%.100v: %v", x, err)
		}
	}
	many := make([]tree.Op, tree.MaxOps/2+1)
	for i := range many {
		many[i] = tree.Check{Path: "/"}
	}
	for _, c := range []struct {
		x          tree.Transaction
		field, why string
	}{
		{tree.Transaction{Then: many, Else: many}, "transaction", "at most 10000"},
		{one(tree.Set{Path: "/a", Data: make([]byte, tree.MaxRequest)}), "transaction", "at most 1048575"},
		{one(nil), "then[0].op", "operation"},
		{tree.Transaction{Else: []tree.Op{persistent("/"), persistent("a")}}, "else[1].path", "slash"},
		{one(tree.Create{Path: "/a//", Sequential: true, Kind: tree.Persistent}), "then[0].path", "empty name"},
		{one(tree.Create{Path: "/a"}), "then[0].kind", "1 to 4"},
		{one(tree.Create{Path: "/a", Kind: tree.InLockDelay}), "then[0].kind", "1 to 4"},
		{one(tree.Create{Path: "/a", Kind: tree.Persistent, TTL: time.Second}), "then[0].ttl", "only an expiring"},
		{one(tree.Create{Path: "/a", Kind: tree.Expiring}), "then[0].ttl", "1ms"},
		{one(tree.Create{Path: "/a", Kind: tree.Expiring, TTL: tree.MaxTTL + 1}), "then[0].ttl", "must be"},
		{one(tree.Create{Path: "/a", Kind: tree.Expiring, TTL: 1500 * time.Microsecond}), "then[0].ttl", "whole number"},
		{one(tree.Create{Path: "/a", Kind: tree.Container, LockDelay: 1}), "then[0].lock_delay", "only an ephemeral"},
		{one(tree.Create{Path: "/a", Kind: tree.Ephemeral, LockDelay: tree.MaxLockDelay + 1}), "then[0].lock_delay", "1m0s"},
		{one(tree.Create{Path: "/a", Kind: tree.Ephemeral, LockDelay: -time.Second}), "then[0].lock_delay", "0s"},
		{one(tree.Create{Path: "/a", Kind: tree.Persistent, ACL: make(tree.ACL, 1)}), "then[0].acl", "permissions"},
		{one(tree.SetACL{Path: "/a", ACL: make(tree.ACL, 65)}), "then[0].acl", "at most 64"},
		{one(tree.SetACL{Path: "/a", Version: -2}), "then[0].version", "-1 for any"},
		{one(tree.SetACL{Path: "/a", Version: math.MaxInt64}), "then[0].version", "0 to 9223372036854775806"},
		{one(tree.Set{Path: "/a", Version: -2}), "then[0].version", "-1 for any"},
		{one(tree.Set{Path: "/a", Version: math.MaxInt64}), "then[0].version", "0 to 9223372036854775806"},
		{one(tree.Delete{Path: "/a", Version: -2}), "then[0].version", "-1 for any"},
		{one(tree.Delete{Path: "/a", Version: math.MaxInt64}), "then[0].version", "0 to 9223372036854775806"},
		{one(tree.DeleteTree{Path: ""}), "then[0].path", "is empty"},
		{one(tree.Check{Path: "/a", Version: math.MaxInt64}), "then[0].version", "0 to 9223372036854775806"},
		{one(tree.Check{Path: "/a/."}), "then[0].path", "never relative"},
		{tree.Transaction{If: []tree.Condition{{Path: "/", Is: tree.Equal}}}, "if[0].property", "1 to 6"},
		{tree.Transaction{If: []tree.Condition{{Path: "/", Property: 7, Is: tree.Equal}}}, "if[0].property", "1 to 6"},
		{tree.Transaction{If: []tree.Condition{{Path: "/", Property: tree.Exists}}}, "if[0].is", "1 to 4"},
		{tree.Transaction{If: []tree.Condition{{Path: "/", Property: tree.Exists, Is: 5}}}, "if[0].is", "1 to 4"},
		{tree.Transaction{If: []tree.Condition{{Property: tree.Exists, Is: tree.Less}}}, "if[0].path", "is empty"},
	} {
		refusesField(t, c.x.Check(), c.field, c.why)
	}
	var path *tree.PathError
	if err := one(persistent("a")).Check(); !errors.As(err, &path) || path.Path != "a" {
		t.Errorf("%v: is no PathError", err)
	}
}

// TestCheckWill: a will is a small transaction without ephemerals (U3 wills).
func TestCheckWill(t *testing.T) {
	set := tree.Set{Path: "/a", Version: tree.Any}
	ops := func(n int, op tree.Op) (all []tree.Op) {
		for range n {
			all = append(all, op)
		}
		return all
	}
	large := set
	large.Data = make([]byte, tree.MaxWill-tree.Transaction{Then: []tree.Op{set}}.Size())
	for _, x := range []tree.Transaction{
		{Then: ops(64, set)}, {Then: ops(32, set), Else: ops(32, set)}, {Then: ops(1, large)},
	} {
		if err := tree.CheckWill(x); err != nil {
			t.Error(err)
		}
	}
	ephemeral := tree.Create{Path: "/a", Kind: tree.Ephemeral}
	larger := large
	larger.Data = append(larger.Data, 0)
	refusesField(t, tree.CheckWill(tree.Transaction{Then: ops(65, set)}), "will", "at most 64")
	refusesField(t, tree.CheckWill(tree.Transaction{Then: ops(33, set), Else: ops(32, set)}), "will", "at most 64")
	refusesField(t, tree.CheckWill(tree.Transaction{Then: ops(1, larger)}), "will", "65537 bytes: at most 65536")
	refusesField(t, tree.CheckWill(tree.Transaction{Then: ops(1, ephemeral)}), "will", "ephemeral /a")
	refusesField(t, tree.CheckWill(tree.Transaction{Else: ops(1, ephemeral)}), "will", "ephemeral /a")
	refusesField(t, tree.CheckWill(tree.Transaction{Then: ops(1, tree.Delete{})}), "will.then[0].path", "is empty")
}

func TestWeight(t *testing.T) {
	create := tree.Create{Path: "/a", Kind: tree.Persistent}
	for _, c := range []struct {
		x    tree.Transaction
		want int
	}{
		{tree.Transaction{}, 1},
		{tree.Transaction{Then: []tree.Op{create}}, 5},
		{tree.Transaction{Then: []tree.Op{create, create}, Else: []tree.Op{create}}, 10},
		{tree.Transaction{If: make([]tree.Condition, 3), Else: []tree.Op{create}}, 11},
		{tree.Transaction{Then: []tree.Op{tree.Check{Path: "/a"}}}, 2},
		{tree.Transaction{Then: []tree.Op{tree.Create{Path: "/a/b/c", Parents: true}}}, 15},
		{tree.Transaction{Then: []tree.Op{tree.Create{Path: "/a/b/c", Parents: true}, tree.Create{Path: "/a/b/d", Parents: true}}}, 20},
		{tree.Transaction{Then: []tree.Op{tree.Set{Path: "/a", Data: make([]byte, 5120)}}}, 15},
		{tree.Transaction{Then: []tree.Op{tree.Set{Path: "/" + strings.Repeat("a", 127)}}}, 7},
		{tree.Transaction{Then: []tree.Op{tree.Set{Path: strings.Repeat("/a", 32)}}}, 8},
		{tree.Transaction{Then: []tree.Op{tree.DeleteTree{Path: "/a"}, tree.DeleteTree{Path: "/b"}}}, 15_010},
		{tree.Transaction{Then: []tree.Op{tree.Create{Path: "/zookeeper/quota/a/zookeeper_limits"}}}, 40_005},
		{tree.Transaction{Else: []tree.Op{tree.Set{Path: "/zookeeper/quota/zookeeper_limits"}}}, 40_005},
		{tree.Transaction{Then: []tree.Op{tree.Set{Path: "/zookeeper"}}}, 5},
	} {
		if got := tree.Weight(c.x); got != c.want {
			t.Errorf("%+v weighs %d, want %d", c.x, got, c.want)
		}
	}
}

func TestLimits(t *testing.T) {
	least, most := tree.Limits{Ephemerals: 1, Children: 1, Bytes: 1}, tree.Limits{
		Ephemerals: tree.MaxEphemerals, Children: tree.MaxChildren, OpenQuotas: true, Bytes: tree.MaxBytes,
	}
	for _, l := range []tree.Limits{least, most, tree.DefaultLimits()} {
		if err := l.Check(); err != nil {
			t.Error(err)
		}
	}
	for _, n := range []int{-1, 0, tree.MaxEphemerals + 1} {
		l := least
		l.Ephemerals = n
		refusesField(t, l.Check(), "max_ephemerals", "1 to 40000")
	}
	for _, n := range []int{-1, 0, tree.MaxChildren + 1} {
		l := least
		l.Children = n
		refusesField(t, l.Check(), "max_children", "1 to 2147483647")
	}
}

// TestParseQuota reads what releases of ZooKeeper's command line write.
func TestParseQuota(t *testing.T) {
	none := tree.Quota{Count: -1, Bytes: -1, CountHard: -1, BytesHard: -1}
	for text, change := range map[string]func(*tree.Quota){
		"":                  func(*tree.Quota) {},
		",;":                func(*tree.Quota) {},
		"count=-1,bytes=-1": func(*tree.Quota) {},
		"count=-7":          func(*tree.Quota) {},
		"count=5,bytes=-1":  func(q *tree.Quota) { q.Count = 5 },
		"bytes=0;count=":    func(q *tree.Quota) { q.Bytes = 0 },
		"other=3,count=1":   func(q *tree.Quota) { q.Count = 1 },
		"count=1,count=2":   func(q *tree.Quota) { q.Count = 2 },
		"countHardLimit=9":  func(q *tree.Quota) { q.CountHard = 9 },
		"byteHardLimit=10=": func(q *tree.Quota) { q.BytesHard = 10 },
		"count=4,bytes=5=;byteHardLimit=10;countHardLimit=10": func(q *tree.Quota) { *q = tree.Quota{4, 5, 10, 10} },
	} {
		want := none
		change(&want)
		if got, err := tree.ParseQuota([]byte(text)); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for text, field := range map[string]string{
		"5": "quota", "count=five": "quota.count", "bytes=9223372036854775808": "quota.bytes", "x=1.5": "quota.x",
	} {
		_, err := tree.ParseQuota([]byte(text))
		refusesField(t, err, field, "must be")
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Min(-1)
		q := tree.Quota{n.Draw(t, "count"), n.Draw(t, "bytes"), n.Draw(t, "count hard"), n.Draw(t, "bytes hard")}
		if got, err := tree.ParseQuota([]byte(q.String())); err != nil || got != q {
			t.Fatalf("%q read as %+v, %v", q, got, err)
		}
	})
	if text := (tree.Quota{4, 5, 10, -1}).String(); text != "count=4,bytes=5=;countHardLimit=10" {
		t.Error(text)
	}
	for used, exceeded := range map[tree.Usage]bool{{4, 5}: false, {5, 0}: true, {0, 6}: true} {
		soft, hard := tree.Quota{4, 5, -1, -1}, tree.Quota{-1, -1, 4, 5}
		if soft.Exceeded(used) != exceeded || hard.Exceeded(used) != exceeded || none.Exceeded(used) {
			t.Errorf("%v: %v", used, !exceeded)
		}
	}
}

func TestQuotaOf(t *testing.T) {
	for path, want := range map[string]string{
		"/zookeeper/quota/zookeeper_limits":                  "/",
		"/zookeeper/quota/a/b/zookeeper_limits":              "/a/b",
		"/zookeeper/quota/zookeeper_limits/zookeeper_limits": "/zookeeper_limits",
		"/zookeeper/quota/a":                                 "",
		"/zookeeper/quota":                                   "",
		"/zookeeper/quota/a/zookeeper_stats":                 "",
		"/zookeeper/quota/azookeeper_limits":                 "",
		"/zookeeper/quotas/a/zookeeper_limits":               "",
		"/a/zookeeper_limits":                                "",
	} {
		if of, ok := tree.QuotaOf(path, tree.QuotaLimitsName); of != want || ok != (want != "") {
			t.Errorf("%s is of %q, %v", path, of, ok)
		}
	}
	for path, in := range map[string]bool{
		"/zookeeper/quota": true, "/zookeeper/quota/a": true, "/zookeeper/quotas": false, "/zookeeper": false, "/": false,
	} {
		if tree.InQuotas(path) != in {
			t.Errorf("%s: %v", path, !in)
		}
	}
}

// deepCreates returns creates of so many entries with different parents, 254 of each.
func deepCreates(n int) (ops []tree.Op) {
	for i := range n {
		path := fmt.Sprintf("/%d%s", i, strings.Repeat("/a", tree.MaxDepth-1))
		ops = append(ops, tree.Create{Path: path, Kind: tree.Persistent, Parents: true})
	}
	return ops
}

// TestBoundOfWeight: a transaction within all other bounds makes no half a million entries, which every node would
// apply for seconds (U2 weight). Creates that share their parents, and those that make none, weigh little.
func TestBoundOfWeight(t *testing.T) {
	shared := make([]tree.Op, 0, 9_000)
	for range cap(shared) {
		deep := strings.Repeat("/a", 10)
		shared = append(shared, tree.Create{Path: deep + "/", Sequential: true, Kind: tree.Persistent, Parents: true})
	}
	bare := deepCreates(1000)
	for i, op := range bare {
		bare[i] = tree.Create{Path: op.Target(), Kind: tree.Persistent}
	}
	for name, x := range map[string]tree.Transaction{
		"parents": {Then: deepCreates(12), Else: deepCreates(12)}, "shared": {Then: shared}, "without parents": {Then: bare},
		"at the root":    {Then: []tree.Op{tree.Create{Path: "/", Sequential: true, Kind: tree.Persistent, Parents: true}}},
		"all operations": {Then: slices.Repeat([]tree.Op{tree.Delete{Path: "/a/b/c"}}, tree.MaxOps)},
	} {
		if err := x.CheckWeight(tree.MaxWeight); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	above := deepCreates(20)
	for _, x := range []tree.Transaction{{Then: above}, {Else: above}} {
		if err := x.Check(); err != nil {
			t.Fatal(err)
		}
		refusesField(t, x.CheckWeight(tree.MaxWeight), "transaction", fmt.Sprintf("has the weight %d: at most 50000", tree.Weight(x)))
	}
}

// P1: whom a node vouches for travels in each write, and has bounds.
func TestBoundsOfPrincipals(t *testing.T) {
	one := func(scheme, id int) tree.Principal {
		return tree.Principal{Scheme: strings.Repeat("s", scheme), ID: strings.Repeat("i", id)}
	}
	for _, all := range [][]tree.Principal{
		slices.Repeat([]tree.Principal{one(1, 1)}, tree.MaxPrincipals), {one(tree.MaxScheme, tree.MaxPrincipal-tree.MaxScheme)},
	} {
		if err := tree.CheckPrincipals(all); err != nil {
			t.Error(err)
		}
	}
	many := slices.Repeat([]tree.Principal{one(1, 1)}, tree.MaxPrincipals+1)
	refusesField(t, tree.CheckPrincipals(many), "principals", "are 17: at most 16")
	refusesField(t, tree.CheckPrincipals([]tree.Principal{one(1, tree.MaxPrincipal)}), "principals", "at most 1024")
	refusesField(t, tree.CheckPrincipals([]tree.Principal{one(tree.MaxScheme+1, 1)}), "principals[0].scheme", "1 to 64")
}
