package learner

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
)

// opens opens so many local sessions after the first of them, and returns their ids.
func opens(t interface{ Fatal(...any) }, l *Local, first, count int) []session.ID {
	ids := make([]session.ID, 0, count)
	for i := range count {
		o := opening{timeout: timeout}
		binary.BigEndian.PutUint32(o.RequestID[:], uint32(first+i+1))
		s, err := l.open(o, 0)
		if err != nil || s == nil {
			t.Fatal("open: ", s, err)
		}
		ids = append(ids, s.facts.ID)
	}
	return ids
}

// A list of many sessions lets touches, opens and expiries in between, whatever its filter lets through: it looks at so
// many ids at a time, also at those that have ended.
func TestAListDoesNotHoldUpTheOthers(t *testing.T) {
	for _, filter := range []session.Filter{{}, {Labels: session.Labels{{Key: "nobody"}}}} {
		l := localWith(firstLocal, 10*maxHeld)
		ids := opens(t, l, 0, 4*maxHeld+1)
		for _, id := range ids[:maxHeld/2] {
			if _, err := l.close(l.serving[id], 0, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
		look := localLook{query: session.Query{Size: 5 * maxHeld, Filter: filter}}
		for turn := range 4 {
			before := look.upTo
			if more := l.lookOn(&look); !more || look.upTo-max(before, firstLocal-1) != maxHeld {
				t.Fatalf("turn %d went from %v to %v, and goes on: %v; want %d ids", turn, before, look.upTo, more,
					maxHeld)
			}
		}
		if l.lookOn(&look) || look.looked != len(ids)-maxHeld/2 {
			t.Errorf("looked at %d sessions, want %d", look.looked, len(ids)-maxHeld/2)
		}
	}
}

// The pages of a list, with sessions opened and ended between any two of its turns, have whoever lives all the while
// exactly once, nobody twice, and nobody who ended before it began; in the order of ids.
func TestAListShowsWhoLivesAllTheWhileOnce(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := localWith(firstLocal, 1<<20)
		lasting := map[session.ID]bool{}
		opened := rapid.IntRange(0, 3*maxHeld).Draw(t, "sessions")
		for _, id := range opens(t, l, 0, opened) {
			lasting[id] = true
		}
		end := func() {
			for range rapid.SampledFrom([]int{0, 1, maxHeld}).Draw(t, "ends") {
				if len(l.order) == 0 {
					return
				}
				if s := l.serving[rapid.SampledFrom(l.order).Draw(t, "id")]; s != nil {
					delete(lasting, s.facts.ID)
					_, _ = l.close(s, 0, time.Time{}) // it is served, and nothing is under way
				}
			}
		}
		end()
		began := maps.Clone(lasting) // and none of those that ended just now
		before := opened
		var got []session.ID
		q := session.Query{Size: rapid.SampledFrom([]int{1, 100, maxHeld, 5 * maxHeld}).Draw(t, "page")}
		for more := true; more; more = q.After != 0 {
			look := localLook{query: q, upTo: q.After}
			for l.lookOn(&look) {
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
			t.Fatalf("not each once, in order: %v", got)
		}
		for id := range lasting {
			if _, ok := slices.BinarySearch(got, id); !ok {
				t.Fatalf("%v lives all the while and is not among %v", id, got)
			}
		}
		for _, id := range got {
			if !began[id] && id < firstLocal+session.ID(before) {
				t.Fatalf("%v ended before and is among %v", id, got)
			}
		}
	})
}
