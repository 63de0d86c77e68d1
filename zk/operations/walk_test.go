package operations

import (
	"fmt"
	"strings"
	"testing"

	"holdfast/tree"
)

// A walk over a wide tree counts all entries and holds few of their names, however many there are.
func TestAWalkHoldsFewNames(t *testing.T) {
	const wide, page = 50_000, 1000
	// /a has so many children. Each has two: one with a child, and one without.
	children := func(path string) (n int, below func(i int) int) {
		switch strings.Count(path, "/") {
		case 1:
			return wide, func(int) int { return 2 }
		case 2:
			return 2, func(i int) int { return i }
		default:
			return 1, func(int) int { return 0 }
		}
	}
	w, most, asked := &walk{left: []*branch{{name: "/a"}}}, 0, map[string]bool{}
	for len(w.left) > 0 {
		q := w.query()
		if asked[q.Path+"?"+q.After] {
			t.Fatalf("%s is asked for twice, behind %q", q.Path, q.After)
		}
		asked[q.Path+"?"+q.After] = true
		n, below := children(q.Path)
		from := 0
		if q.After != "" {
			_, _ = fmt.Sscanf(q.After, "n%d", &from)
			from++
		}
		a := &tree.Answer{More: from+page < n}
		for i := from; i < min(from+page, n); i++ {
			a.Children = append(a.Children, tree.Child{
				Name: fmt.Sprintf("n%07d", i), Stat: tree.Stat{Children: below(i)},
			})
		}
		w.add(a)
		most = max(most, len(w.left))
	}
	if want := int32(wide * (1 + 2 + 1)); w.count != want {
		t.Errorf("counted %d, want %d", w.count, want)
	}
	if most > 2*page {
		t.Errorf("held %d names of %d at a time", most, wide)
	}
}
