package store_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"holdfast/tree"
	"holdfast/tree/store"
)

// listNumber returns an access list that grants everything to everybody, and differs from those of other numbers.
func listNumber(n int) tree.ACL {
	return append(tree.Open(), tree.Grant{Permissions: tree.Read, Scheme: "digest", ID: fmt.Sprintf("u%d:h", n)})
}

// P2, V8: whatever happened before, changes have the lists in force: those that an entry has or inherits now.
func TestInheritedListsAreThoseInForce(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	known := []string{"/a", "/a/b", "/a/b/c", "/a/b/c/d", "/a/b/c/d/e", "/a/b/x", "/a/y"}
	at := store.At{Stamp: tree.StampAt(1, 1), L: 1}
	built := store.New(&summed{}, tree.DefaultLimits(), at)
	asked, told := 0, 0
	for range 4000 {
		path := known[random.IntN(len(known))]
		var acl tree.ACL
		if random.IntN(2) == 0 {
			acl = listNumber(random.IntN(4))
		}
		fails := tree.Check{Path: "/none", Version: tree.Any}
		ops := [][]tree.Op{
			{tree.Create{Path: path, Kind: tree.Persistent, ACL: acl}},
			{tree.SetACL{Path: path, ACL: acl, Version: tree.Any}},
			{tree.DeleteTree{Path: path}, fails},
			{tree.SetACL{Path: path, ACL: acl, Version: tree.Any}, tree.Set{Path: known[4], Version: tree.Any}, fails},
			{tree.DeleteTree{Path: path}},
		}[random.IntN(5)]
		at.Stamp++
		built.Do(at, tree.Transaction{Then: ops})
		built.Do(at, tree.Transaction{Then: []tree.Op{tree.Check{Path: known[4] + "/none", Version: tree.Any}}})
		for _, probe := range known {
			at.Stamp++
			outcome, changes := built.Do(at, tree.Transaction{Then: []tree.Op{tree.Set{Path: probe, Version: tree.Any}}})
			asked++
			if outcome.Refused != nil {
				continue
			}
			told++
			if want := built.Effective(probe); !reflect.DeepEqual(*changes[0].ACL, want) {
				t.Fatalf("after %+v a change of %s tells %v, and %v is in force", ops, probe, *changes[0].ACL, want)
			}
		}
	}
	if told < asked/10 {
		t.Errorf("%d of %d probes found an entry", told, asked)
	}
}

// deepTree returns a tree with a second list and so many entries at a depth of 250 without one of their own.
func deepTree(tb testing.TB, at *store.At, entries int) *store.Tree {
	tb.Helper()
	built := store.New(&summed{}, tree.DefaultLimits(), *at)
	do := func(op tree.Op) {
		at.Stamp++
		if o, _ := built.Do(*at, tree.Transaction{Then: []tree.Op{op}}); o.Refused != nil {
			tb.Fatal(o.Refused)
		}
	}
	deep := strings.Repeat("/d", 250)
	do(tree.Create{Path: "/other", Kind: tree.Persistent, ACL: listNumber(1)})
	do(tree.Create{Path: deep, Kind: tree.Persistent, Parents: true})
	for i := range entries - 250 {
		do(tree.Create{Path: fmt.Sprintf("%s/%d", deep, i), Kind: tree.Persistent})
	}
	return built
}
