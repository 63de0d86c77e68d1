package learner

import (
	"context"
	"encoding/binary"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"holdfast/session"
	"holdfast/test/bubble"
)

// opens opens count local sessions, whose requests are numbered after first, and returns their ids.
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

// A list of many sessions does not block touches, opens and expiries, whatever its filter lets through: it looks at
// maxHeld ids at a time, including ids of ended sessions.
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

// While sessions open and end between the turns of a list, its pages still have each session at most once, in the order
// of ids. They have every session that lives all the while, and none that ended before the list began.
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
					_, _ = l.close(s, 0, time.Time{}) // cannot fail: the session is served, and no upgrade is under way
				}
			}
		}
		end()
		began := maps.Clone(lasting) // without the sessions that ended just now
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

// Lists hold the sessions of both kinds, each once, in the order of ids.
func TestLocalSessionsAreListed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		var want []session.ID
		for n := range byte(5) {
			id := w.openLocal(w.conn, n+1).Session.ID
			w.view.put(session.Session{ID: id + 1<<40, Timeout: timeout, Owner: 2, Attachment: uint64(n) + 1})
			w.view.put(session.Session{ID: session.ID(n) + 1, Timeout: timeout, Owner: 2, Attachment: uint64(n) + 10})
			want = append(want, id, id+1<<40, session.ID(n)+1)
		}
		slices.Sort(want)
		ctx, cancel := context.WithCancel(t.Context())
		served := make(chan struct{})
		go func() {
			defer close(served)
			for {
				select {
				case m := <-w.leader.toLeader:
					r := m.Requests[0]
					w.leader.reply(
						session.Reply{Seq: r.Seq, Remaining: make([]time.Duration, len(r.Read.Remaining))},
					)
				case <-ctx.Done():
					return
				}
			}
		}()
		defer func() { cancel(); <-served }()
		for size := 1; size <= len(want)+1; size++ {
			var got []session.ID
			q := session.Query{Size: size}
			for more := true; more; {
				page, err := w.server.List(t.Context(), q)
				if err != nil || len(page.Sessions) > size {
					t.Fatalf("page of %d: %d sessions, %v", size, len(page.Sessions), err)
				}
				for _, l := range page.Sessions {
					got = append(got, l.Session.ID)
				}
				q.After, more = page.Next, page.Next != 0
			}
			if !slices.Equal(got, want) {
				t.Errorf("in pages of %d: %v\nwant %v", size, got, want)
			}
		}
		for scope, n := range map[session.Scope]int{session.ScopeLocal: 5, session.ScopeGlobal: 10, 0: 15} {
			page, err := w.server.List(t.Context(), session.Query{Size: 100, Filter: session.Filter{Scope: scope}})
			if err != nil || len(page.Sessions) != n {
				t.Errorf("scope %d: %d sessions, %v; want %d", scope, len(page.Sessions), err, n)
			}
		}
	})
}

// When an upgrade between the two reads puts a session on both pages, the merged page has it once, as the global one.
func TestMergeKeepsTheGlobalOne(t *testing.T) {
	listed := func(local bool, ids ...session.ID) (page session.Page) {
		for _, id := range ids {
			page.Sessions = append(page.Sessions, session.Listed{Session: session.Session{ID: id, Local: local}})
		}
		return page
	}
	for size, want := range map[int]string{10: "1g 2g 3l 4g", 3: "1g 2g 3l", 2: "1g 2g"} {
		page := merge(listed(false, 1, 2, 4), listed(true, 2, 3, 4), size)
		var got []string
		for _, l := range page.Sessions {
			kind := "g"
			if l.Session.Local {
				kind = "l"
			}
			got = append(got, strconv.Itoa(int(l.Session.ID))+kind)
		}
		if s := strings.Join(got, " "); s != want || (page.Next != 0) != (size < 4) {
			t.Errorf("a page of %d: %q and next %v, want %q", size, s, page.Next, want)
		}
	}
}

// The soonest to expire are the leader's and the node's own, by their time left, on one page. A session that was
// upgraded meanwhile counts once, and one that has ended or moved meanwhile not at all.
func TestSoonestOfBothKinds(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		older := w.openLocal(w.conn, 1).Session.ID
		time.Sleep(time.Second)
		newer := w.openLocal(w.conn, 2).Session.ID
		for id, owner := range map[session.ID]session.Node{1: 2, 2: 2, 3: 3, newer: 1} {
			w.view.put(session.Session{ID: id, Timeout: timeout, Owner: owner, Attachment: uint64(id)})
		}
		for _, c := range []struct {
			size   int
			filter session.Filter
			want   []session.ID
		}{
			{10, session.Filter{}, []session.ID{1, 3, older, newer}},
			{3, session.Filter{}, []session.ID{1, 3, older}},
			{10, session.Filter{Owner: 2}, []session.ID{1}},
			{10, session.Filter{Scope: session.ScopeGlobal}, []session.ID{1, 3, newer}},
		} {
			pages := make(chan session.Page, 1)
			go func() {
				p, err := w.server.List(t.Context(), session.Query{Size: c.size, Filter: c.filter, Soonest: true})
				if err != nil {
					t.Error(err)
				}
				pages <- p
			}()
			synctest.Wait()
			asked := w.leader.request()
			if asked.Soonest == nil || asked.Soonest.Size != c.size || asked.Soonest.Filter.Owner != c.filter.Owner {
				t.Fatalf("asked for %+v, want the soonest", asked)
			}
			w.leader.reply(session.Reply{
				Seq: asked.Seq, Soonest: []session.ID{1, 7, 3, newer},
				Remaining: []time.Duration{0, 1, 2, timeout},
			})
			var got []session.ID
			page := <-pages
			for _, l := range page.Sessions {
				got = append(got, l.Session.ID)
			}
			if !slices.Equal(got, c.want) || page.Next != 0 {
				t.Errorf("%d of %+v: %v and next %v, want %v", c.size, c.filter, got, page.Next, c.want)
			}
		}
		q := session.Query{Size: 1, Filter: session.Filter{Scope: session.ScopeLocal}, Soonest: true}
		if p, err := w.server.List(t.Context(), q); err != nil || len(p.Sessions) != 1 || p.Sessions[0].Session.ID != older {
			t.Errorf("of local sessions: %+v, %v, want %v", p, err, older)
		}
	})
}
