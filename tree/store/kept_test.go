package store_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"holdfast/tree"
	"holdfast/tree/store"
)

func (w *keeping) bytes() int64 {
	_, bytes := w.tree.Freeze().Sizes()
	return bytes
}

// keeping is a tree with a bound of its bytes.
type keeping struct {
	*testing.T
	tree *store.Tree
	at   store.At
}

func (w *keeping) do(ops ...tree.Op) {
	w.Helper()
	w.at.Stamp++
	if o, _ := w.tree.Do(w.at, tree.Transaction{Then: ops}); o.Refused != nil {
		w.Fatal(o.Refused)
	}
}

// TestBoundOfBytes: a request that adds to a full tree is refused by the name of the bound and changes nothing; one
// that removes is not, and frees memory.
func TestBoundOfBytes(t *testing.T) {
	built, at := build(t)
	w := &keeping{t, built, at}
	empty := w.bytes()
	limits := tree.DefaultLimits()
	limits.Bytes = empty + 4_000
	built.SetLimits(limits)
	create := func(path string, data int) tree.Op {
		return tree.Create{Path: path, Data: make([]byte, data), Kind: tree.Persistent}
	}
	w.do(create("/a", 1_000), create("/b", 1_000), create("/c", 0))
	full := w.bytes()
	says := fmt.Sprintf("max_tree_bytes is %d, and the tree would keep ", limits.Bytes)
	refuses(t, built, at, says, create("/d", 1_500))
	refuses(t, built, at, says, tree.Create{Path: "/" + strings.Repeat("d", 2_000), Kind: tree.Persistent})
	refuses(t, built, at, says, tree.Set{Path: "/c", Data: make([]byte, 1_500), Version: tree.Any})
	refuses(t, built, at, says, tree.Create{Path: "/e/f/g/h/i/j", Kind: tree.Persistent, Parents: true})
	wide := make(tree.ACL, 30)
	for i := range wide {
		wide[i] = tree.Grant{Permissions: tree.Read, Scheme: "digest", ID: fmt.Sprintf("someone-%d:hash", i)}
	}
	refuses(t, built, at, says, tree.SetACL{Path: "/c", ACL: wide, Version: tree.Any})
	limits.Bytes = full
	built.SetLimits(limits)
	says = fmt.Sprintf("max_tree_bytes is %d, and the tree would keep ", limits.Bytes)
	refuses(t, built, at, says, tree.SetACL{Path: "/c", ACL: tree.Open(), Version: tree.Any}) // the root's, and a place
	if now := w.bytes(); now != full {
		t.Errorf("refused transactions have changed what is kept from %d to %d bytes", full, now)
	}
	limits.Bytes = 1
	built.SetLimits(limits) // a smaller bound takes nothing away
	w.do(tree.Set{Path: "/a", Data: make([]byte, 500), Version: tree.Any})
	refuses(t, built, at, "max_tree_bytes is 1,", create("/d", 0))
	for _, path := range []string{"/a", "/b", "/c"} {
		w.do(tree.Delete{Path: path, Version: tree.Any})
	}
	if now := w.bytes(); now != empty {
		t.Errorf("%d bytes are kept when everything is gone, want %d as before", now, empty)
	}
}

// TestBytesAreWhatIsKept compares what the tree counts with the heap, for entries of some shapes.
func TestBytesAreWhatIsKept(t *testing.T) {
	const n = 20_000
	for name, op := range map[string]func(i int) tree.Op{
		"small": func(i int) tree.Op {
			return tree.Create{Path: pathAt(i), Data: make([]byte, 100), Kind: tree.Persistent, Parents: true}
		},
		"empty": func(i int) tree.Op {
			return tree.Create{Path: fmt.Sprintf("/%d", i), Kind: tree.Persistent}
		},
		"long path": func(i int) tree.Op {
			return tree.Create{Path: fmt.Sprintf("/%s%d", strings.Repeat("p", 1000), i), Kind: tree.Persistent}
		},
		"ephemeral": func(i int) tree.Op {
			return tree.Create{Path: fmt.Sprintf("/service/%d", i), Data: make([]byte, 20), Kind: tree.Ephemeral, Parents: true}
		},
		"lists": func(i int) tree.Op {
			return tree.Create{Path: fmt.Sprintf("/%d", i), Kind: tree.Persistent, ACL: listNumber(i)}
		},
	} {
		_, at := build(t)
		built := store.New(&summed{}, tree.DefaultLimits(), at)
		w := &keeping{t, built, at}
		before, counted := heap(), w.bytes()
		for i := range n {
			w.do(op(i))
		}
		got, want := float64(w.bytes()-counted)/n, float64(heap()-before)/n
		t.Logf("%s: counted %.0f bytes each, the heap has %.0f", name, got, want)
		if got < 0.75*want || got > 1.6*want {
			t.Errorf("%s: counted %.0f bytes each, and the heap has %.0f", name, got, want)
		}
		runtime.KeepAlive(built)
	}
}
