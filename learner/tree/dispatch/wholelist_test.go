package dispatch_test

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/learner/tree/dispatch"
	"holdfast/tree"
	"holdfast/tree/store"
)

// TestWholeLists: a whole list shows the tree as of its place among the answers, in more than one page of it, whatever
// changes before it is read (G2 atomic reads). Its watch gets those changes.
func TestWholeLists(t *testing.T) {
	const many = 6000
	w, l, c := quietWorld(t, dispatch.DefaultLimits())
	w.set("/a", nil)
	w.index++
	ops := make([]tree.Op, many)
	for i := range ops {
		path := fmt.Sprintf("/a/%04d-%s", i, strings.Repeat("x", 200))
		ops[i] = tree.Create{Path: path, Kind: tree.Persistent}
	}
	at := store.At{Stamp: tree.StampAt(w.index, 1), Principals: root}
	_, changes := w.tree.Do(at, tree.Transaction{Then: ops})
	w.hub.Applied(w.published(), changes, nil)
	l.Pass()
	shown := w.index
	q := tree.Query{Kind: tree.ListChildren, Path: "/a", Whole: true, Watch: true}
	if _, err := l.Read(c, dispatch.Read{Key: 1, Query: q}); err != nil {
		t.Fatal(err)
	}
	work := l.Work()
	if waiting := c.Unsent(); waiting < 16*many {
		t.Errorf("a list of %d names that is not there yet counts %d bytes", many, waiting)
	}
	w.set("/a/later", nil)
	l.Pass()
	work[0].Do()
	if all := c.Unsent(); all < 200*many {
		t.Errorf("a list of %d names of 200 bytes counts %d", many, all)
	}
	s, ok := c.Next(w.now)
	if !ok || s.Value.Answer == nil || s.Value.Answer.Err != nil {
		t.Fatalf("next is %+v", s)
	}
	a := s.Value.Answer
	if names := a.Read.Paths; len(names) != many || names[many-1] != ops[many-1].(tree.Create).Path[len("/a/"):] {
		t.Errorf("a list of %d names", len(names))
	}
	if a.Stamp.Index() != shown || a.Read.Stat.Children != many || a.Read.More {
		t.Errorf("as of %v, of %d children", a.Stamp, a.Read.Stat.Children)
	}
	w.want(l, c, "children changed /a")
	q.Path = "/none"
	if _, err := l.Read(c, dispatch.Read{Key: 2, Query: q}); err != nil {
		t.Fatal(err)
	}
	w.want(l, c, `refused 2: list /none: the entry does not exist (NO_NODE)`)
	if unsent := c.Unsent(); unsent != 0 {
		t.Errorf("%d bytes are unsent", unsent)
	}
}
