package store_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/tree"
	"holdfast/tree/store"
)

func codeOf(err error) tree.Code {
	if err == nil {
		return 0
	}
	if refused, ok := errors.AsType[*tree.RefusedError](err); ok {
		return refused.Code
	}
	return 255
}

// readable checks what principals read against the plain tree.
func readable(t *rapid.T, has *store.Root, want *plain) {
	principals := drawPrincipals(t)
	path := rapid.SampledFrom(paths).Draw(t, "read")
	v, at, n := has.As(principals), store.At{Principals: principals}, want.nodes[path]
	may := func(p tree.Permissions) bool { return want.may(at, path, p) }
	code := func(allowed bool) tree.Code {
		switch {
		case n == nil:
			return tree.NoNode
		case !allowed:
			return tree.NoPermission
		default:
			return 0
		}
	}
	node, err := v.Get(path)
	if codeOf(err) != code(may(tree.Read)) || err == nil && string(node.Data) != string(want.shown(path)) {
		t.Fatalf("get %s: %+v, %v", path, node, err)
	}
	stat, exists, err := v.Exists(path)
	if wanted := code(may(tree.Read)); exists != (wanted == 0) || wanted != tree.NoNode && codeOf(err) != wanted ||
		exists && stat != node.Stat {
		t.Fatalf("exists %s: %v, %v", path, exists, err)
	}
	if _, err := v.ACL(path); codeOf(err) != code(may(tree.Read) || may(tree.Admin)) {
		t.Fatalf("ACL of %s: %v", path, err)
	}
	listed(t, v, path, want, code(may(tree.Read)))
}

// listed checks the pages of a list.
func listed(t *rapid.T, v tree.View, path string, want *plain, code tree.Code) {
	detail := rapid.SampledFrom([]tree.Detail{tree.JustNames, tree.WithStats, tree.WithData}).Draw(t, "detail")
	bounds := tree.PageBounds{
		Entries: rapid.IntRange(1, 3).Draw(t, "entries"), Bytes: rapid.IntRange(1, 300).Draw(t, "bytes"),
		Backward: rapid.Bool().Draw(t, "backward"),
	}
	var names []string
	for more := true; more; {
		page, err := v.List(path, bounds, detail)
		if codeOf(err) != code {
			t.Fatalf("list %s: %v, want %v", path, err, code)
		}
		if err != nil {
			return
		}
		if more = page.More; len(page.Children) == 0 && more || len(page.Children) > bounds.Entries {
			t.Fatalf("a page of %d, with %d wanted", len(page.Children), bounds.Entries)
		}
		for _, c := range page.Children {
			child, err := v.Get(tree.Join(path, c.Name))
			if c.Hidden != (detail != tree.JustNames && err != nil) {
				t.Fatalf("%s is hidden: %v; get says %v", c.Name, c.Hidden, err)
			}
			if detail != tree.JustNames && !c.Hidden && c.Stat != child.Stat ||
				detail == tree.WithData && !c.Hidden && !reflect.DeepEqual(c.Data, child.Data) {
				t.Fatalf("listed as %+v, read as %+v", c, child)
			}
			names = append(names, c.Name)
			bounds.After = c.Name
		}
	}
	if bounds.Backward {
		slices.Reverse(names)
	}
	if !slices.Equal(names, want.childrenOf(path)) {
		t.Fatalf("pages have %v, want %v", names, want.childrenOf(path))
	}
}

// build returns a tree that the operations have made for session 7.
func build(t *testing.T, ops ...tree.Op) (*store.Tree, store.At) {
	t.Helper()
	at := store.At{
		Stamp: tree.StampAt(1, 1), L: time.Second, Session: 7, Principals: []tree.Principal{{Scheme: tree.Super}},
	}
	built := store.New(bag{}, tree.DefaultLimits(), at)
	if o, _ := built.Do(at, tree.Transaction{Then: ops}); o.Refused != nil {
		t.Fatal(o.Refused)
	}
	return built, at
}

// TestPages: a page ends at either bound, and has one entry at least.
func TestPages(t *testing.T) {
	large := make([]byte, 1000)
	built, _ := build(t,
		tree.Create{Path: "/a/1", Kind: tree.Persistent, Parents: true, Data: large},
		tree.Create{Path: "/a/2", Kind: tree.Persistent, Data: large},
		tree.Create{Path: "/a/3", Kind: tree.Persistent})
	v := built.Freeze().As(nil)
	for _, c := range []struct {
		after          string
		entries, bytes int
		detail         tree.Detail
		want           string
		more           bool
	}{
		{"", 10, 10_000, tree.WithData, "1 2 3", false},
		{"", 2, 10_000, tree.WithData, "1 2", true},
		{"", 10, 1, tree.WithData, "1", true},
		{"", 10, 1500, tree.WithData, "1", true},
		{"1", 10, 1500, tree.WithData, "2 3", false},
		{"", 10, 1500, tree.WithStats, "1 2 3", false},
		{"", 10, 1, tree.JustNames, "1", true},
		{"1x", 10, 100, tree.JustNames, "2 3", false},
		{"3", 10, 100, tree.JustNames, "", false},
		{"<", 10, 100, tree.JustNames, "3 2 1", false},
		{"<", 1, 100, tree.JustNames, "3", true},
		{"<3", 1, 100, tree.JustNames, "2", true},
		{"<2x", 10, 100, tree.JustNames, "2 1", false},
		{"<2", 10, 100, tree.JustNames, "1", false},
		{"<1", 10, 100, tree.JustNames, "", false},
	} {
		after, backward := strings.CutPrefix(c.after, "<")
		bounds := tree.PageBounds{After: after, Backward: backward, Entries: c.entries, Bytes: c.bytes}
		page, err := v.List("/a", bounds, c.detail)
		var names []string
		for _, one := range page.Children {
			names = append(names, one.Name)
		}
		if err != nil || strings.Join(names, " ") != c.want || page.More != c.more || page.Stat.Children != 3 {
			t.Errorf("%+v: %v, more %v, %v", c, names, page.More, err)
		}
	}
	for _, b := range []tree.PageBounds{{Entries: 0, Bytes: 1}, {Entries: 1, Bytes: 0}, {Entries: 100_001, Bytes: 1}} {
		if _, err := v.List("/a", b, tree.JustNames); !errors.Is(err, tree.ErrInvalid) {
			t.Errorf("%+v: %v", b, err)
		}
	}
}

