package learner

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"holdfast/session"
	"holdfast/test/bubble"
)

// Lists hold the sessions of both kinds, each once, in the order of ids.
func TestLocalSessionsAreListed(t *testing.T) {
	bubble.Test(t, func(t *testing.T) {
		w := stocked(t)
		var want []session.ID
		for n := range byte(5) {
			id := w.openLocal(w.conn, n+1).Session.ID
			w.view.put(session.Session{
				ID: id + 1<<40, Spec: session.Spec{Timeout: timeout}, Owner: 2,
				Attachment: uint64(n) + 1,
			})
			w.view.put(session.Session{
				ID: session.ID(n) + 1, Spec: session.Spec{Timeout: timeout}, Owner: 2,
				Attachment: uint64(n) + 10,
			})
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
			w.view.put(session.Session{
				ID: id, Spec: session.Spec{Timeout: timeout}, Owner: owner,
				Attachment: uint64(id),
			})
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
