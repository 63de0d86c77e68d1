package local

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// opens opens count local sessions, whose requests are numbered after first, and returns their ids.
func opens(t interface{ Fatal(...any) }, l *Table, first, count int) []session.ID {
	ids := make([]session.ID, 0, count)
	for i := range count {
		o := session.OpenRequest{Spec: session.Spec{Timeout: timeout}}
		binary.BigEndian.PutUint32(o.RequestID[:], uint32(first+i+1))
		s, err := l.Open(o, &conn{}, 0)
		if err != nil || s == nil {
			t.Fatal("open: ", s, err)
		}
		ids = append(ids, s.facts.ID)
	}
	return ids
}

// A list of many sessions does not block touches, opens and expiries, whatever its filter lets through: it looks at
// maxLocked ids at a time, including ids of ended sessions.
func TestAListDoesNotHoldUpTheOthers(t *testing.T) {
	for _, filter := range []session.Filter{{}, {Labels: session.Labels{{Key: "nobody"}}}} {
		l := tableWith(firstLocal, 10*maxLocked)
		ids := opens(t, l, 0, 4*maxLocked+1)
		for _, id := range ids[:maxLocked/2] {
			if _, err := l.Close(l.serving[id], 0, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		look := listing{query: session.Query{Size: 5 * maxLocked, Filter: filter}}
		for turn := range 4 {
			before := look.upTo
			if more := l.listOn(&look); !more || look.upTo-max(before, firstLocal-1) != maxLocked {
				t.Fatalf("turn %d went from %v to %v, and goes on: %v; want %d ids", turn, before, look.upTo, more,
					maxLocked)
			}
		}
		if l.listOn(&look) || look.scanned != len(ids)-maxLocked/2 {
			t.Errorf("looked at %d sessions, want %d", look.scanned, len(ids)-maxLocked/2)
		}
	}
}

// While sessions open and end between the turns of a list, its pages still have each session at most once, in the order
// of ids. They have every session that lives all the while, and none that ended before the list began.
func TestAListShowsWhoLivesAllTheWhileOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := tableWith(firstLocal, 1<<20)
		lasting := map[session.ID]bool{}
		opened := rapid.IntRange(0, 3*maxLocked).Draw(t, "sessions")
		for _, id := range opens(t, l, 0, opened) {
			lasting[id] = true
		}
		end := func() {
			for range rapid.SampledFrom([]int{0, 1, maxLocked}).Draw(t, "ends") {
				if len(l.order) == 0 {
					return
				}
				if s := l.serving[rapid.SampledFrom(l.order).Draw(t, "id")]; s != nil {
					delete(lasting, s.facts.ID)
					_, _ = l.Close(s, 0, time.Time{}) // cannot fail: the session is served, and no upgrade is under way
				}
			}
		}
		end()
		began := maps.Clone(lasting) // without the sessions that ended just now
		before := opened
		var got []session.ID
		q := session.Query{Size: rapid.SampledFrom([]int{1, 100, maxLocked, 5 * maxLocked}).Draw(t, "page")}
		for more := true; more; more = q.After != 0 {
			look := listing{query: q, upTo: q.After}
			for l.listOn(&look) {
				end()
				count := rapid.IntRange(0, 3).Draw(t, "opens")
				opens(t, l, opened, count)
				opened += count
			}
			if len(look.page.Sessions) > q.Size {
				t.Fatalf("a page of %d has %d", q.Size, len(look.page.Sessions))
			}
			for _, one := range look.page.Sessions {
				got = append(got, one.Session.ID)
			}
			q.After = look.page.Next
		}
		if !slices.IsSorted(got) || len(slices.Compact(slices.Clone(got))) != len(got) {
			t.Fatalf("want each session once, in order: %v", got)
		}
		for id := range lasting {
			if _, ok := slices.BinarySearch(got, id); !ok {
				t.Fatalf("%v lives all the while, but is not among %v", id, got)
			}
		}
		for _, id := range got {
			if !began[id] && id < firstLocal+session.ID(before) {
				t.Fatalf("%v ended before the list began, but is among %v", id, got)
			}
		}
	})
}

// A page of local sessions looks at as many.
func TestAPageLooksAtSoManyLocalSessions(t *testing.T) {
	const most = 100_000
	l := tableWith(firstLocal, 2*most)
	opens(t, l, 0, most+1)
	q := session.Query{Size: 10, Filter: session.Filter{Labels: session.Labels{{Key: "nobody"}}}}
	page := l.List(q, 0, nil)
	if page.Next != firstLocal+most-1 {
		t.Errorf("the page goes on after %v, want %v", page.Next, firstLocal+most-1)
	}
	if q.After = page.Next; l.List(q, 0, nil).Next != 0 {
		t.Error("there is a third page")
	}
}