// TestEphemeralsPage compares pages with a filter of all that a session owns.
func TestEphemeralsPage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		at := store.At{Stamp: tree.StampAt(1, 1), L: time.Second}
		has := store.New(bag{}, tree.DefaultLimits(), at)
		for range rapid.IntRange(0, 40).Draw(t, "n") {
			at.Session = rapid.Uint64Range(1, 3).Draw(t, "session")
			names := rapid.SliceOfN(rapid.SampledFrom([]string{"a", "ab", "b", "c-"}), 1, 4).Draw(t, "names")
			path := "/" + strings.Join(names, "/")
			has.Do(at, tree.Transaction{Then: []tree.Op{tree.Create{
				Path: path, Sequential: rapid.Bool().Draw(t, "sequential"), Kind: tree.Ephemeral, Parents: true,
			}}})
		}
		prefix := rapid.SampledFrom([]string{"", "/", "/a", "/ab/", "/a/b", "/a/ab/", "b", "/c-/a"}).Draw(t, "prefix")
		bounds := tree.PageBounds{
			Entries: rapid.IntRange(1, 4).Draw(t, "entries"), Bytes: rapid.IntRange(1, 100).Draw(t, "bytes"),
		}
		var got, want []string
		has.Owned(2, func(path string) bool {
			if strings.HasPrefix(path, prefix) {
				want = append(want, path)
			}
			return true
		})
		for more := true; more; {
			paths, further, err := has.Freeze().EphemeralsPage(2, prefix, bounds)
			if err != nil || further && len(paths) == 0 || len(paths) > bounds.Entries {
				t.Fatalf("%+v: %v, %v, %v", bounds, paths, further, err)
			}
			if got, more = append(got, paths...), further; more {
				bounds.After = paths[len(paths)-1]
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("below %q: %v, want %v", prefix, got, want)
		}
	})
	if _, _, err := new(store.Root).EphemeralsPage(1, "", tree.PageBounds{}); !errors.Is(err, tree.ErrInvalid) {
		t.Error(err)
	}
}

// TestCheckFence: a token is good while its owner holds the lock, and never again.
func TestCheckFence(t *testing.T) {
	lock := tree.Create{Path: "/lock", Kind: tree.Ephemeral, LockDelay: time.Second}
	built, at := build(t, lock, tree.Create{Path: "/plain", Kind: tree.Persistent})
	check := func(path string, token tree.Stamp) tree.Code {
		owner, err := built.Freeze().As(nil).CheckFence(path, token)
		if (err == nil) != (owner == 7) {
			t.Errorf("%s is owned by %d, %v", path, owner, err)
		}
		return codeOf(err)
	}
	first := at.Stamp
	if c := check("/lock", first); c != 0 {
		t.Errorf("held: %v", c)
	}
	if c := check("/plain", first); c != tree.NoNode {
		t.Errorf("without an owner: %v", c)
	}
	at.Stamp++
	built.ExpireSession(at, 7, nil)
	if c := check("/lock", first); c != tree.NoNode {
		t.Errorf("in its lock-delay: %v", c)
	}
	at.Stamp++
	built.Do(at, tree.Transaction{Then: []tree.Op{tree.Delete{Path: "/lock", Version: tree.Any}, lock}})
	if c := check("/lock", first); c != tree.BadVersion {
		t.Errorf("after another acquisition: %v", c)
	}
	if c := check("/lock", at.Stamp); c != 0 {
		t.Errorf("held again: %v", c)
	}
	built.CloseSession(at, 7, nil)
	if c := check("/lock", at.Stamp); c != tree.NoNode {
		t.Errorf("gone: %v", c)
	}
}

// TestHiddenDigests: without Admin nobody sees the secret of a digest (P2 access lists).
func TestHiddenDigests(t *testing.T) {
	acl := tree.ACL{
		{Permissions: tree.All, Scheme: tree.Digest, ID: "joe:secret"},
		{Permissions: tree.Read, Scheme: tree.World, ID: tree.Anyone},
	}
	built, _ := build(t,
		tree.Create{Path: "/a/b", Kind: tree.Persistent, Parents: true},
		tree.SetACL{Path: "/a", ACL: acl, Version: tree.Any})
	root := built.Freeze()
	for _, c := range []struct {
		who []tree.Principal
		id  string
	}{{nil, "joe:x"}, {[]tree.Principal{{Scheme: tree.Digest, ID: "joe:secret"}}, "joe:secret"}} {
		got, err := root.As(c.who).ACL("/a/b")
		if err != nil || got.ACL[0].ID != c.id || !got.Inherited || len(got.ACL) != 2 {
			t.Errorf("%v: %+v, %v", c.who, got, err)
		}
	}
	if root.Effective("/a")[0].ID != "joe:secret" {
		t.Error("masking changed the tree")
	}
}
